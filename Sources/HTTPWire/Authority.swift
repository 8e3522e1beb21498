internal import Bytes

/// `uri-host [ ":" port ]` (RFC 9110 §4.2.1, §7.2; RFC 3986 §3.2.2).
package enum Authority {
    /// Whether `text` is a non-empty host with an optional port and without user information.
    package static func isValid(_ text: some StringProtocol) -> Bool {
        let bytes = Array(text.utf8)
        return isValid(bytes.span, 0..<bytes.count)
    }

    /// Like `isValid`, but also accepts `http://host[:port]`, which Tencent's command line client `tccli` sends in the
    /// Host field.
    static func isValidHostField(_ buffer: Span<UInt8>, _ range: Range<Int>) -> Bool {
        if isValid(buffer, range) { return true }
        guard let scheme = schemeLength(buffer, range) else { return false }
        return isValid(buffer, range.lowerBound + scheme..<range.upperBound)
    }

    /// Length of `http://` or `https://`, in any case, at the beginning of the range.
    static func schemeLength(_ buffer: Span<UInt8>, _ range: Range<Int>) -> Int? {
        let start = range.lowerBound
        if range.count >= 7, buffer.equals(start..<start + 7, ignoringCase: "http://") { return 7 }
        if range.count >= 8, buffer.equals(start..<start + 8, ignoringCase: "https://") { return 8 }
        return nil
    }

    static func isValid(_ buffer: Span<UInt8>, _ range: Range<Int>) -> Bool {
        // RFC 9110 §4.2.1: an "http" URI with an empty host is invalid.
        guard let first = range.first else { return false }
        let hostEnd =
            buffer[first] == UInt8(ascii: "[") ? addressLiteralEnd(buffer, range) : registeredNameEnd(buffer, range)
        guard let hostEnd else { return false }
        return hostEnd == range.upperBound || isPort(buffer, hostEnd..<range.upperBound)
    }

    /// `[` IPv6 address `]`.
    private static func addressLiteralEnd(_ buffer: Span<UInt8>, _ range: Range<Int>) -> Int? {
        var colons = 0
        for index in range.dropFirst() {
            switch buffer[index] {
            case UInt8(ascii: "]"): return colons >= 2 ? index + 1 : nil
            case UInt8(ascii: ":"): colons += 1
            case UInt8(ascii: "."): break
            case let byte: guard Hexadecimal.value(of: byte) != nil else { return nil }
            }
        }
        return nil
    }

    private static func registeredNameEnd(_ buffer: Span<UInt8>, _ range: Range<Int>) -> Int? {
        var index = range.lowerBound
        while index < range.upperBound, buffer[index] != UInt8(ascii: ":") {
            let byte = buffer[index]
            if byte == UInt8(ascii: "%") {
                guard index + 2 < range.upperBound, Hexadecimal.value(of: buffer[index + 1]) != nil,
                    Hexadecimal.value(of: buffer[index + 2]) != nil
                else { return nil }
            } else if !PercentEncoding.isUnreserved(byte), !PercentEncoding.isSubDelimiter(byte) {
                return nil
            }
            index += 1
        }
        return index > range.lowerBound ? index : nil
    }

    /// `:` and digits up to 65535; the digits are optional (RFC 3986 §3.2.3).
    private static func isPort(_ buffer: Span<UInt8>, _ range: Range<Int>) -> Bool {
        guard buffer[range.lowerBound] == UInt8(ascii: ":") else { return false }
        var port = 0
        for index in range.dropFirst() {
            guard HTTPCharacters.isDigit(buffer[index]) else { return false }
            port = port * 10 + Int(buffer[index] - UInt8(ascii: "0"))
            guard port <= 65535 else { return false }
        }
        return true
    }
}
