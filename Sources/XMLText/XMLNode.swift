internal import Foundation
internal import FoundationXML

/// An element of a small XML document: names without prefix, text, and the elements in it.
package struct XMLNode: Sendable {
    package let name: String
    package private(set) var text = ""
    package private(set) var children: [XMLNode] = []

    /// The text of the first element with this name; `nil` if there is none.
    package subscript(_ name: String) -> String? { children.first { $0.name == name }?.text }

    package func all(_ name: String) -> [XMLNode] { children.filter { $0.name == name } }

    /// The root of a document; `nil` for what is no XML.
    package static func parse(_ bytes: [UInt8]) -> XMLNode? {
        // Whitespace before the declaration, which stores send while they work, is not allowed in XML.
        let start = bytes.firstIndex { $0 != 0x20 && $0 != 0x0A && $0 != 0x0D && $0 != 0x09 } ?? bytes.endIndex
        guard start < bytes.endIndex else { return nil }
        let parser = XMLParser(data: Data(bytes[start...]))
        parser.shouldProcessNamespaces = true
        parser.shouldResolveExternalEntities = false
        let builder = Builder()
        parser.delegate = builder
        guard parser.parse() else { return nil }
        return builder.root
    }

    private final class Builder: NSObject, XMLParserDelegate {
        var root: XMLNode?
        private var open: [XMLNode] = []

        func parser(
            _ parser: XMLParser,
            didStartElement name: String,
            namespaceURI: String?,
            qualifiedName: String?,
            attributes: [String: String]
        ) {
            // No answer of a store is so deep; a recursive copy must not be either.
            guard open.count < 16 else { return parser.abortParsing() }
            open.append(XMLNode(name: name))
        }

        func parser(_ parser: XMLParser, foundCharacters text: String) {
            if !open.isEmpty { open[open.count - 1].text += text }
        }

        func parser(
            _ parser: XMLParser,
            didEndElement name: String,
            namespaceURI: String?,
            qualifiedName: String?
        ) {
            guard let node = open.popLast() else { return }
            if open.isEmpty { root = node } else { open[open.count - 1].children.append(node) }
        }
    }
}

/// Text for an element of a document that is sent.
package func xmlEscaped(_ text: String) -> String {
    var escaped = ""
    for character in text.unicodeScalars {
        switch character {
        case "&": escaped += "&amp;"
        case "<": escaped += "&lt;"
        case ">": escaped += "&gt;"
        case "\"": escaped += "&quot;"
        default: escaped.unicodeScalars.append(character)
        }
    }
    return escaped
}
