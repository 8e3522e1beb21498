/// Unsigned decimal integers.
package enum DecimalText {
    package static func parse(_ text: some StringProtocol) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
        return Int64(text)
    }
}

/// Durations as a whole number with a unit; `0` needs none.
///
///     500ms  15s  5m  24h  7d  0
package enum DurationText {
    /// Largest first, in milliseconds.
    private static let units: [(name: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60000), ("s", 1000), ("ms", 1),
    ]

    /// Allowed range of timeouts.
    package static let timeouts = Duration.milliseconds(10)...Duration.seconds(7 * 86400)

    package static func parse(_ text: String) -> Duration? {
        guard text != "0" else { return .zero }
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text[digits.endIndex...]
        guard let number = DecimalText.parse(digits), let factor = units.first(where: { $0.name == unit })?.milliseconds
        else { return nil }
        let (milliseconds, overflowed) = number.multipliedReportingOverflow(by: factor)
        return overflowed ? nil : .milliseconds(milliseconds)
    }

    /// Formats in the largest unit that needs no fraction; fractions of a millisecond are dropped.
    package static func format(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let milliseconds = seconds * 1000 + attoseconds / 1_000_000_000_000_000
        guard milliseconds != 0, let unit = units.first(where: { milliseconds % $0.milliseconds == 0 }) else {
            return "0"
        }
        return "\(milliseconds / unit.milliseconds)\(unit.name)"
    }
}

/// Numbers of bytes, plain or with a unit; case does not matter.
///
///     512  64KiB  10MB  1GiB  1TiB
package enum ByteCountText {
    /// Largest first, in bytes.
    private static let binary: [(name: String, bytes: Int64)] = [
        ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10),
    ]
    private static let decimal: [(name: String, bytes: Int64)] = [
        ("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000), ("B", 1),
    ]

    package static func parse(_ text: String) -> Int64? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text[digits.endIndex...].lowercased()
        guard let number = DecimalText.parse(digits) else { return nil }
        guard !unit.isEmpty else { return number }
        guard let factor = (binary + decimal).first(where: { $0.name.lowercased() == unit })?.bytes else { return nil }
        let (bytes, overflowed) = number.multipliedReportingOverflow(by: factor)
        return overflowed ? nil : bytes
    }

    /// Formats in the largest binary unit that needs no fraction, otherwise in bytes.
    package static func format(_ bytes: Int64) -> String {
        guard bytes != 0, let unit = binary.first(where: { bytes % $0.bytes == 0 }) else { return String(bytes) }
        return "\(bytes / unit.bytes)\(unit.name)"
    }
}

/// Lists separated by commas.
package enum ListText {
    /// Every element of the list; `nil` if one is invalid, and `empty` for a list without elements.
    package static func parse<Element>(_ text: String, empty: [Element]?, _ element: (String) -> Element?) -> [Element]?
    {
        guard !trim(text[...]).isEmpty else { return empty }
        var elements: [Element] = []
        for piece in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let value = element(trim(piece)) else { return nil }
            elements.append(value)
        }
        return elements
    }

    package static func trim(_ text: Substring) -> String {
        var text = text
        while text.first?.isWhitespace == true { text = text.dropFirst() }
        while text.last?.isWhitespace == true { text = text.dropLast() }
        return String(text)
    }
}
