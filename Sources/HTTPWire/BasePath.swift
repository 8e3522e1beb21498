/// The path of an existing host below which clients reach the gateway, such as `/uploads`.
package struct BasePath: Sendable, Equatable, CustomStringConvertible {
    /// Begins with a slash, and does not end with one.
    package let description: String
    private let segments: [String]

    /// Fails for empty and dot segments.
    ///
    /// - Parameter text: Segments of unreserved characters (RFC 3986 §2.3), so that no proxy and no client has to encode them.
    package init?(_ text: String) {
        var path = text[...]
        while path.last == "/" { path = path.dropLast() }
        let segments = path.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard segments.first == "", segments.count > 1,
            segments.dropFirst().allSatisfy({ segment in
                !segment.isEmpty && segment != "." && segment != ".."
                    && segment.utf8.allSatisfy(PercentEncoding.isUnreserved)
            })
        else { return nil }
        description = String(path)
        self.segments = Array(segments.dropFirst())
    }

    /// The target without the base path.
    ///
    /// Segments are compared when they are decoded, because `%75ploads` and `uploads` are the same (RFC 3986 §6.2.2.2). Nothing is
    /// normalised: an empty segment, a dot segment or an encoded slash is part of a name that does not match.
    ///
    /// - Returns: `nil` for a path outside; `*` as it is. The base path itself, with or without a slash at its end, is `/`.
    package func relative(_ target: RequestTarget) -> RequestTarget? {
        if target.segments.isEmpty { return target }
        guard target.segments.starts(with: segments) else { return nil }
        let further = target.segments.dropFirst(segments.count)
        guard !further.isEmpty else {
            return RequestTarget(rawPath: "/", rawQuery: target.rawQuery, authority: target.authority, segments: [""])
        }
        // Each segment begins with a slash; those inside of segments are encoded.
        var slashes = 0
        let rest = target.rawPath.utf8.drop { byte in
            if byte == UInt8(ascii: "/") { slashes += 1 }
            return slashes <= segments.count
        }
        return RequestTarget(
            rawPath: String(Substring(rest)),
            rawQuery: target.rawQuery,
            authority: target.authority,
            segments: Array(further)
        )
    }
}
