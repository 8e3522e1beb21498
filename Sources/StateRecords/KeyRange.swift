/// The keys that a page of a list is looked for among, in the order of their bytes.
package struct KeyRange: Sendable {
    /// The first one, if it is among them.
    package let lower: String
    package let includesLower: Bool
    /// The first one beyond them; `nil` for none.
    package let upper: String?

    /// - Parameters:
    ///   - prefix: What all of them begin with.
    ///   - after: Only keys after this one; `nil` for all. It need not have the prefix.
    package init(prefix: String, after: String?) {
        if let after, !after.utf8.lexicographicallyPrecedes(prefix.utf8) {
            lower = after
            includesLower = false
        } else {
            lower = prefix
            includesLower = true
        }
        upper = Self.successor(of: prefix)
    }

    /// The first text after all that begin with `prefix`; `nil` if there is none.
    ///
    /// UTF-8 sorts as the scalars do that it stands for, so one more in the last place is the next one.
    private static func successor(of prefix: String) -> String? {
        var scalars = prefix.unicodeScalars
        while let last = scalars.popLast() {
            if let next = last.successor {
                scalars.append(next)
                return String(scalars)
            }
        }
        return nil
    }
}

extension Unicode.Scalar {
    /// `nil` for U+10FFFF; between U+D7FF and U+E000 there are none.
    fileprivate var successor: Unicode.Scalar? { Unicode.Scalar(value == 0xD7FF ? 0xE000 : value + 1) }
}
