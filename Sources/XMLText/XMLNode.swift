/// An element of a small XML document: names without prefix, text, and the elements in it.
package struct XMLNode: Sendable {
    package let name: String
    package let text: String
    package let children: [XMLNode]

    /// The text of the first element with this name; `nil` if there is none.
    package subscript(_ name: String) -> String? { children.first { $0.name == name }?.text }

    package func all(_ name: String) -> [XMLNode] { children.filter { $0.name == name } }

    /// The root of a document; `nil` for what is no XML, or more than `XMLReader.Limits` allow.
    package static func parse(_ bytes: [UInt8]) -> XMLNode? {
        var reader = XMLReader(bytes)
        return try? reader.read()
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
