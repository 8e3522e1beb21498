internal import Bytes
internal import Digests
package import Foundation

/// Identifies an upload (and, once complete, its media): 26 characters of Crockford's base32, sortable by creation
/// time.
///
/// 48 bits of Unix milliseconds, then 80 random bits. It appears in logs; it is not a credential.
package struct UploadID: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    /// Parses `text`; `nil` unless it has the form above, in lower case.
    package init?(_ text: some StringProtocol) {
        guard text.utf8.count == 26 else { return nil }
        let text = String(text)
        guard text.utf8.allSatisfy(Self.isDigit), text.utf8.first.map({ $0 <= UInt8(ascii: "7") }) == true else {
            return nil
        }
        self.text = text
    }

    /// Whether a byte is in `alphabet`.
    private static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "i"), UInt8(ascii: "l"), UInt8(ascii: "o"), UInt8(ascii: "u"): false
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"): true
        default: false
        }
    }

    /// Generates a new id.
    package static func generate(at now: Date) -> UploadID {
        UploadID(milliseconds: UInt64(max(0, now.timeIntervalSince1970 * 1000)), random: SecureRandom.bytes(10))
    }

    /// The lower bound of ids created at `date` or later: all ids created in an earlier millisecond are smaller.
    package static func first(at date: Date) -> UploadID {
        // Half a microsecond ensures that a date made from milliseconds returns the same milliseconds.
        let milliseconds = (date.timeIntervalSince1970 * 1000 - 0.0005).rounded(.up)
        let most = Double(UInt64(0xFFFF_FFFF_FFFF))
        return UploadID(
            milliseconds: UInt64(max(0, min(milliseconds, most))),
            random: [UInt8](repeating: 0, count: 10)
        )
    }

    private init(milliseconds: UInt64, random: [UInt8]) {
        var value = UInt128(milliseconds & 0xFFFF_FFFF_FFFF)
        for byte in random { value = value << 8 | UInt128(byte) }
        var characters = [UInt8](repeating: 0, count: 26)
        for index in characters.indices.reversed() {
            characters[index] = Self.alphabet[Int(truncatingIfNeeded: value & 31)]
            value >>= 5
        }
        text = String(decoding: characters, as: UTF8.self)
    }

    /// The creation time, to the millisecond.
    package var createdAt: Date {
        // Ten characters hold the 48 bits of time, after two bits that are always zero.
        let milliseconds = text.utf8.prefix(10).reduce(UInt64(0)) { value, character in
            value << 5 | UInt64(Self.alphabet.firstIndex(of: character) ?? 0)
        }
        return Date(timeIntervalSince1970: Double(milliseconds) / 1000)
    }

    package var description: String { text }

    private static let alphabet = Array("0123456789abcdefghjkmnpqrstvwxyz".utf8)
}
