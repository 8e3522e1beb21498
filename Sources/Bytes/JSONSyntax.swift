/// Checks whether bytes are JSON, strictly by RFC 8259.
///
/// Foundation's decoders accept more: UTF-16, a byte order mark, trailing commas. JSON that Sluice passes on must be
/// valid for every receiver.
package enum JSONSyntax {
    /// Maximum nesting of arrays and objects, the same as in Foundation's decoders.
    static let maximumDepth = 512

    /// Whether the bytes are one value in UTF-8, surrounded by nothing but white space.
    package static func isValid(_ bytes: [UInt8]) -> Bool {
        guard String(validating: bytes, as: UTF8.self) != nil else { return false }
        var scanner = JSONScanner(bytes)
        return scanner.takeText()
    }
}

/// Scans a text without recursion, so that nesting does not use the stack.
private struct JSONScanner {
    private let bytes: [UInt8]
    private var index = 0
    /// The closing bracket of each open array and object.
    private var closing: [UInt8] = []

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    mutating func takeText() -> Bool {
        var expectsValue = true
        repeat {
            skipSpace()
            if expectsValue {
                guard let next = takeValue() else { return false }
                expectsValue = next
            } else if let bracket = closing.last {
                if take(bracket) {
                    closing.removeLast()
                } else {
                    guard take(UInt8(ascii: ",")) else { return false }
                    if bracket == UInt8(ascii: "}"), !takeName() { return false }
                    expectsValue = true
                }
            }
        } while expectsValue || !closing.isEmpty
        skipSpace()
        return index == bytes.count
    }

    /// Takes a value, or the beginning of an array or object.
    ///
    /// - Returns: Whether another value must follow; `nil` if there is no value.
    private mutating func takeValue() -> Bool? {
        if take(UInt8(ascii: "{")) {
            return takeOpening(until: UInt8(ascii: "}")).flatMap { isEmpty in
                isEmpty ? false : takeName() ? true : nil
            }
        }
        if take(UInt8(ascii: "[")) { return takeOpening(until: UInt8(ascii: "]")).map { !$0 } }
        // The first byte decides the kind of value, so no alternative has to be tried after a failure.
        let isValue =
            switch index < bytes.count ? bytes[index] : nil {
            case UInt8(ascii: "\"")?: takeString()
            case UInt8(ascii: "-")?, (UInt8(ascii: "0")...UInt8(ascii: "9"))?: takeNumber()
            default: takeWord()
            }
        return isValue ? false : nil
    }

    /// - Returns: Whether the array or object is empty; `nil` if it is nested too deep.
    private mutating func takeOpening(until bracket: UInt8) -> Bool? {
        skipSpace()
        if take(bracket) { return true }
        guard closing.count < JSONSyntax.maximumDepth else { return nil }
        closing.append(bracket)
        return false
    }

    private mutating func takeName() -> Bool {
        skipSpace()
        guard takeString() else { return false }
        skipSpace()
        return take(UInt8(ascii: ":"))
    }

    /// RFC 8259 §7.
    private mutating func takeString() -> Bool {
        guard take(UInt8(ascii: "\"")) else { return false }
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return true
            case 0..<0x20: return false
            case UInt8(ascii: "\\"):
                guard index < bytes.count else { return false }
                let escape = bytes[index]
                index += 1
                guard escape == UInt8(ascii: "u") ? takeHexadecimal(4) : "\"\\/bfnrt".utf8.contains(escape) else {
                    return false
                }
            default: break
            }
        }
        return false
    }

    private mutating func takeHexadecimal(_ count: Int) -> Bool {
        guard index + count <= bytes.count else { return false }
        defer { index += count }
        return bytes[index..<index + count].allSatisfy { Hexadecimal.value(of: $0) != nil }
    }

    /// RFC 8259 §6.
    private mutating func takeNumber() -> Bool {
        _ = take(UInt8(ascii: "-"))
        guard take(UInt8(ascii: "0")) || takeDigits() else { return false }
        if take(UInt8(ascii: ".")), !takeDigits() { return false }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            _ = take(UInt8(ascii: "+")) || take(UInt8(ascii: "-"))
            return takeDigits()
        }
        return true
    }

    private mutating func takeDigits() -> Bool {
        let start = index
        while index < bytes.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[index]) { index += 1 }
        return index > start
    }

    private mutating func takeWord() -> Bool {
        for word in ["true", "false", "null"] where bytes[index...].starts(with: word.utf8) {
            index += word.utf8.count
            return true
        }
        return false
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard index < bytes.count, bytes[index] == byte else { return false }
        index += 1
        return true
    }

    private mutating func skipSpace() {
        while index < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[index]) { index += 1 }
    }
}
