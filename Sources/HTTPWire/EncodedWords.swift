/// Text in encoded words (RFC 2047), for fields that can only have ASCII characters.
package enum EncodedWords {
    private static let start = "=?UTF-8?Q?"
    private static let end = "?="
    /// Bytes of text in one word (RFC 2047 §2).
    private static let maximumText = 75 - start.utf8.count - end.utf8.count

    /// ASCII text unchanged; any other text as words with the Q encoding, separated by spaces.
    ///
    /// A decoder removes these spaces. No character is split between words (RFC 2047 §4.2, §5, §6.2).
    package static func encode(_ text: String) -> String {
        guard !text.utf8.allSatisfy({ $0 < 0x80 }) else { return text }
        var words: [String] = []
        var word = ""
        for scalar in text.unicodeScalars {
            let encoded = encode(scalar)
            if word.utf8.count + encoded.utf8.count > maximumText {
                words.append(word)
                word = ""
            }
            word += encoded
        }
        words.append(word)
        return words.map { start + $0 + end }.joined(separator: " ")
    }

    private static func encode(_ scalar: Unicode.Scalar) -> String {
        switch scalar {
        case " ": return "_"
        case "=", "?", "_": break
        case "!"..."~": return String(scalar)
        default: break
        }
        var encoded = ""
        for byte in String(scalar).utf8 {
            let digits = String(byte, radix: 16, uppercase: true)
            encoded += digits.utf8.count < 2 ? "=0\(digits)" : "=\(digits)"
        }
        return encoded
    }
}
