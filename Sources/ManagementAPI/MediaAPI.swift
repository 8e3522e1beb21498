internal import Bytes
internal import Foundation
internal import GatewayKit
internal import HTTPWire
internal import RESTKit
internal import ResumableHTTP
internal import UploadCore
internal import UploadModel

/// `/v1/media` and the downloads at `/media`.
struct MediaAPI: Sendable {
    let service: MediaService
    let uploads: UploadService
    let names: UploadNames
    let links: MediaLinks
    let access: Access
    let publicURL: PublicURL
    let bodyLimit: Int
    let clock: any WallClock
    let revoked: RevocationList
    let allowsDownloads: Bool
    /// Of upload URLs.
    let locator: UploadLocator
    let urls: UploadURLs
    let audit: AuditLog

    static let maximumLinkLifetime: Int64 = 7 * 86_400
    static let defaultLinkLifetime: Int64 = 3600

    var routes: [Route] {
        [
            Route(.get, "/v1/media/{id}") { request, parameters in
                await responding(request) { () throws(Problem) in try await show(request, parameters["id"]) }
            },
            Route(.patch, "/v1/media/{id}") { request, parameters in
                await responding(request) { () throws(Problem) in try await edit(request, parameters["id"]) }
            },
            Route(.delete, "/v1/media/{id}") { request, parameters in
                await responding(request) { () throws(Problem) in try await remove(request, parameters["id"]) }
            },
            Route(.post, "/v1/media/{id}/links") { request, parameters in
                await responding(request) { () throws(Problem) in try await link(request, parameters["id"]) }
            },
            Route(.get, "/media/{id}") { request, parameters in
                await responding(request) { () throws(Problem) in try await download(request, parameters["id"]) }
            },
        ]
    }

