/// The name of a header or trailer field; comparison ignores case (RFC 9110 §5.1).
package struct FieldName: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The spelling on the wire.
    package let spelling: String

    /// A name known at compile time; does not allocate.
    package init(stringLiteral value: String) {
        spelling = value
    }

    /// A name from outside; `nil` unless it is a token (RFC 9110 §5.6.2).
    package init?(_ text: some StringProtocol) {
        guard !text.isEmpty, text.utf8.allSatisfy(HTTPCharacters.isToken) else { return nil }
        spelling = String(text)
    }

    package var description: String { spelling }

    package static func == (left: FieldName, right: FieldName) -> Bool {
        left.spelling.utf8.elementsEqual(right.spelling.utf8) {
            HTTPCharacters.lower($0) == HTTPCharacters.lower($1)
        }
    }

    package func hash(into hasher: inout Hasher) {
        for byte in spelling.utf8 { hasher.combine(HTTPCharacters.lower(byte)) }
    }
}

/// Character classes of RFC 9110 §5.5 and §5.6.2.
package enum HTTPCharacters {
    /// Whether the byte is allowed in a token: method, field name, parameter name.
    package static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"),
            UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "^"), UInt8(ascii: "_"), UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
            true
        default: false
        }
    }

    /// Whether the byte is allowed in a field value: visible characters, space, tab and obs-text.
    package static func isFieldValue(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != 0x7F || byte == 0x09
    }

    /// ASCII lower case.
    package static func lower(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }
}
