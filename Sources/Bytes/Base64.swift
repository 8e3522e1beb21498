internal import Foundation

/// Base64 of RFC 4648: §4 (standard) and §5 (URL-safe, here without padding).
package enum Base64 {
    /// Inlinable, because a generic function that is not specialised costs more than the encoding.
    @inlinable
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        bytes.withContiguousStorageIfAvailable(encode) ?? Array(bytes).withUnsafeBufferPointer(encode)
    }

    @usableFromInline
    static func encode(_ bytes: UnsafeBufferPointer<UInt8>) -> String { encode(bytes, alphabet, isPadded: true) }

    /// Hand-written because every signature uses it: copying into `Data` costs more than the encoding itself.
    private static func encode(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ alphabet: StaticString,
        isPadded: Bool
    ) -> String {
        let length = (bytes.count + 2) / 3 * 4
        let padding = (3 - bytes.count % 3) % 3
        return String(unsafeUninitializedCapacity: length) { text in
            alphabet.withUTF8Buffer { digits in
                var out = 0
                func put(_ first: UInt8, _ second: UInt8, _ third: UInt8) {
                    text[out] = digits[Int(first >> 2)]
                    text[out + 1] = digits[Int((first << 4 | second >> 4) & 63)]
                    text[out + 2] = digits[Int((second << 2 | third >> 6) & 63)]
                    text[out + 3] = digits[Int(third & 63)]
                    out += 4
                }
                var index = 0
                while bytes.count - index >= 3 {
                    put(bytes[index], bytes[index + 1], bytes[index + 2])
                    index += 3
                }
                if index < bytes.count { put(bytes[index], index + 1 < bytes.count ? bytes[index + 1] : 0, 0) }
                for place in length - padding..<length { text[place] = UInt8(ascii: "=") }
            }
            return isPadded ? length : length - padding
        }
    }

    private static let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    private static let urlSafeAlphabet: StaticString =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

    /// Decodes `text`: standard alphabet, padded, no white space.
    ///
    /// Returns `nil` for anything else.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        // Foundation accepts some malformed input, such as a stray first character.
        guard let data = Data(base64Encoded: String(text)), data.base64EncodedString() == text else { return nil }
        return [UInt8](data)
    }

    /// Inlinable for the same reason as `encode`.
    @inlinable
    package static func encodeURLSafe(_ bytes: some Collection<UInt8>) -> String {
        bytes.withContiguousStorageIfAvailable(encodeURLSafe) ?? Array(bytes).withUnsafeBufferPointer(encodeURLSafe)
    }

    @usableFromInline
    static func encodeURLSafe(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
        encode(bytes, urlSafeAlphabet, isPadded: false)
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
