internal import Foundation
internal import HTTPWire
internal import UploadModel

/// Leaves credentials out of the texts that hooks learn and events keep, by their shape: those of every protocol, made with any
/// master secret, also where they are wrong.
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
        if let start = text.firstIndex(where: { $0 == "?" || $0 == "#" }) {
            text = String(text[...start]) + parameters(text[text.index(after: start)...], depth: depth)
        }
        return withoutTokens(text)
    }

    /// Whether codes of all kinds of links can be in a text; media types, say, look like some.
    static func hasPath(_ text: String) -> Bool {
        text.hasPrefix("/") || ["://", ";/", " /"].contains { text.contains($0) }
    }

    private static func withoutUser(_ text: String) -> String {
        guard text.contains("@"), text.contains("://") else { return text }
        var pieces = text.components(separatedBy: "://")
        for index in pieces.indices.dropFirst() {
            let end = pieces[index].firstIndex { "/?# ,\"<>".contains($0) } ?? pieces[index].endIndex
            guard let sign = pieces[index][..<end].lastIndex(of: "@") else { continue }
            pieces[index].removeSubrange(...sign)
        }
        return pieces.joined(separator: "://")
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
        while !rest.isEmpty {
            let item = rest.prefix { !"&;?# \t".contains($0) }
            result += parameter(item, depth: depth)
            rest = rest[item.endIndex...]
            if let separator = rest.popFirst() { result.append(separator) }
        }
        return result
    }

    private static func parameter(_ item: Substring, depth: Int) -> String {
        guard let equals = item.firstIndex(of: "=") else { return decoded(item, depth: depth) }
        let (name, value) = (item[..<equals], item[item.index(after: equals)...])
        if isSecret(name.removingPercentEncoding ?? String(name), value) { return name + "=" }
        return name + "=" + decoded(value, depth: depth)
    }

    /// A value that may be a URL, which may have one in turn.
    private static func decoded(_ value: Substring, depth: Int) -> String {
        guard depth < deepest, value.contains("%"), let text = value.removingPercentEncoding else {
            return String(value)
        }
        let clean = redacted(text, depth: depth + 1)
        return clean == text ? String(value) : PercentEncoding.encode(clean)
    }

    private static func isSecret(_ name: String, _ value: Substring) -> Bool {
        let name = name.lowercased()
        // Also names of objects, pages and meetings.
        if ["key", "session"].contains(name) { return value.utf8.count >= 16 && value.utf8.allSatisfy(isCode) }
        return ["sign", "sig", "code", "auth", "pass", "pwd", "jwt"].contains(name)
            || ["signature", "token", "secret", "password", "apikey", "api_key", "api-key", "hmac"].contains {
                name.contains($0)
            }
    }
}
