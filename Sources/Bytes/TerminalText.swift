/// Text from elsewhere in what a command prints: a terminal must not obey it.
package enum TerminalText {
    /// The text with what could control a terminal written as in JSON, such as `\u001b`.
    ///
    /// That is control characters, also line feeds, and what changes the direction of a line. Inside a string of JSON
    /// the result means the same.
    package static func escaped(_ text: some StringProtocol) -> String {
        guard text.unicodeScalars.contains(where: isUnsafe) else { return String(text) }
        var shown = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            guard isUnsafe(scalar) else {
                shown.append(scalar)
                continue
            }
            for unit in String(scalar).utf16 {
                let digits = String(unit, radix: 16)
                let zeros = String(repeating: "0", count: 4 - digits.count)
                shown.append(contentsOf: "\\u\(zeros)\(digits)".unicodeScalars)
            }
        }
        return String(shown)
    }

    /// The same for a text of several lines.
    package static func lines(_ text: String) -> String {
        text.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false).map { escaped(String($0)) }
            .joined(separator: "\n")
    }

    /// The text as a value that ends where the next field of a line begins: in quotes, as in JSON, if it is empty or has a
    /// space, `=`, `"` or `\`, or something that is escaped.
    package static func quoted(_ text: String) -> String {
        let shown = escaped(text)
        let needsQuotes = text.utf8.contains { byte in
            byte == 0x20 || byte == UInt8(ascii: "=") || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
        }
        guard needsQuotes || text.isEmpty || shown.utf8.count != text.utf8.count else { return shown }
        // Before control characters are escaped: their backslash must not be doubled.
        var inner = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            if scalar == "\"" || scalar == "\\" { inner.append("\\") }
            inner.append(scalar)
        }
        return "\"" + escaped(String(inner)) + "\""
    }

    private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        // Most texts have nothing else.
        if 0x20..<0x7F ~= scalar.value { return false }
        return switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: true
        default: false
        }
    }
}
