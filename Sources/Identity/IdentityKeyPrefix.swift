package import Bytes
internal import SettingsKit

/// The key prefix for users of an identity provider: text with claim names in braces, such as `{sub}/`.
///
/// It ends with a slash, and claim values contain none, so that users cannot reach each other's keys. Everything except
/// letters, digits and `-_.~@:|+=,` is percent-encoded, which keeps different values different.
package struct IdentityKeyPrefix: Sendable, Equatable {
    private enum Piece: Sendable, Equatable {
        case text(String)
        case claim(String)
    }

    private static let maximumClaimByteCount = 255

    package let text: String
    private let pieces: [Piece]

    package static let `default` = IdentityKeyPrefix(text: "{sub}/", pieces: [.claim("sub"), .text("/")])

    private init(text: String, pieces: [Piece]) {
        self.text = text
        self.pieces = pieces
    }

    /// `nil` unless it is of visible ASCII characters, ends with a slash, does not begin with one, has no empty, `.` or `..`
    /// segment, and has a name between each pair of braces.
    package init?(_ text: String) {
        var pieces: [Piece] = []
        var rest = text[...]
        while let open = rest.firstIndex(where: { $0 == "{" || $0 == "}" }) {
            if open > rest.startIndex { pieces.append(.text(String(rest[..<open]))) }
            let behind = rest.index(after: open)
            guard rest[open] == "{", let close = rest[behind...].firstIndex(of: "}") else { return nil }
            let name = rest[behind..<close]
            guard !name.isEmpty, !name.contains("{"), !name.contains("/") else { return nil }
            pieces.append(.claim(String(name)))
            rest = rest[rest.index(after: close)...]
        }
        if !rest.isEmpty { pieces.append(.text(String(rest))) }
        guard SettingFormat<String>.keyPrefix.parse(text) != nil, text.utf8.count <= 400 else { return nil }
        self.text = text
        self.pieces = pieces
    }

    package struct MissingClaim: Error, Sendable, Equatable {
        package let name: String
    }

    /// The prefix for the claims of a token.
    ///
    /// - Throws: For a claim that is absent, empty, longer than 255 bytes, or no text or whole number.
    package func prefix(for claims: JSONMembers) throws(MissingClaim) -> String {
        var prefix = ""
        for piece in pieces {
            switch piece {
            case .text(let text): prefix += text
            case .claim(let name):
                let value: String
                switch claims[name] {
                case .string(let text)?: value = text
                case .integer(let number)?: value = String(number)
                default: throw MissingClaim(name: name)
                }
                guard (1...Self.maximumClaimByteCount).contains(value.utf8.count) else {
                    throw MissingClaim(name: name)
                }
                prefix += Self.encoded(value)
            }
        }
        return prefix
    }

    private static func encoded(_ value: String) -> String {
        // A segment of dots only has a special meaning where keys are used as paths.
        let keepsDots = value.utf8.contains { $0 != UInt8(ascii: ".") }
        var text = ""
        for byte in value.utf8 {
            switch byte {
            case UInt8(ascii: ".") where !keepsDots: text += "%2E"
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                text.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                if others.contains(byte) {
                    text.unicodeScalars.append(Unicode.Scalar(byte))
                } else {
                    text += "%" + Hexadecimal.encode([byte]).uppercasedASCII()
                }
            }
        }
        return text
    }

    private static let others = Set("-_.~@:|+=,".utf8)
}
