internal import Bytes
internal import HTTPWire
internal import UploadCore

/// Replacing the file of a video (protocol notes §4.8, §5.2).
extension VimeoVideoCalls {
    /// `PUT /videos/ID/files`: a ticket, for clients before 3.4.
    func replace(
        _ id: Int64,
        of user: VimeoUser,
        _ request: Request,
        by caller: VimeoCaller,
        _ documents: VimeoDocuments,
        _ fields: VimeoFields
    ) async throws -> Response {
        var body = try await VimeoBody(of: request, limit: bodyLimit)
        _ = try await entry(id, of: user)
        let entry = try await uploads.create(try Self.ticket(&body, replacing: id), by: caller)
        return VimeoResponse.document(fields.applied(to: documents.ticket(entry)), "uploadticket", 201)
    }

    func versions(
        _ method: HTTPMethod,
        _ id: Int64,
        of user: VimeoUser,
        _ request: Request,
        by caller: VimeoCaller,
        _ documents: VimeoDocuments,
        _ fields: VimeoFields
    ) async throws -> Response {
        guard method == .post else {
            let entry = try await entry(id, of: user)
            var all = entry.versions.map { documents.version($0.version, $0.upload, of: entry) }
            if let upload = entry.upload { all.insert(documents.version(nil, upload, of: entry), at: 0) }
            return VimeoResponse.page(all.reversed(), request.head, fields)
        }
        try caller.require(.upload)
        var body = try await VimeoBody(of: request, limit: bodyLimit)
        guard body["upload"] != nil else {
            throw VimeoFailure(404, 5011, "There is no upload.", "`upload` is missing.")
        }
        let isNew = VimeoVersion(accept: request.head.fields["Accept"]) != .old
        guard isNew, body.text("upload.approach", atMost: 64) == "tus" else {
            throw VimeoFailure(
                404,
                5013,
                "The video cannot be replaced so.",
                "Versions need version 3.4 and approach tus."
            )
        }
        guard let entry = try await library.entry(id, of: user), !entry.video.isTicket else {
            throw VimeoFailure(404, 5012, "The video could not be found.")
        }
        let size = body.size("upload.size")
        if size == nil, body.problems.isEmpty { body.reject("upload.size", "is missing", 2254) }
        let name = body.text("file_name", atMost: 1024)
        if name == nil, body.problems.isEmpty { body.reject("file_name", "is missing") }
        try body.finish()
        let changed = try await uploads.addVersion(name ?? "", size: size ?? 0, to: entry, by: caller)
        guard let last = changed.versions.last else { throw VimeoFailure.notFound }
        let document = documents.version(last.version, last.upload, of: changed)
        var response = VimeoResponse.document(fields.applied(to: document), "video.version", 201)
        response.trace.uploadID = last.upload.id.text
        return response
    }
}
