internal import Foundation

/// Base64 of RFC 4648: §4 (standard) and §5 (URL-safe, here without padding).
package enum Base64 {
    /// Inlinable, because a generic function that is not specialised costs more than the encoding.
    @inlinable
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        bytes.withContiguousStorageIfAvailable(encode) ?? Array(bytes).withUnsafeBufferPointer(encode)
    }

    /// Hand-written because every signature uses it: copying into `Data` costs more than the encoding itself.
    @usableFromInline
    static func encode(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
        let length = (bytes.count + 2) / 3 * 4
        return String(unsafeUninitializedCapacity: length) { text in
            alphabet.withUTF8Buffer { digits in
                var out = 0
                var index = 0
                while index < bytes.count {
                    let second = index + 1 < bytes.count ? bytes[index + 1] : 0
                    let third = index + 2 < bytes.count ? bytes[index + 2] : 0
                    text[out] = digits[Int(bytes[index] >> 2)]
                    text[out + 1] = digits[Int((bytes[index] << 4 | second >> 4) & 63)]
                    text[out + 2] = digits[Int((second << 2 | third >> 6) & 63)]
                    text[out + 3] = digits[Int(third & 63)]
                    index += 3
                    out += 4
                }
                let padding = index - bytes.count
                if padding > 0 { text[length - 1] = UInt8(ascii: "=") }
                if padding > 1 { text[length - 2] = UInt8(ascii: "=") }
            }
            return length
        }
    }

    private static let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    /// Decodes `text`: standard alphabet, padded, no white space.
    ///
    /// Returns `nil` for anything else.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        // Foundation accepts some malformed input, such as a stray first character.
        guard let data = Data(base64Encoded: String(text)), data.base64EncodedString() == text else { return nil }
        return [UInt8](data)
    }

    package static func encodeURLSafe(_ bytes: some Collection<UInt8>) -> String {
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

    /// Decodes `text`: URL-safe alphabet, no padding.
    ///
    /// Returns `nil` for anything else.
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
