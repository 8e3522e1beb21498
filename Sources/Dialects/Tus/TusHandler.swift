internal import Bytes
internal import Foundation
package import HTTPWire
package import UploadCore

/// The resumable upload protocol tus 1.0.0 (https://tus.io/protocols/resumable-upload) with the extensions creation,
/// creation-with-upload, creation-defer-length, concatenation, concatenation-unfinished, expiration, checksum,
/// checksum-trailer and termination.
///
/// It reads `RequestTarget.segments` as what follows `/files`: nothing for the collection, one segment for an upload.
/// That segment is the upload's locator, and whoever knows it may continue or remove the upload; only creating one needs
/// a grant.
package struct TusHandler: RequestHandler {
    /// What is served: method, and template below the root.
    ///
    /// POST to an upload is for `X-HTTP-Method-Override` only; GET is listed because its 405 has the protocol's form.
    package static let routes: [(HTTPMethod, String)] = [
        (.options, "/files"),
        (.post, "/files"),
        (.options, "/files/{upload}"),
        (.head, "/files/{upload}"),
        (.patch, "/files/{upload}"),
        (.delete, "/files/{upload}"),
        (.post, "/files/{upload}"),
        (.get, "/files/{upload}"),
    ]

    let service: UploadService
    let locator: UploadLocator
    let grants: @Sendable (RequestHead) async throws(UploadError) -> Grant
    /// Throws for an upload whose URL is good for nothing any more, though the upload is there.
    let admits: @Sendable (UploadID) async throws(UploadError) -> Void
    let settings: TusSettings
    let baseURL: @Sendable (Request) -> String

    /// - Parameters:
    ///   - service: Does what is asked for.
    ///   - locator: Makes and checks the last path segment of upload URLs.
    ///   - grants: Authorises a creation by the head of its request; throws `.unauthenticated`, `.forbidden` and whatever
    ///     the look-up of a key throws.
    ///   - admits: Throws for an upload whose URL is good for nothing any more, though the upload is there.
    ///   - settings: What can be configured.
    ///   - baseURL: The absolute URL of the collection as the client of this request reaches it, e.g.
    ///     `https://uploads.example/files`.
    package init(
        service: UploadService,
        locator: UploadLocator,
        grants: @escaping @Sendable (RequestHead) async throws(UploadError) -> Grant,
        admits: @escaping @Sendable (UploadID) async throws(UploadError) -> Void = { _ in },
        settings: TusSettings,
        baseURL: @escaping @Sendable (Request) -> String
    ) {
        self.service = service
        self.locator = locator
        self.grants = grants
        self.admits = admits
        self.settings = settings
        self.baseURL = baseURL
    }

    package func respond(to request: Request) async -> Response {
        let resource = TusResource(segments: request.head.target.segments)
        if let answer = settings.cors.preflight(request.head, methods: resource.preflightMethods) { return answer }
        let method = Self.effectiveMethod(of: request.head)
        var response: Response
        do throws(TusFailure) {
            response = try await answer(request, as: method, on: resource)
        } catch {
            response = refusal(error, for: method)
        }
        response.fields["Tus-Resumable"] = Tus.version
        settings.cors.decorate(&response, for: request.head)
        return response
    }

    /// The method that a request stands for: "the actual method of the request MUST be ignored" (tus 1.0.0,
    /// X-HTTP-Method-Override).
    ///
    /// Frameworks send it in lower case, too. A page of another origin cannot send it without a preflight, and a request that
    /// changes something needs `Tus-Resumable` as well.
    private static func effectiveMethod(of head: RequestHead) -> HTTPMethod {
        guard let override = head.fields["X-HTTP-Method-Override"], !override.isEmpty else { return head.method }
        return HTTPMethod(rawValue: override.uppercased())
    }

    private func refusal(_ failure: TusFailure, for method: HTTPMethod) -> Response {
        guard settings.goneIsNotFound, case .upload(let error) = failure, error.code == .gone else {
            return TusErrors.response(to: failure, for: method)
        }
        return TusErrors.response(to: .upload(UploadError(.notFound, error.message, cause: error)), for: method)
    }

    /// Routes by the effective method, so that an override reaches nothing that the method itself would not reach.
    private func answer(
        _ request: Request,
        as method: HTTPMethod,
        on resource: TusResource
    ) async throws(TusFailure) -> Response {
        if resource == .unknown { throw .upload(UploadError(.notFound, "There is nothing at this path.")) }
        guard resource.methods.contains(method) else { throw .refused(.methodNotAllowed(resource.allowed)) }
        // Discovery needs no version, and no upload either.
        if method == .options { return discovery(resource) }
        try requireVersion(request.head.fields, for: method)
        guard case .upload(let token) = resource else { return try await create(request) }
        guard let id = locator.id(in: token) else {
            throw .upload(UploadError(.notFound, "There is no such upload; create one with POST to the collection."))
        }
        try await TusFailure.wrapping { () async throws(UploadError) in try await admits(id) }
        switch method {
        case .head: return try await offset(of: id)
        case .delete: return try await terminate(id)
        default:
            do throws(TusFailure) {
                return try await append(request, to: id)
            } catch {
                return await refusal(of: error, to: id)
            }
        }
    }

    /// The answer to a PATCH that failed; every one tells when the upload expires (tus 1.0.0, Upload-Expires), if it lives on.
    private func refusal(of failure: TusFailure, to id: UploadID) async -> Response {
        var response = self.refusal(failure, for: .patch)
        switch failure {
        case .upload(let error) where !error.code.leavesUpload: return response
        case .refused(.stopped): return response
        case .upload, .refused: break
        }
        if let upload = try? await service.inspect(id) { addExpiry(of: upload, to: &response) }
        return response
    }

    /// Refuses every version but the one that is spoken, with the list of them (tus 1.0.0, Tus-Resumable).
    ///
    /// HEAD may go without the field: it stores and removes nothing, its answer means the same to everybody, and upload
    /// URLs are also looked at with tools that are no tus clients (tusd lets them, too). A version that is named and is
    /// not ours is refused there as well: its client would take the answer for something else.
    private func requireVersion(_ fields: HTTPFields, for method: HTTPMethod) throws(TusFailure) {
        guard let version = fields["Tus-Resumable"] else {
            if method == .head { return }
            throw .refused(.unsupportedVersion)
        }
        if version != Tus.version { throw .refused(.unsupportedVersion) }
    }

    // MARK: Operations

    private func discovery(_ resource: TusResource) -> Response {
        Response(
            204,
            [
                "Allow": resource.allowed.map(\.rawValue).joined(separator: ", "),
                "Tus-Version": Tus.version,
                "Tus-Extension": Tus.extensions.joined(separator: ","),
                "Tus-Max-Size": String(service.limits.maximumBytes),
                "Tus-Checksum-Algorithm": TusChecksum.offered.joined(separator: ","),
            ]
        )
    }

    private func offset(of id: UploadID) async throws(TusFailure) -> Response {
        let upload = try await TusFailure.wrapping { () async throws(UploadError) in
            try await service.status(of: id)
        }
        var response = Response(200, ["Cache-Control": "no-store"])
        let isFinal = upload.concatenation?.parts != nil
        // A final upload has no offset before it is joined (tus 1.0.0, concatenation), and no length before its parts have.
        if !isFinal || upload.state == .completed { response.fields.append("Upload-Offset", String(upload.offset)) }
        if let length = upload.length {
            response.fields.append("Upload-Length", String(length))
        } else {
            response.fields.append("Upload-Defer-Length", "1")
        }
        if let concatenation = upload.concatenation { response.fields.append("Upload-Concat", concatenation.raw) }
        if let raw = upload.metadata.raw { response.fields.append("Upload-Metadata", raw) }
        addExpiry(of: upload, to: &response)
        return response
    }

    private func terminate(_ id: UploadID) async throws(TusFailure) -> Response {
        try await TusFailure.wrapping { () async throws(UploadError) in
            try await service.terminate(id, unlessComplete: settings.deletesComplete ? nil : .completeStays)
        }
        return Response(204)
    }

    private func append(_ request: Request, to id: UploadID) async throws(TusFailure) -> Response {
        let fields = request.head.fields
        guard TusFields.hasOffsetType(fields) else { throw .refused(.wrongContentType) }
        let offset = try TusFields.offset(fields)
        let length = try TusFields.declaredLength(fields)
        let digest = try TusChecksum.expectation(of: request)
        let upload: Upload
        do throws(UploadError) {
            upload = try await service.append(
                to: id,
                at: offset,
                contentLength: request.body.remaining,
                declaring: length,
                expecting: digest,
                from: request.body
            )
        } catch {
            throw TusFailure(ofAppend: error)
        }
        var response = Response(204, ["Upload-Offset": String(upload.offset)])
        addExpiry(of: upload, to: &response)
        return response
    }

    /// `Upload-Expires` for an upload that will expire (tus 1.0.0, expiration); a complete one will not.
    func addExpiry(of upload: Upload, to response: inout Response) {
        guard let date = upload.expiresAt else { return }
        // `HTTPDate` knows years up to 9999.
        let seconds = Int64(exactly: date.timeIntervalSince1970.rounded(.down)) ?? .max
        response.fields.append("Upload-Expires", HTTPDate.format(seconds))
    }
}

