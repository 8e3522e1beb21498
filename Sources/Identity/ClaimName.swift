internal import Bytes

/// The name of a claim, or a JSON Pointer (RFC 6901) to a member of one: `sub`, `/app_metadata/plan`.
///
/// A text that begins with a slash is a pointer; elements of arrays cannot be addressed.
package struct ClaimName: Sendable, Equatable {
    package let text: String
    private let path: [String]

    /// `nil` for an empty text, for more than 255 bytes, and for an invalid pointer.
    package init?(_ text: String) {
        guard (1...255).contains(text.utf8.count) else { return nil }
        self.text = text
        guard text.hasPrefix("/") else {
            path = [text]
            return
        }
        var path: [String] = []
        for piece in text.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
            // RFC 6901 §3: a tilde is followed by 0 or 1.
            let rest = String(piece).replacing("~0", with: "").replacing("~1", with: "")
            guard !piece.isEmpty, !rest.contains("~") else { return nil }
            path.append(String(piece).replacing("~1", with: "/").replacing("~0", with: "~"))
        }
        self.path = path
    }

    /// The claim; `nil` if it is absent or null.
    func value(in claims: JSONMembers) -> JSONValue? {
        var value = JSONValue.object(claims)
        for name in path {
            guard case .object(let members) = value, let next = members[name], next != .null else { return nil }
            value = next
        }
        return value
    }

    /// The claim as text: a string, a number or a truth value.
    ///
    /// - Returns: `nil` if it is absent, or is an array or an object.
    func text(in claims: JSONMembers) -> String? {
        switch value(in: claims) {
        case .string(let text)?: text
        case .integer(let number)?: String(number)
        case .number(let number)?: String(number)
        case .bool(let flag)?: String(flag)
        default: nil
        }
    }

    /// The claim as a list: an array of strings, or a string of words separated by spaces, like `scope` (RFC 8693 §4.2).
    ///
    /// - Returns: `nil` if it is absent or something else.
    func words(in claims: JSONMembers) -> [String]? {
        switch value(in: claims) {
        case .string(let text)?: return text.split(separator: " ").map(String.init)
        case .array(let values)?:
            let words = values.compactMap { value -> String? in
                if case .string(let text) = value { text } else { nil }
            }
            return words.count == values.count ? words : nil
        default: return nil
        }
    }
}
