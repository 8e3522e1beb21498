internal import Foundation

/// Leaves credentials out of the URLs that hooks learn and events keep, by their shape: those of every protocol, made with any
/// master secret, also where they are wrong.
enum HookRedaction {
    /// Characters of the code in a link; see `LinkSigner`.
    private static let codeLength = 22

    /// A segment of a path without the code at its end.
    ///
    ///     1234567890123456-7.AAAAAAAAAAAAAAAAAAAAAA   1234567890123456-7
    ///     film.mp4                                   film.mp4
    ///
    /// - Parameter segment: Decoded.
    /// - Returns: `nil` if it has none.
    static func withoutCode(_ segment: String) -> String? {
        let bytes = Array(segment.utf8)
        let start = bytes.count - codeLength
        guard start > 0, bytes[start - 1] == UInt8(ascii: "."), bytes[start...].allSatisfy(isCode) else { return nil }
        return String(decoding: bytes[..<(start - 1)], as: UTF8.self)
    }

    private static func isCode(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    /// A query in which signatures, tokens and the like have no value.
    ///
    ///     a=1&X-Amz-Signature=0123   a=1&X-Amz-Signature=
    static func query(_ query: String) -> String {
        query.split(separator: "&", omittingEmptySubsequences: false).map { item in
            guard let equals = item.firstIndex(of: "=") else { return String(item) }
            let name = item[..<equals]
            return isSecret(name.removingPercentEncoding ?? String(name)) ? String(name) + "=" : String(item)
        }.joined(separator: "&")
    }

    private static func isSecret(_ name: String) -> Bool {
        let name = name.lowercased()
        return ["sign", "code"].contains(name)
            || ["signature", "token", "secret", "password"].contains { name.contains($0) }
    }
}
