internal import HTTPWire
internal import UploadCore
internal import UploadModel

/// tus 1.0.0, concatenation: `Upload-Concat: partial`, or `final;` and the URLs of partial uploads.
enum TusConcatenation {
    /// Parses the field; `nil` without it.
    ///
    /// - Throws: `.invalidConcatenation`; `.notFound` for a URL that does not belong to this server.
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
            guard let id = locator.id(in: lastSegment(of: url)) else {
                throw .upload(
                    UploadError(.notFound, "URL \(index + 1) of Upload-Concat is not an upload URL of this server.")
                )
            }
            parts.append(id)
        }
        return Concatenation(.final(parts: parts), raw: raw)
    }

    /// The URL, absolute or relative, is never fetched: its last segment alone proves that the client knows the upload.
    private static func lastSegment(of url: Substring) -> Substring {
        url.lastIndex(of: "/").map { url[url.index(after: $0)...] } ?? url
    }
}
