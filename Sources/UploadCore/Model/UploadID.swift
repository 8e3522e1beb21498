internal import Bytes
internal import Digests
package import Foundation

/// Names an upload (and, once it is complete, its media): 26 characters of Crockford's base32, sortable by creation time.
///
/// 48 bits of Unix milliseconds, then 80 random bits. It identifies and is written to logs; it is no credential.
package struct UploadID: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    /// The id in `text`; `nil` unless it has the form above, in lower case.
    package init?(_ text: some StringProtocol) {
        guard text.utf8.count == 26, text.utf8.allSatisfy(Self.alphabet.contains),
            text.utf8.first.map({ $0 <= UInt8(ascii: "7") }) == true
        else { return nil }
        self.text = String(text)
    }

    /// A new id.
    package static func generate(at now: Date) -> UploadID {
        let milliseconds = UInt64(max(0, now.timeIntervalSince1970 * 1000)) & 0xFFFF_FFFF_FFFF
        let random = SecureRandom.bytes(10)
        var value = UInt128(milliseconds)
        for byte in random { value = value << 8 | UInt128(byte) }
        var characters = [UInt8](repeating: 0, count: 26)
        for index in characters.indices.reversed() {
            characters[index] = alphabet[Int(truncatingIfNeeded: value & 31)]
            value >>= 5
        }
        return UploadID(unchecked: String(decoding: characters, as: UTF8.self))
    }

    /// When it was made, to the millisecond.
    package var createdAt: Date {
        // Ten characters hold the 48 bits of time, after two bits that are always zero.
        let milliseconds = text.utf8.prefix(10).reduce(UInt64(0)) { value, character in
            value << 5 | UInt64(Self.alphabet.firstIndex(of: character) ?? 0)
        }
        return Date(timeIntervalSince1970: Double(milliseconds) / 1000)
    }

    private init(unchecked text: String) { self.text = text }

    package var description: String { text }

    private static let alphabet = Array("0123456789abcdefghjkmnpqrstvwxyz".utf8)
}
