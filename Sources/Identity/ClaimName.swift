internal import Bytes

/// The name of a claim, or a JSON Pointer (RFC 6901) to a member of one: `sub`, `/app_metadata/plan`.
///
/// A text that begins with a slash is a pointer.
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

    /// Where a pointer leads.
    private enum Place {
        case value(JSONValue)
        /// A member or an element is not there, or is null.
        case absent
        /// On the way is something without members, or a name that is no index of an array.
        case obstructed
    }

    private func place(in claims: JSONMembers) -> Place {
        var value = JSONValue.object(claims)
        for name in path {
            let next: JSONValue?
            switch value {
            case .object(let members): next = members[name]
            case .array(let elements):
                guard let index = Self.index(name) else { return .obstructed }
                next = elements.indices.contains(index) ? elements[index] : nil
            default: return .obstructed
            }
            guard let next, next != .null else { return .absent }
            value = next
        }
        return .value(value)
    }

    /// The index of an array that a name stands for: digits without a leading zero (RFC 6901 §4).
    private static func index(_ name: String) -> Int? {
        guard name.utf8.allSatisfy({ (0x30...0x39).contains($0) }), name == "0" || !name.hasPrefix("0") else {
            return nil
        }
        return Int(name)
    }

    /// The claim; `nil` if it is absent or null.
    func value(in claims: JSONMembers) -> JSONValue? {
        if case .value(let value) = place(in: claims) { value } else { nil }
    }

    /// Whether the claims have another form than the pointer expects, so that the claim must not count as absent.
    func isObstructed(in claims: JSONMembers) -> Bool {
        if case .obstructed = place(in: claims) { true } else { false }
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
