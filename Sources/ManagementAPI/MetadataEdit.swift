internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// Changes of a PATCH to an upload or its media: missing members stay, null removes (RFC 7396).
struct MetadataEdit: Sendable {
    private var changes: [String: String?]

    /// - Throws: `Problem` 400, 413, 415 or 422.
    init(readingFrom request: Request, limit: Int) async throws(Problem) {
        var fields = try await JSONFields(readingFrom: request, limit: limit)
        changes = fields.changes("metadata", maximumCount: 64, maximumBytes: 4096)
        if let filename = fields.change("filename", maximumLength: 1024) {
            changes["filename"] = filename
            // The other key with the same meaning.
            changes["name"] = .some(nil)
        }
        if let contentType = fields.change("contentType", maximumLength: 256) {
            if let contentType, MediaType(contentType) == nil {
                fields.reject("contentType", "must be a media type such as video/mp4, or null")
            }
            changes["filetype"] = contentType
            changes["type"] = .some(nil)
        }
        try fields.finish()
    }

    func apply(to metadata: UploadMetadata) -> UploadMetadata { metadata.changed(by: changes) }
}
