internal import Bytes

/// Values of structured fields (RFC 9651): the Items and Dictionaries that Sluice uses.
///
/// Parameters are validated and ignored.
package enum StructuredField: Sendable, Equatable {
    /// At most 15 digits (§3.3.1).
    case integer(Int64)
    case boolean(Bool)
    case bytes([UInt8])
    /// A token, string, decimal, date or inner list: well-formed, but not used here.
    case other

    /// An Item (§4.2.3).
    ///
    /// - Returns: `nil` if the text is not an Item; such a field must be ignored (§4.2).
    package static func item(_ text: String) -> StructuredField? {
        var parser = StructuredFieldParser(text)
        parser.skipSpaces()
        guard let value = parser.item() else { return nil }
        parser.skipSpaces()
        return parser.isAtEnd ? value : nil
    }

    /// A Dictionary (§4.2.2); the last value of a repeated key counts.
    ///
    /// - Returns: `nil` if the text is not a Dictionary.
    package static func dictionary(_ text: String) -> [String: StructuredField]? {
        var parser = StructuredFieldParser(text)
        parser.skipSpaces()
        var members: [String: StructuredField] = [:]
        while !parser.isAtEnd {
            guard let key = parser.key() else { return nil }
            if parser.take("=") {
                guard let value = parser.item() ?? parser.innerList() else { return nil }
                members[key] = value
            } else {
                guard parser.parameters() else { return nil }
                members[key] = .boolean(true)
            }
            parser.skipOptionalSpace()
            if parser.isAtEnd { return members }
            guard parser.take(",") else { return nil }
            parser.skipOptionalSpace()
            // A trailing comma (§4.2.2).
            if parser.isAtEnd { return nil }
        }
        return members
    }

    /// The text of a Boolean item (§4.1.9).
    package static func text(_ value: Bool) -> String { value ? "?1" : "?0" }

    /// The text of a Byte Sequence item (§4.1.8).
    package static func text(_ value: [UInt8]) -> String { ":" + Base64.encode(value) + ":" }
}

private struct StructuredFieldParser {
    private let text: [UInt8]
    private var index = 0

    init(_ text: String) { self.text = Array(text.utf8) }

    var isAtEnd: Bool { index == text.count }

    private var current: UInt8? { index < text.count ? text[index] : nil }

    mutating func skipSpaces() { while current == UInt8(ascii: " ") { index += 1 } }

    mutating func skipOptionalSpace() {
        while current == UInt8(ascii: " ") || current == UInt8(ascii: "\t") { index += 1 }
    }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard current == UInt8(ascii: character) else { return false }
        index += 1
        return true
    }

    /// §4.2.3.3: lower-case letters, digits, `_`, `-`, `.`, `*`, beginning with a letter or `*`.
    mutating func key() -> String? {
        let start = index
        guard let first = current, Self.isLower(first) || first == UInt8(ascii: "*") else { return nil }
        while let character = current, Self.isLower(character) || Self.isDigit(character) || Self.isMark(character) {
            index += 1
        }
        return String(decoding: text[start..<index], as: UTF8.self)
    }

    /// A bare item and its parameters.
    mutating func item() -> StructuredField? {
        guard let value = bareItem(), parameters() else { return nil }
        return value
    }

    mutating func innerList() -> StructuredField? {
        guard take("(") else { return nil }
        while true {
            skipSpaces()
            if take(")") { return parameters() ? .other : nil }
            guard item() != nil, current == UInt8(ascii: " ") || current == UInt8(ascii: ")") else { return nil }
        }
    }

    /// `;key=value` any number of times (§4.2.3.2).
    mutating func parameters() -> Bool {
        while take(";") {
            skipSpaces()
            guard key() != nil else { return false }
            if take("="), bareItem() == nil { return false }
        }
        return true
    }

    private mutating func bareItem() -> StructuredField? {
        guard let first = current else { return nil }
        switch first {
        case UInt8(ascii: "?"): return boolean()
        case UInt8(ascii: ":"): return bytes()
        case UInt8(ascii: "\""): return string()
        case UInt8(ascii: "@"):
            index += 1
            if case .integer? = number() { return .other }
            return nil
        case UInt8(ascii: "-"): return number()
        default:
            if Self.isDigit(first) { return number() }
            return token()
        }
    }

    private mutating func boolean() -> StructuredField? {
        index += 1
        if take("1") { return .boolean(true) }
        return take("0") ? .boolean(false) : nil
    }

    private mutating func bytes() -> StructuredField? {
        index += 1
        guard let end = text[index...].firstIndex(of: UInt8(ascii: ":")) else { return nil }
        defer { index = end + 1 }
        return Base64.decode(String(decoding: text[index..<end], as: UTF8.self)).map { .bytes($0) }
    }

    private mutating func string() -> StructuredField? {
        index += 1
        while let character = current {
            index += 1
            switch character {
            case UInt8(ascii: "\""): return .other
            case UInt8(ascii: "\\"):
                guard take("\"") || take("\\") else { return nil }
            case 0x20...0x7E: continue
            default: return nil
            }
        }
        return nil
    }

    private mutating func number() -> StructuredField? {
        let isNegative = take("-")
        let digits = takeDigits()
        guard !digits.isEmpty else { return nil }
        if take(".") {
            let fraction = takeDigits()
            return digits.count <= 12 && (1...3).contains(fraction.count) ? .other : nil
        }
        guard digits.count <= 15, let value = Int64(String(decoding: digits, as: UTF8.self)) else { return nil }
        return .integer(isNegative ? -value : value)
    }

    private mutating func takeDigits() -> ArraySlice<UInt8> {
        let start = index
        while let character = current, Self.isDigit(character) { index += 1 }
        return text[start..<index]
    }

    private mutating func token() -> StructuredField? {
        guard let first = current, Self.isLetter(first) || first == UInt8(ascii: "*") else { return nil }
        while let character = current,
            HTTPCharacters.isToken(character) || character == UInt8(ascii: ":") || character == UInt8(ascii: "/")
        {
            index += 1
        }
        return .other
    }

    private static func isDigit(_ character: UInt8) -> Bool { (0x30...0x39).contains(character) }
    private static func isLower(_ character: UInt8) -> Bool { (0x61...0x7A).contains(character) }
    private static func isLetter(_ character: UInt8) -> Bool { isLower(character) || (0x41...0x5A).contains(character) }
    private static func isMark(_ character: UInt8) -> Bool { "_-.*".utf8.contains(character) }
}
