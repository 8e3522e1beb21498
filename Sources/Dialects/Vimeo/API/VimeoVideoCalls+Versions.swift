internal import Bytes
internal import HTTPWire
internal import UploadCore
internal import UploadModel

/// Replacing the file of a video (protocol notes §4.8, §5.2).
extension VimeoVideoCalls {
    /// `PUT /videos/ID/files`: a ticket, for clients before 3.4.
    func replace(_ id: Int64, _ call: VimeoCall) async throws(VimeoError) -> Response {
        var body = try await VimeoBody(of: call.request, limit: bodyLimit)
        let entry = try await entry(id, of: call.user)
        try call.caller.requireAdding(toVideoBegunBy: entry.video.principal)
        return try await createOld(try Self.old(&body, replacing: id), body.labels, call)
    }

    /// All files of a video, latest first.
    func versions(_ id: Int64, _ call: VimeoCall) async throws(VimeoError) -> Response {
        let page = try call.page()
        let entry = try await seen(id, call)
        var all = entry.versions.map { call.documents.version($0.version, $0.upload, of: entry) }
        if let upload = entry.upload { all.insert(call.documents.version(nil, upload, of: entry), at: 0) }
        return call.response(page, of: all.count, Array(page.part(of: all.reversed())))
    }

    /// A file of a video; the first one has the number of the video.
    func version(_ number: Int64, of id: Int64, _ call: VimeoCall) async throws(VimeoError) -> Response {
        let entry = try await seen(id, call)
        let document: JSONValue
        if let found = entry.versions.first(where: { $0.version.id == number }) {
            document = call.documents.version(found.version, found.upload, of: entry)
        } else if number == id, let upload = entry.upload {
            document = call.documents.version(nil, upload, of: entry)
        } else {
            throw VimeoError.refused(.notFound)
        }
        return call.response(document, "video.version")
    }

    func addVersion(_ id: Int64, _ call: VimeoCall) async throws(VimeoError) -> Response {
        var body = try await VimeoBody(of: call.request, limit: bodyLimit)
        try Self.checkVersion(&body, call)
        guard let entry = try await core(await library.entry(id, of: call.user)), !entry.video.isTicket else {
            throw VimeoError(404, 5012, "The video could not be found.")
        }
        try call.caller.requireAdding(toVideoBegunBy: entry.video.principal)
        let (name, size) = try Self.version(&body)
        let changed = try await uploads.addVersion(name, size: size, to: entry, by: call.caller)
        guard let last = changed.versions.last else { throw VimeoError.refused(.notFound) }
        var response = call.response(
            call.documents.version(last.version, last.upload, of: changed),
            "video.version",
            201
        )
        response.trace.uploadID = last.upload.id.text
        return response
    }

    /// - Throws: 5011, 5013.
    static func checkVersion(_ body: inout VimeoBody, _ call: VimeoCall) throws(VimeoError) {
        guard body["upload"] != nil else {
            throw VimeoError(404, 5011, "There is no upload.", "`upload` is missing.")
        }
        let isNew = VimeoVersion(accept: call.request.head.fields["Accept"]) != .old
        guard isNew, body.text("upload.approach", atMost: 64) == "tus" else {
            throw VimeoError(
                404,
                5013,
                "The video cannot be replaced so.",
                "Versions need version 3.4 and approach tus."
            )
        }
    }

    /// Name and bytes of a new file.
    static func version(_ body: inout VimeoBody) throws(VimeoError) -> (name: String, size: Int64) {
        let size = body.size("upload.size")
        if size == nil, body.problems.isEmpty { body.reject("upload.size", "is missing", 2254) }
        let name = body.text("file_name", atMost: 1024)
        if name == nil, body.problems.isEmpty { body.reject("file_name", "is missing") }
        try body.finish()
        return (name ?? "", size ?? 0)
    }
}
