internal import Bytes

/// Normalisation of text before it is signed.
enum SigningText {
    /// ASCII letters in lower case, everything else unchanged.
    static func lowercased(_ text: String) -> String { text.lowercasedASCII() }

    /// Without leading and trailing spaces and tabs.
    static func trimmed(_ text: some StringProtocol) -> String {
        func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
        var rest = Array(text.utf8)[...].drop(while: isSpace)
        while let last = rest.last, isSpace(last) { rest.removeLast() }
        return String(decoding: rest, as: UTF8.self)
    }

    /// Everything except the unreserved characters of RFC 3986 §2.3 escaped, in upper-case hexadecimal.
    static func escaped(_ text: String) -> String {
        var bytes: [UInt8] = []
        FormEncoding.append(text, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Decodes escapes; an invalid `%` stays unchanged, and so does `+`.
    static func percentDecoded(_ text: some Collection<UInt8>) -> [UInt8] {
        let text = Array(text)
        guard text.contains(UInt8(ascii: "%")) else { return text }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var index = 0
        while index < text.count {
            if text[index] == UInt8(ascii: "%"), index + 2 < text.count,
                let high = Hexadecimal.value(of: text[index + 1]),
                let low = Hexadecimal.value(of: text[index + 2])
            {
                bytes.append(high << 4 | low)
                index += 3
            } else {
                bytes.append(text[index])
                index += 1
            }
        }
        return bytes
    }

    /// Whether the text is `count` bytes in lower-case hexadecimal.
    static func isHexadecimal(_ text: String, count: Int) -> Bool {
        text.utf8.count == 2 * count
            && text.utf8.allSatisfy {
                (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
                    || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
            }
    }

    /// Parses a decimal number without a sign; `nil` for anything else, or if it does not fit.
    static func number(_ text: some StringProtocol) -> Int64? {
        let digits = text.utf8
        guard !digits.isEmpty, digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
            return nil
        }
        return Int64(text)
    }

    /// `text` without the port of an authority.
    static func withoutPort(_ host: String) -> String {
        guard let colon = host.utf8.lastIndex(of: UInt8(ascii: ":")) else { return host }
        let port = host[host.utf8.index(after: colon)...]
        return number(port) == nil ? host : String(host[..<colon])
    }
}

extension [SigningField] {
    /// Escaped and joined with `&`, in byte order of the escaped names and then of the values.
    ///
    /// - Parameter keepsEquals: Whether `=` follows a name with an empty value.
    /// - Returns: ASCII text, without `?`.
    func canonical(keepsEquals: Bool) -> String {
        let pairs = map { (name: SigningText.escaped($0.name), value: SigningText.escaped($0.value)) }
        let sorted = pairs.sorted { left, right in
            left.name == right.name
                ? left.value.utf8.lexicographicallyPrecedes(right.value.utf8)
                : left.name.utf8.lexicographicallyPrecedes(right.name.utf8)
        }
        return sorted.map { $0.value.isEmpty && !keepsEquals ? $0.name : "\($0.name)=\($0.value)" }
            .joined(separator: "&")
    }

    /// Escaped and joined with `&`, in byte order of the unescaped names.
    func canonicalByName() -> String {
        sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
            .map { "\(SigningText.escaped($0.name))=\(SigningText.escaped($0.value))" }
            .joined(separator: "&")
    }
}
