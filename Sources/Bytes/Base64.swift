internal import Foundation

/// Base64 of RFC 4648: §4 (standard) and §5 (URL-safe, here without padding).
package enum Base64 {
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString()
    }

    /// The bytes that `text` stands for: standard alphabet, padded, no white space; `nil` for anything else.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        // Foundation passes over some malformed input, such as a stray first character.
        guard let data = Data(base64Encoded: String(text)), data.base64EncodedString() == text else { return nil }
        return [UInt8](data)
    }

    package static func encodeURLSafe(_ bytes: some Sequence<UInt8>) -> String {
        var text = ""
        for character in encode(bytes) {
            switch character {
            case "+": text.append("-")
            case "/": text.append("_")
            case "=": break
            default: text.append(character)
            }
        }
        return text
    }

    /// The bytes that `text` stands for: URL-safe alphabet, no padding; `nil` for anything else.
    package static func decodeURLSafe(_ text: some StringProtocol) -> [UInt8]? {
        var standard = ""
        for character in text {
            switch character {
            case "-": standard.append("+")
            case "_": standard.append("/")
            case "+", "/", "=": return nil
            default: standard.append(character)
            }
        }
        while standard.utf8.count % 4 != 0 { standard.append("=") }
        return decode(standard)
    }
}
