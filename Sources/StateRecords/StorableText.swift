internal import Bytes

/// Encodes text with NUL, which neither database stores: PostgreSQL refuses it, and SQLite's texts end there for GRDB.
///
/// U+FFFF, a noncharacter, is the escape: U+FFFF `0` is NUL, and U+FFFF `1` is U+FFFF itself. All other text is stored
/// unchanged. Equal texts have equal encodings, and texts without NUL have encodings in the same order.
package enum StorableText {
    private static let escape: Unicode.Scalar = "\u{FFFF}"

    package static func encode(_ text: String) -> String {
        guard mayNeedCoding(text), text.unicodeScalars.contains(where: { $0 == "\0" || $0 == escape }) else {
            return text
        }
        var encoded = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\0": encoded.append(contentsOf: [escape, "0"])
            case escape: encoded.append(contentsOf: [escape, "1"])
            default: encoded.append(scalar)
            }
        }
        return String(encoded)
    }

    /// An escape that means nothing stays: earlier versions stored U+FFFF in SQLite unchanged.
    package static func decode(_ text: String) -> String {
        guard mayNeedCoding(text), text.unicodeScalars.contains(escape) else { return text }
        var decoded = String.UnicodeScalarView()
        var isEscaped = false
        for scalar in text.unicodeScalars {
            guard isEscaped else {
                if scalar == escape { isEscaped = true } else { decoded.append(scalar) }
                continue
            }
            isEscaped = scalar == escape
            switch scalar {
            case "0": decoded.append("\0")
            case "1": decoded.append(escape)
            case escape: decoded.append(escape)
            default: decoded.append(contentsOf: [escape, scalar])
            }
        }
        if isEscaped { decoded.append(escape) }
        return String(decoded)
    }

    /// Whether a text has a byte of NUL, or the first byte of U+FFFF; nearly all texts have neither.
    private static func mayNeedCoding(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            !WordScan.allSatisfy(
                bytes,
                words: { !WordScan.has(0, $0) && !WordScan.has(0xEF, $0) },
                bytes: { $0 != 0 && $0 != 0xEF }
            )
        }
    }
}
