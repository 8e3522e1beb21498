internal import Bytes
internal import Foundation
internal import XMLText

/// What a response of Alibaba Cloud's OpenAPI tells: written as JSON or XML.
package struct AliyunDocument: Sendable {
    package enum Value: Sendable {
        case text(String)
        case integer(Int64)
        case number(Double)
        case flag(Bool)
        case object(AliyunDocument)
        /// A list; in XML each member is an element of this name.
        case list(of: String, [Value])
        /// A list inside an object with one member of this name; in XML like `list`.
        case named(String, [Value])
    }

    /// In their order.
    package var members: [(name: String, value: Value)]

    package init(_ members: [(String, Value)] = []) { self.members = members.map { (name: $0.0, value: $0.1) } }

    /// Adds a text, if there is one.
    package mutating func add(_ name: String, _ text: String?) {
        if let text { members.append((name: name, value: .text(text))) }
    }

    package mutating func add(_ name: String, _ value: Value) { members.append((name: name, value: value)) }

    // MARK: JSON

    package var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Texts, finite numbers and lists of them always encode.
        return Array((try? encoder.encode(Coded(document: self))) ?? Data())
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    private struct Coded: Encodable {
        let document: AliyunDocument

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Name.self)
            for member in document.members {
                try container.encode(CodedValue(value: member.value), forKey: Name(stringValue: member.name))
            }
        }
    }

    private struct CodedValue: Encodable {
        let value: Value

        func encode(to encoder: any Encoder) throws {
            switch value {
            case .object(let document): try Coded(document: document).encode(to: encoder)
            case .list(_, let values): try values.map { CodedValue(value: $0) }.encode(to: encoder)
            case .named(let name, let values):
                try Coded(document: AliyunDocument([(name, .list(of: name, values))])).encode(to: encoder)
            case .text(let text): try text.encode(to: encoder)
            case .integer(let number): try number.encode(to: encoder)
            case .number(let number): try number.encode(to: encoder)
            case .flag(let flag): try flag.encode(to: encoder)
            }
        }
    }

    // MARK: XML

    package func xml(_ root: String) -> [UInt8] {
        Array("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\(Self.element(root, .object(self)))\n".utf8)
    }

    private static func element(_ name: String, _ value: Value) -> String { "<\(name)>\(content(value))</\(name)>" }

    private static func content(_ value: Value) -> String {
        switch value {
        case .object(let document): document.members.map { element($0.name, $0.value) }.joined()
        case .list(let name, let values), .named(let name, let values): values.map { element(name, $0) }.joined()
        case .text(let text): xmlEscaped(legal(text))
        case .integer(let number): String(number)
        case .number(let number): String(number)
        case .flag(let flag): String(flag)
        }
    }

    /// The text with U+FFFD instead of what no XML document can have (XML 1.0 §2.2); ids that were not found can have any.
    private static func legal(_ text: String) -> String {
        func isLegal(_ scalar: Unicode.Scalar) -> Bool {
            switch scalar.value {
            case 0x9, 0xA, 0xD, 0x20...0xFFFD, 0x10000...: true
            default: false
            }
        }
        guard !text.unicodeScalars.allSatisfy(isLegal) else { return text }
        var copy = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { copy.append(isLegal(scalar) ? scalar : "\u{FFFD}") }
        return String(copy)
    }
}
