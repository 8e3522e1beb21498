/// An entity tag (RFC 9110 §8.8.3).
package struct EntityTag: Sendable, Hashable, CustomStringConvertible {
    package let isWeak: Bool
    /// The text between the quotes.
    package let opaque: String

    /// A strong tag; `nil` unless `opaque` consists of visible characters other than the quote.
    package init?(strong opaque: String) {
        guard opaque.utf8.allSatisfy(Self.isTagCharacter) else { return nil }
        isWeak = false
        self.opaque = opaque
    }

    /// The tag in `text`: `"…"` or `W/"…"`.
    package init?(_ text: some StringProtocol) {
        var rest = Array(text.utf8)[...]
        isWeak = rest.starts(with: "W/".utf8)
        if isWeak { rest = rest.dropFirst(2) }
        guard rest.count >= 2, rest.first == UInt8(ascii: "\""), rest.last == UInt8(ascii: "\"") else { return nil }
        let inner = rest.dropFirst().dropLast()
        guard inner.allSatisfy(Self.isTagCharacter) else { return nil }
        opaque = String(decoding: inner, as: UTF8.self)
    }

    package var description: String { (isWeak ? "W/\"" : "\"") + opaque + "\"" }

    /// RFC 9110 §8.8.3.2, strong comparison.
    package func matchesStrongly(_ other: EntityTag) -> Bool { !isWeak && !other.isWeak && opaque == other.opaque }

    /// RFC 9110 §8.8.3.2, weak comparison.
    package func matchesWeakly(_ other: EntityTag) -> Bool { opaque == other.opaque }

    /// `etagc`.
    private static func isTagCharacter(_ byte: UInt8) -> Bool {
        byte > 0x20 && byte != UInt8(ascii: "\"") && byte != 0x7F
    }
}
