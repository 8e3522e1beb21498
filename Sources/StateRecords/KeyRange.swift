/// The range of keys for a page of a list, in byte order.
package struct KeyRange: Sendable {
    /// The first key of the range, if `includesLower`.
    package let lower: String
    package let includesLower: Bool
    /// The first key after the range; `nil` if it has no end.
    package let upper: String?

    /// - Parameters:
    ///   - prefix: The common prefix of all keys.
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

    /// The range of keys of records of dialects, which have no U+0000; see `DialectRecord.checkTexts`.
    ///
    /// - Returns: `nil` if no key can have the prefix.
    package init?(ofRecordsWith prefix: String, after: String?) {
        if prefix.utf8.contains(0) { return nil }
        // The same keys come after `a` and after `a` with U+0000 and anything else.
        self.init(prefix: prefix, after: after.map { String($0.unicodeScalars.prefix { $0 != "\0" }) })
    }

    /// SQL that selects the range.
    ///
    /// - Parameters:
    ///   - column: The column of the keys.
    ///   - parameter: The bound parameter for a value (such as `$2`), by its index in `values`.
    /// - Returns: The condition and its values, in order.
    package func condition(
        on column: String,
        _ parameter: (Int) -> String
    ) -> (sql: String, values: [String]) {
        let start = "\(column) \(includesLower ? ">=" : ">") \(parameter(0))"
        guard let upper else { return (start, [lower]) }
        return ("\(start) AND \(column) < \(parameter(1))", [lower, upper])
    }

    /// The first text after all texts that begin with `prefix`, or `nil`.
    ///
    /// UTF-8 sorts like its scalars, so incrementing the last scalar gives the next text.
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
    /// `nil` for U+10FFFF.
    ///
    /// There are no scalars between U+D7FF and U+E000.
    fileprivate var successor: Unicode.Scalar? { Unicode.Scalar(value == 0xD7FF ? 0xE000 : value + 1) }
}
