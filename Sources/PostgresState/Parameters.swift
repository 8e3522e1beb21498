internal import Bytes
internal import StateRecords

/// A value of a statement, as text in PostgreSQL's format.
protocol Parameter: Sendable {
    var postgresText: String { get }
}

extension String: Parameter {
    var postgresText: String { StorableText.encode(self) }
}

extension Int64: Parameter {
    var postgresText: String { description }
}

extension Int: Parameter {
    var postgresText: String { description }
}

extension Bool: Parameter {
    var postgresText: String { self ? "t" : "f" }
}

extension Milliseconds: Parameter {
    var postgresText: String { value.description }
}

extension JSONText: Parameter {
    var postgresText: String { text.postgresText }
}

extension [UInt8]: Parameter {
    var postgresText: String { "\\x" + Hexadecimal.encode(self) }
}

/// A value of type `text[]`, or of another array type as the texts of its elements
/// (https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO).
struct TextArray: Parameter {
    /// The elements in PostgreSQL's format; `nil` is null.
    private let texts: [String?]

    init(_ values: [String]) { texts = values.map(\.postgresText) }

    init(texts: [String?]) { self.texts = texts }

    var postgresText: String {
        var text: [UInt8] = [UInt8(ascii: "{")]
        for (index, value) in texts.enumerated() {
            if index > 0 { text.append(UInt8(ascii: ",")) }
            guard let value else {
                text += "NULL".utf8
                continue
            }
            text.append(UInt8(ascii: "\""))
            for byte in value.utf8 {
                if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { text.append(UInt8(ascii: "\\")) }
                text.append(byte)
            }
            text.append(UInt8(ascii: "\""))
        }
        text.append(UInt8(ascii: "}"))
        return String(decoding: text, as: UTF8.self)
    }
}

/// A value of type `bigint[]`.
struct IntegerArray: Parameter {
    let values: [Int64]

    init(_ values: [Int64]) { self.values = values }

    var postgresText: String { "{" + values.map(\.description).joined(separator: ",") + "}" }
}
