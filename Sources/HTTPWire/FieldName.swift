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
    ///
    /// Letters, digits and ``!#$%&'*+-.^_`|~``.
    @inlinable @inline(__always)
    package static func isToken(_ byte: UInt8) -> Bool {
        contains(byte, 0x03FF_6CFA_0000_0000, 0x57FF_FFFF_C7FF_FFFE)
    }

    /// Whether a byte is in a set of ASCII characters, which has a bit for each: of the first 64, of the last 64.
    @inlinable @inline(__always)
    static func contains(_ byte: UInt8, _ first: UInt64, _ last: UInt64) -> Bool {
        byte < 128 && (byte < 64 ? first : last) >> UInt64(byte & 63) & 1 == 1
    }

    /// Whether the byte is allowed in a field value: visible characters, space, tab and obs-text.
    @inlinable @inline(__always)
    package static func isFieldValue(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != 0x7F || byte == 0x09
    }

    /// ASCII lower case.
    @inlinable @inline(__always)
    package static func lower(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }
}
