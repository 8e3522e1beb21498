/// Lengths of text that others chose, in Unicode scalars.
///
/// A `Character` has any number of scalars, such as `a` with a thousand enclosing marks: a limit in characters limits
/// nothing.
extension StringProtocol {
    /// Whether it has at most `limit` scalars.
    package func hasScalars(atMost limit: Int) -> Bool {
        // A scalar has at least one byte of UTF-8.
        utf8.count <= limit || unicodeScalars.prefix(limit + 1).count <= limit
    }

    /// Its first scalars, at most `limit`.
    package func first(scalars limit: Int) -> String {
        String(String.UnicodeScalarView(unicodeScalars.prefix(limit)))
    }
}