    private func show(_ request: Request, _ text: String) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.read, request)
        return response(try await media(text, within: key.limits), request)
    }

    private func edit(_ request: Request, _ text: String) async throws(Problem) -> Response {
        let key = try await access.appKey(.upload, request)
        let edit = try await MetadataEdit(readingFrom: request, limit: bodyLimit)
        let before = try await media(text, within: key.limits)
        try checkConditions(request.head, before)
        let media = try await access.core { () throws(UploadError) in
            _ = try await uploads.editMetadata(of: before.id) { edit.apply(to: $0) }
            return try await service.media(before.id)
        }
        return response(media, request)
    }

    private func remove(_ request: Request, _ text: String) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.delete, request)
        let media = try await media(text, within: key.limits)
        try checkConditions(request.head, media)
        try await access.core { () throws(UploadError) in try await uploads.terminate(media.id) }
        audit.record(.deleteMedia, media.id, by: key, request)
        var response = Response(204)
        response.trace.note(upload: media.id.text, isMedia: true)
        return response
    }

    private func media(_ text: String, within limits: KeyLimits) async throws(Problem) -> Media {
        let id = try await mediaID(text, within: limits)
        return try await access.core { () throws(UploadError) in try await service.media(id) }
    }

    private func response(_ media: Media, _ request: Request) -> Response {
        var response = JSONResponse.response(200, MediaView(media, url: url(of: media.id, request)))
        response.trace.note(upload: media.id.text, isMedia: true)
        return response
    }

    private func checkConditions(_ head: RequestHead, _ media: Media) throws(Problem) {
        let outcome = EntityTagConditions.evaluate(
            head.fields,
            method: head.method,
            tag: EntityTag(media.entityTag),
            lastModified: Int64(media.createdAt.timeIntervalSince1970)
        )
        if outcome != .proceed { throw Self.preconditionFailed }
    }

    private static let preconditionFailed = Problem(
        412,
        "precondition_failed",
        "the media is not the one that If-Match or a like field names"
    )

    private struct LinkView: Encodable {
        var url: String
        var expiresAt: String
    }

    private func link(_ request: Request, _ text: String) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.read, request)
        try checkDownloads()
        let id = try await mediaID(text, within: key.limits)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let lifetime = fields.integer("expiresIn", in: 1...Self.maximumLinkLifetime) ?? Self.defaultLinkLifetime
        try fields.finish()
        let media = try await access.core { () throws(UploadError) in try await service.media(id) }
        try access.check(key, mints: MintedRights([.read], subject: media.subject, reach: .limitsOfKey))
        let now = clock.now
        let expiresAt = key.lastExpiry(
            Date(timeIntervalSince1970: (now.timeIntervalSince1970 + Double(lifetime)).rounded(.up)),
            at: now
        )
        let query = links.query(for: id, expiresAt: expiresAt, issuer: key.id, at: now)
        let view = LinkView(
            url: url(of: id, request) + "?" + query,
            expiresAt: JSONResponse.timestamp(expiresAt)
        )
        var response = JSONResponse.response(201, view)
        response.trace.note(upload: id.text, isMedia: true)
        return response
    }

    private func url(of id: UploadID, _ request: Request) -> String {
        publicURL.base(for: request) + "/media/" + id.text
    }

    private func mediaID(_ text: String, within limits: KeyLimits = KeyLimits()) async throws(Problem) -> UploadID {
        try await names.id(text, kind: "media", within: limits)
    }

    /// Checks that a link was not revoked: with its key, or with everything minted then, including for the user who
    /// owns the media.
    private func check(_ origin: MediaLinks.Origin, _ media: Media) async throws(Problem) {
        try await access.core { () throws(UploadError) in
            let isRevoked = try await revoked.refuses(
                issuer: origin.issuer,
                subject: media.subject,
                issuedAt: origin.issuedAt
            )
            if isRevoked { throw RevocationList.revoked }
        }
    }

    // MARK: Download

    private func checkDownloads() throws(Problem) {
        if !allowsDownloads { throw Problem(403, "forbidden", "this server serves no content (media.downloads)") }
    }

    private func download(_ request: Request, _ text: String) async throws(Problem) -> Response {
        let head = request.head
        let parameters = try QueryParameters(
            request,
            allowed: ["expires", "key", "issued", "signature", "disposition"]
        )
        let isInline = try Self.isInline(parameters)
        var origin: MediaLinks.Origin?
        var limits = KeyLimits()
        if let signature = parameters["signature"] {
            // An invalid id is refused like a wrong signature, so that it reveals nothing about existing media.
            guard let id = UploadID(text) else {
                throw Problem(403, "forbidden", "the signature of this link is not valid")
            }
            let claim = MediaLinks.Claim(
                expires: parameters["expires"] ?? "",
                issuer: parameters["key"],
                issued: parameters["issued"],
                signature: signature
            )
            origin = try await access.core { () throws(UploadError) in
                try links.verify(claim, for: id, at: clock.now)
            }
        } else {
            limits = try await access.limitedKey(.read, request).limits
        }
        let id = try await mediaID(text, within: limits)
        let (media, blob) = try await access.core { () throws(UploadError) in try await service.open(id) }
        if let origin { try await check(origin, media) }
        return try await response(head, media, blob, isInline: isInline)
    }

    private static func isInline(_ parameters: QueryParameters) throws(Problem) -> Bool {
        guard let disposition = parameters["disposition"] else { return false }
        guard ["inline", "attachment"].contains(disposition) else {
            throw Problem.invalidFields([.init(field: "disposition", message: "must be inline or attachment")])
        }
        return disposition == "inline"
    }

    /// GET on an upload URL, as tusd serves it: the content of a complete upload.
    func contentByUploadURL(_ request: Request) async -> Response {
        await responding(request) { () throws(Problem) in
            let parameters = try QueryParameters(request, allowed: ["disposition"])
            let isInline = try Self.isInline(parameters)
            guard let token = request.head.target.segments.last, let id = locator.id(in: token) else {
                throw Problem(404, "not_found", "there is no such upload")
            }
            let (media, blob) = try await access.core { () throws(UploadError) in
                try await urls.check(id)
                return try await service.open(id)
            }
            return try await response(request.head, media, blob, isInline: isInline)
        }
    }

    private func response(
        _ head: RequestHead,
        _ media: Media,
        _ blob: StoredBlob,
        isInline: Bool
    ) async throws(Problem) -> Response {
        var response = try await content(head, media, blob, isInline: isInline)
        if response.status == 200 || response.status == 206 {
            await DigestFields.add(to: &response, wantedBy: head) { algorithm in
                if let known = media.digests[algorithm] { return known }
                return try? await service.digest(of: media.id, by: algorithm)
            }
        }
        response.trace.note(upload: media.id.text, isMedia: true)
        return response
    }

    private func content(
        _ head: RequestHead,
        _ media: Media,
        _ blob: StoredBlob,
        isInline: Bool
    ) async throws(Problem) -> Response {
        let tag = EntityTag(media.entityTag)
        let modified = Int64(media.createdAt.timeIntervalSince1970)
        var response = Response(
            200,
            [
                "ETag": media.entityTag,
                "Last-Modified": HTTPDate.format(modified),
                "Accept-Ranges": "bytes",
                "Cache-Control": "private, no-transform",
            ]
        )
        switch EntityTagConditions.evaluate(
            head.fields,
            method: head.method,
            tag: tag,
            lastModified: modified,
            exists: true
        ) {
        case .proceed: break
        case .notModified:
            response.status = 304
            return response
        case .preconditionFailed:
            throw Self.preconditionFailed
        }
        if head.method != .head { try checkDownloads() }
        let (contentType, disposition) = Self.presentation(of: media, isInline: isInline)
        // A link is signed for GET alone.
        if head.method == .get, case .remote(let remote) = blob.content {
            let link = try await access.core { () async throws(UploadError) in
                try await remote.link(contentType: contentType, disposition: disposition)
            }
            // Must not be cached: the target is valid for some minutes only.
            if let link { return Response(302, ["Location": link, "Cache-Control": "no-store"]) }
        }
        response.fields["Content-Type"] = contentType
        response.fields["Content-Disposition"] = disposition
        // Content is untrusted: browsers must not render it as a page of this origin.
        response.fields["X-Content-Type-Options"] = "nosniff"
        response.fields["Content-Security-Policy"] = "default-src 'none'; sandbox"
        let range = try Self.range(head, of: blob.size, tag, in: &response)
        response.content = try await access.core { () async throws(UploadError) in
            try await blob.responseContent(range, isHead: head.method == .head)
        }
        return response
    }

    /// The fields Content-Type and Content-Disposition.
    private static func presentation(
        of media: Media,
        isInline: Bool
    ) -> (contentType: String, disposition: String) {
        let type = media.contentType.flatMap { MediaType($0) }
        let isSafe = isInline && type?.isSafeInline == true
        let filename = media.filename ?? media.id.text
        return (
            type?.description ?? "application/octet-stream",
            isSafe
                ? ContentDisposition.inline(fileName: filename)
                : ContentDisposition.attachment(fileName: filename)
        )
    }

    /// The bytes that a request asks for; says in the response if they are a part.
    ///
    /// - Throws: `Problem` 416.
    private static func range(
        _ head: RequestHead,
        of size: Int64,
        _ tag: EntityTag?,
        in response: inout Response
    ) throws(Problem) -> Range<Int64> {
        let isHonoured =
            head.method == .get && EntityTagConditions.honoursRange(head.fields, tag: tag, lastModified: nil)
        switch ByteRanges.select(isHonoured ? head.fields["Range"] : nil, size: size) {
        case .whole: return 0..<size
        case .single(let part):
            response.status = 206
            response.fields["Content-Range"] = ByteRanges.contentRange(part, size: size)
            return part
        case .unsatisfiable:
            var problem = Problem(416, "range_not_satisfiable", "the media has \(size) bytes; ask for some of them")
            problem.fields["Content-Range"] = ByteRanges.unsatisfiedContentRange(size: size)
            throw problem
        }
    }
}
