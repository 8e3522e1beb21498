internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadModel

/// Leaves credentials out of the texts that hooks learn and events keep, by their shape: those of every protocol, made with any
/// master secret, also where they are wrong.
///
/// It looks at bytes: a mark that combines with a `?` or a `=` would hide it, and going back by characters from the end of many
/// regional indicators takes time in proportion to the square of their number.
enum HookRedaction {
    /// A text without user and password in URLs, values of secret parameters, codes of links, and keys and tokens of a gateway.
    ///
    /// Any field can have a URL: proxies add the one before a rewrite, and pages have some in their own.
    ///
    ///     https://a.example/?upload=%2Ffiles%2F01jd3v0m5xq4n8e2r7t9w6y1zk.AAAAAAAAAAAAAAAAAAAAAA#token=x
    ///     https://a.example/?upload=%2Ffiles%2F01jd3v0m5xq4n8e2r7t9w6y1zk#token=
    static func text(_ text: String) -> String { redacted(text, depth: 0) }

    /// Of encodings within encodings.
    private static let deepest = 4

    private static func redacted(_ text: String, depth: Int) -> String {
        var text = withoutUser(text)
        if let start = text.utf8.firstIndex(where: isStartOfParameters) {
            let rest = text.utf8.index(after: start)
            text = String(text[..<rest]) + parameters(text[rest...], depth: depth)
        }
        return withoutTokens(text)
    }

    /// Whether a byte ends the path of a URL.
    static func isStartOfParameters(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#") }

    /// Whether codes of all kinds of links can be in a text; media types, say, look like some.
    static func hasPath(_ text: String) -> Bool {
        var (beforeLast, last) = (UInt8(ascii: " "), UInt8(ascii: " "))
        for byte in text.utf8 {
            if byte == UInt8(ascii: "/"),
                " ;".utf8.contains(last) || last == byte && beforeLast == UInt8(ascii: ":")
            {
                return true
            }
            (beforeLast, last) = (last, byte)
        }
        return false
    }

    private static func withoutUser(_ text: String) -> String {
        guard text.utf8.contains(UInt8(ascii: "@")) else { return text }
        let bytes = Array(text.utf8)
        var (kept, position, index) = ([UInt8](), 0, 0)
        while index < bytes.count {
            guard bytes[index] == UInt8(ascii: ":"), bytes[index...].starts(with: "://".utf8) else {
                index += 1
                continue
            }
            let start = index + 3
            let end = bytes[start...].firstIndex { "/?# ,\"<>".utf8.contains($0) } ?? bytes.endIndex
            if let sign = bytes[start..<end].lastIndex(of: UInt8(ascii: "@")) {
                kept += bytes[position..<start]
                position = sign + 1
            }
            // The colon of another one can be the last byte.
            index = max(start, end - 1)
        }
        return position == 0 ? text : String(decoding: kept + bytes[position...], as: UTF8.self)
    }

    /// Without the codes of links to uploads, also of those in which something follows, and keys and tokens.
    ///
    /// Takes time in proportion to the length: a client may have no credential.
    private static func withoutTokens(_ text: String) -> String {
        let bytes = Array(text.utf8)
        let isPath = hasPath(text)
        // Whether the bytes are in a segment of a path, not in the name of a host.
        var isSegment = false
        var (kept, position) = ([UInt8](), 0)
        for index in bytes.indices {
            if bytes[index] == UInt8(ascii: "/") { isSegment = index == 0 || bytes[index - 1] != UInt8(ascii: "/") }
            let isDot = bytes[index] == UInt8(ascii: ".")
            // What may come before a code is looked at first: underscores belong to codes.
            guard index >= position, isDot || bytes[index] == UInt8(ascii: "_") && endsWithPrefix(bytes[...index])
            else { continue }
            let run = bytes[(index + 1)...].prefix(while: isCode).count
            let isCredential =
                !isDot && run >= codeLength || isDot && run >= codeLength && endsWithID(bytes[..<index])
                || isDot && run == codeLength && isPath && isSegment && ends(bytes[(index + 1 + run)...])
            guard isCredential else { continue }
            kept += bytes[position..<(isDot ? index : index + 1)]
            position = index + 1 + run
        }
        return position == 0 ? text : String(decoding: kept + bytes[position...], as: UTF8.self)
    }

    private static func endsWithID(_ bytes: ArraySlice<UInt8>) -> Bool {
        UploadID(String(decoding: bytes.suffix(26), as: UTF8.self)) != nil
    }

    /// `slk_` of API keys, `slg_` of upload tokens, `slv_` and `slc_` of Vimeo tokens and codes.
    private static func endsWithPrefix(_ bytes: ArraySlice<UInt8>) -> Bool {
        ["slk_", "slg_", "slv_", "slc_"].contains { bytes.suffix(4).elementsEqual($0.utf8) }
            && (bytes.dropLast(4).last.map { !isCode($0) } ?? true)
    }

    /// Whether a code before these bytes is not the middle of a name with several dots.
    private static func ends(_ after: ArraySlice<UInt8>) -> Bool {
        after.first != UInt8(ascii: ".") || after.dropFirst().first.map { !isCode($0) } ?? true
    }

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

    /// A query, or a fragment, in which signatures, tokens and the like have no value.
    ///
    ///     a=1&X-Amz-Signature=0123   a=1&X-Amz-Signature=
    static func query(_ query: String) -> String { parameters(query[...], depth: 0) }

    private static func parameters(_ text: Substring, depth: Int) -> String {
        var result = ""
        var rest = text
        while let end = rest.utf8.firstIndex(where: { "&;?# \t".utf8.contains($0) }) {
            let next = rest.utf8.index(after: end)
            result += parameter(rest[..<end], depth: depth) + rest[end..<next]
            rest = rest[next...]
        }
        return result + parameter(rest, depth: depth)
    }

    private static func parameter(_ item: Substring, depth: Int) -> String {
        guard let equals = item.utf8.firstIndex(of: UInt8(ascii: "=")) else { return decoded(item, depth: depth) }
        let (name, value) = (item[..<equals], item[item.utf8.index(after: equals)...])
        let plain = name.utf8.contains(UInt8(ascii: "%")) ? name.removingPercentEncoding : nil
        if isSecret(plain ?? String(name), value) { return name + "=" }
        return name + "=" + decoded(value, depth: depth)
    }

    /// A value that may be a URL, which may have one in turn.
    private static func decoded(_ value: Substring, depth: Int) -> String {
        guard depth < deepest, value.utf8.contains(UInt8(ascii: "%")), let text = value.removingPercentEncoding else {
            return String(value)
        }
        let clean = redacted(text, depth: depth + 1)
        return clean.utf8.elementsEqual(text.utf8) ? String(value) : PercentEncoding.encode(clean)
    }

    private static func isSecret(_ name: String, _ value: Substring) -> Bool {
        // Decoded, it is nothing that a request could have; comparing it would take long.
        guard ClientText.isAllowed(name) else { return true }
        let name = name.lowercased()
        // Also names of objects, pages and meetings.
        if ["key", "session"].contains(name) { return value.utf8.count >= 16 && value.utf8.allSatisfy(isCode) }
        return ["sign", "sig", "code", "auth", "pass", "pwd", "jwt"].contains(name)
            || ["signature", "token", "secret", "password", "apikey", "api_key", "api-key", "hmac"].contains {
                name.contains($0)
            }
    }
}
