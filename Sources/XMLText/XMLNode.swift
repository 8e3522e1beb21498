package import Bytes

/// An element of a small XML document: its name without prefix, its text and its child elements.
package struct XMLNode: Sendable {
    package let name: ExactText
    package let text: String
    package let children: [XMLNode]

    /// The text of the first child element with this name, or `nil`.
    package subscript(_ name: String) -> String? { first(name)?.text }

    /// The first child element with this name.
    package func first(_ name: String) -> XMLNode? { children.first { $0.name.text.isExactly(name) } }

    package func all(_ name: String) -> [XMLNode] { children.filter { $0.name.text.isExactly(name) } }

    /// The root element of a document; `nil` if it is not XML or exceeds `XMLReader.Limits`.
    package static func parse(_ bytes: [UInt8]) -> XMLNode? {
        var reader = XMLReader(bytes)
        return try? reader.read()
    }
}

/// Escapes text for an element or attribute of an XML document.
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