/// Fixed texts of the protocol.
enum Tus {
    static let version = "1.0.0"
    static let extensions = [
        "creation", "creation-with-upload", "creation-defer-length", "concatenation", "concatenation-unfinished",
        "expiration",
        "checksum", "checksum-trailer", "termination",
    ]
}

/// What a path below `/files` names.
enum TusResource: Equatable {
    case collection
    /// By its locator, which is not checked yet.
    case upload(String)
    case unknown

    init(segments: [String]) {
        switch segments.count {
        case 0: self = .collection
        // `/files/` too.
        case 1: self = segments[0].isEmpty ? .collection : .upload(segments[0])
        default: self = .unknown
        }
    }

    /// Methods that mean something here, after an override.
    var methods: [HTTPMethod] {
        switch self {
        case .collection: [.options, .post]
        case .upload: [.options, .head, .patch, .delete]
        case .unknown: []
        }
    }

    /// What `Allow` tells: also what other protocols serve here (RFC 9110 §10.2.1 speaks of the resource).
    var allowed: [HTTPMethod] {
        switch self {
        case .collection: [.options, .post, .put, .patch]
        case .upload: [.options, .head, .get, .patch, .delete]
        case .unknown: []
        }
    }

    /// Methods that a page may use here, before an override.
    var preflightMethods: [HTTPMethod] {
        switch self {
        // PUT and PATCH are those of plain uploads, which share the collection.
        case .collection: [.options, .post, .put, .patch]
        case .upload: [.options, .head, .patch, .delete, .post]
        case .unknown: [.options]
        }
    }
}

extension UploadError.Code {
    /// Whether an upload lives on after an append that failed so.
    fileprivate var leavesUpload: Bool {
        switch self {
        case .offsetMismatch, .lengthConflict, .lengthExceeded, .tooLarge, .checksumMismatch, .unsupportedChecksum,
            .quotaExceeded, .invalidRequest:
            true
        default: leavesUploadUsable
        }
    }
}
