/// The path and query of a request, percent-decoded exactly once (RFC 3986 §2.4).
package struct RequestTarget: Sendable, Equatable {
    /// The path as sent, still percent-encoded; begins with `/`, or is `*`.
    package let rawPath: String
    /// The query as sent, without the `?`; `nil` if there was no `?`.
    package let rawQuery: String?
    /// The host and port of an absolute-form target (RFC 9112 §3.2.2), which replaces the Host field.
    package let authority: String?
    /// The decoded path segments; an encoded slash stays inside its segment.
    ///
    /// `/` is one empty segment, and `*` has none.
    package let segments: [String]

    package init(rawPath: String, rawQuery: String?, authority: String?, segments: [String]) {
        self.rawPath = rawPath
        self.rawQuery = rawQuery
        self.authority = authority
        self.segments = segments
    }
}
