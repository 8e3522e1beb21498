/// Reads a JSON document into values, strictly by RFC 8259, in time proportional to its length.
///
/// `JSONDecoder` takes time by the third power of the depth, and seconds for a kilobyte, before anyone has signed anything.
struct JSONReader {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var index = 0
    private var left: Int

    /// - Parameters:
    ///   - bytes: In UTF-8, already checked.
    ///   - depth: Most nested objects and arrays; each takes some of the stack.
    init(_ bytes: UnsafeBufferPointer<UInt8>, depth: Int) {
        self.bytes = bytes
        left = depth
    }

    /// The whole document; `nil` if it is not JSON, or nested too deep.
    mutating func document() -> JSONValue? {
        // Parsers may ignore a byte order mark (§8.1).
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
        guard let value = value() else { return nil }
        skipSpace()
        return index == bytes.count ? value : nil
    }

    private mutating func value() -> JSONValue? {
        skipSpace()
        guard index < bytes.count else { return nil }
        switch bytes[index] {
        case UInt8(ascii: "{"): return nested { $0.object() }
        case UInt8(ascii: "["): return nested { $0.array() }
        case UInt8(ascii: "\""): return string().map { .string($0) }
        case UInt8(ascii: "t"): return takes("true") ? .bool(true) : nil
        case UInt8(ascii: "f"): return takes("false") ? .bool(false) : nil
        case UInt8(ascii: "n"): return takes("null") ? .null : nil
        default: return number()
        }
    }

    private mutating func nested(_ read: (inout Self) -> JSONValue?) -> JSONValue? {
        guard left > 0 else { return nil }
        left -= 1
        defer { left += 1 }
        index += 1
        return read(&self)
    }

    private mutating func object() -> JSONValue? {
        var members = JSONMembers()
        if closes(with: "}") { return .object(members) }
        while true {
            skipSpace()
            guard index < bytes.count, bytes[index] == UInt8(ascii: "\""), let name = string() else { return nil }
            skipSpace()
            guard takes(":"), let value = value() else { return nil }
            // The first counts; who must refuse repeated names asks `JSONNames`.
            if members[name] == nil { members[name] = value }
            if closes(with: "}") { return .object(members) }
            guard takes(",") else { return nil }
        }
    }

    private mutating func array() -> JSONValue? {
        var elements: [JSONValue] = []
        if closes(with: "]") { return .array(elements) }
        while true {
            guard let value = value() else { return nil }
            elements.append(value)
            if closes(with: "]") { return .array(elements) }
            guard takes(",") else { return nil }
        }
    }

    private mutating func closes(with bracket: StaticString) -> Bool {
        skipSpace()
        return takes(bracket)
    }

    // MARK: Texts

    private mutating func string() -> String? {
        index += 1
        let start = index
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "\""):
                defer { index += 1 }
                return String(clientText: bytes[start..<index])
            case UInt8(ascii: "\\"): return escaped(from: start)
            case 0..<0x20: return nil
            default: index += 1
            }
        }
        return nil
    }

    /// A string that has an escape at `index`.
    private mutating func escaped(from start: Int) -> String? {
        var text = Array(bytes[start..<index])
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return String(clientText: text)
            case 0..<0x20: return nil
            case UInt8(ascii: "\\"):
                guard let scalar = escape() else { return nil }
                text += Array(String(Character(scalar)).utf8)
            default: text.append(byte)
            }
        }
        return nil
    }

    /// The character after a backslash (§7).
    private mutating func escape() -> Unicode.Scalar? {
        guard index < bytes.count else { return nil }
        defer { index += 1 }
        switch bytes[index] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(bytes[index])
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            guard let first = unit() else { return nil }
            guard 0xD800...0xDBFF ~= first else { return Unicode.Scalar(first) }
            guard index + 2 < bytes.count, bytes[index + 1] == UInt8(ascii: "\\"), bytes[index + 2] == UInt8(ascii: "u")
            else { return nil }
            index += 2
            guard let second = unit(), 0xDC00...0xDFFF ~= second else { return nil }
            return Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
        default: return nil
        }
    }

    /// The four digits after `\u`; stays at the last of them.
    private mutating func unit() -> UInt32? {
        guard index + 4 < bytes.count else { return nil }
        var unit: UInt32 = 0
        for _ in 0..<4 {
            index += 1
            guard let digit = Hexadecimal.value(of: bytes[index]) else { return nil }
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }

    // MARK: Numbers

    /// §6.
    private mutating func number() -> JSONValue? {
        let start = index
        _ = takes("-")
        if !takes("0") { guard takeDigits() else { return nil } }
        var isWhole = true
        if takes(".") {
            isWhole = false
            guard takeDigits() else { return nil }
        }
        if takes("e") || takes("E") {
            isWhole = false
            if !takes("+") { _ = takes("-") }
            guard takeDigits() else { return nil }
        }
        // Longer ones have no meaning, and take time.
        guard index - start <= 400 else { return nil }
        let text = String(decoding: bytes[start..<index], as: UTF8.self)
        if isWhole, let integer = Int64(text) { return .integer(integer) }
        guard let number = Double(text), number.isFinite else { return nil }
        return Int64(exactly: number).map { .integer($0) } ?? .number(number)
    }

    private mutating func takeDigits() -> Bool {
        let start = index
        while index < bytes.count, UInt8(ascii: "0")...UInt8(ascii: "9") ~= bytes[index] { index += 1 }
        return index > start
    }

    // MARK: Pieces

    private mutating func takes(_ text: StaticString) -> Bool {
        let wanted = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        guard index + wanted.count <= bytes.count else { return false }
        for (offset, byte) in wanted.enumerated() where bytes[index + offset] != byte { return false }
        index += wanted.count
        return true
    }

    private mutating func skipSpace() {
        while index < bytes.count {
            let byte = bytes[index]
            guard byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { return }
            index += 1
        }
    }
}
