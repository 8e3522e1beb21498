internal import Bytes
internal import HTTPWire
internal import UploadCore
internal import UploadModel

/// tus 1.0.0, concatenation: `Upload-Concat: partial`, or `final;` and the URLs of partial uploads.
enum TusConcatenation {
    /// Parses the field; `nil` without it.
    ///
    /// - Throws: `.invalidConcatenation`, also for anything but spaces between URLs; `.notFound` for a URL that does not
    ///   belong to this server.
    static func parse(_ fields: HTTPFields, locator: UploadLocator) throws(TusFailure) -> Concatenation? {
        guard let raw = fields["Upload-Concat"] else { return nil }
        if raw == "partial" { return Concatenation(.partial, raw: raw) }
        guard raw.hasPrefix("final;") else {
            throw .refused(.invalidConcatenation("Upload-Concat must be partial, or final; and the URLs of uploads."))
        }
        let urls = raw.dropFirst("final;".count).split(separator: " ")
        guard !urls.isEmpty else {
            throw .refused(.invalidConcatenation("Upload-Concat: final; must name at least one partial upload."))
        }
        var parts: [UploadID] = []
        for (index, url) in urls.enumerated() {
            guard let names = names(in: url), names.dropLast().allSatisfy({ locator.id(in: $0) == nil }) else {
                throw .refused(
                    .invalidConcatenation("Upload-Concat: final; must be followed by URLs, separated by spaces.")
                )
            }
            guard let id = names.last.flatMap({ locator.id(in: $0) }) else {
                throw .upload(
                    UploadError(.notFound, "URL \(index + 1) of Upload-Concat is not an upload URL of this server.")
                )
            }
            parts.append(id)
        }
        return Concatenation(.final(parts: parts), raw: raw)
    }

    /// The names in the path of a URL, absolute or relative, which is never fetched: the last one alone proves that the client knows
    /// the upload.
    ///
    /// Paths of upload URLs have unreserved characters and escapes only. What has others may be several URLs, separated by a tab, a comma or a
    /// semicolon, all but the last of which would be left out.
    ///
    ///     https://a.example:8080/files/x   "", files, x
    ///     /files/a%20film~x                "", files, a%20film, x
    ///     /files/x,/files/y                nil
    private static func names(in url: Substring) -> [Substring]? {
        var path = url
        if let scheme = ["https://", "http://"].first(where: url.lowercasedASCII().hasPrefix) {
            let authority = url.dropFirst(scheme.count).prefix { $0 != "/" }
            guard authority.utf8.allSatisfy({ PercentEncoding.isUnreserved($0) || ":[]".utf8.contains($0) }) else {
                return nil
            }
            path = url[authority.endIndex...]
        }
        guard path.utf8.allSatisfy({ PercentEncoding.isUnreserved($0) || "/%".utf8.contains($0) }) else { return nil }
        return path.split(omittingEmptySubsequences: false) { $0 == "/" || $0 == "~" }
    }
}
