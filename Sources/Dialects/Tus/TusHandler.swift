internal import Bytes
internal import Foundation
package import HTTPWire
package import UploadCore
package import UploadModel

/// The resumable upload protocol tus 1.0.0 (https://tus.io/protocols/resumable-upload) with the extensions creation,
/// creation-with-upload, creation-defer-length, concatenation, concatenation-unfinished, expiration, checksum,
/// checksum-trailer and termination.
///
/// `RequestTarget.segments` is the path after `/files`: empty for the collection, one segment for an upload. That
/// segment is the upload's locator. A client that knows it can continue or remove the upload; only creation needs a
/// grant.
package struct TusHandler: RequestHandler {
    /// The routes: method, and template below the root.
    ///
    /// POST to an upload is only for `X-HTTP-Method-Override`. GET is listed so that its 405 response has the format of
    /// the protocol.
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
    /// Throws if the URL of an existing upload is no longer valid.
    let admits: @Sendable (UploadID) async throws(UploadError) -> Void
    let settings: TusSettings
    let baseURL: @Sendable (Request) -> String

    /// - Parameters:
    ///   - service: Executes the requests.
    ///   - locator: Creates and verifies the last path segment of upload URLs.
    ///   - grants: Authorises a creation by the head of its request. Throws `.unauthenticated`, `.forbidden`, and
    /// errors of the key
    ///     look-up.
    ///   - admits: Throws if the URL of an existing upload is no longer valid.
    ///   - settings: See `TusSettings`.
    ///   - baseURL: The absolute URL of the collection as seen by the client of the request, such as
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
        if let response = settings.cors.preflight(request.head, methods: settings.supported(resource.preflightMethods))
        {
            return response
        }
        let method = Self.effectiveMethod(of: request.head)
        let id = resource.locator.flatMap { locator.id(in: $0) }
        var response: Response
        do throws(TusFailure) {
            response = try await self.response(request, as: method, on: resource, id)
        } catch {
            response = refusal(error, for: method)
        }
        if let id { response.trace.uploadID = id.text }
        response.fields["Tus-Resumable"] = Tus.version
        settings.cors.decorate(&response, for: request.head)
        return response
    }

    /// The response to a request that is refused before it is handled.
    package func refuse(_ error: UploadError, _ request: Request) -> Response {
        var response = refusal(.upload(error), for: Self.effectiveMethod(of: request.head))
        response.fields["Tus-Resumable"] = Tus.version
        settings.cors.decorate(&response, for: request.head)
        return response
    }

    /// The method to use for a request.
    ///
    /// tus 1.0.0 lets `X-HTTP-Method-Override` change any method, tusd only POST. Here, too: proxies, caches and browsers
    /// repeat a GET and send it ahead, so it must not change anything. Some frameworks send the field in lower case.
    private static func effectiveMethod(of head: RequestHead) -> HTTPMethod {
        guard head.method == .post else { return head.method }
        return overriding(head) ?? head.method
    }

    private static func overriding(_ head: RequestHead) -> HTTPMethod? {
        guard let override = head.fields["X-HTTP-Method-Override"], !override.isEmpty else { return nil }
        return HTTPMethod(rawValue: override.uppercasedASCII())
    }

    private func refusal(_ failure: TusFailure, for method: HTTPMethod) -> Response {
        guard settings.goneIsNotFound, case .upload(let error) = failure, error.code == .gone else {
            return TusErrors.response(to: failure, for: method)
        }
        return TusErrors.response(to: .upload(UploadError(.notFound, error.message, cause: error)), for: method)
    }

    /// Routes by the effective method, so that an override gives no access beyond that of the method itself.
    private func response(
        _ request: Request,
        as method: HTTPMethod,
        on resource: TusResource,
        _ id: UploadID?
    ) async throws(TusFailure) -> Response {
        if let override = Self.overriding(request.head), override != method {
            let text = "Only POST can stand for another method (X-HTTP-Method-Override)."
            throw .upload(UploadError(.invalidRequest, text))
        }
        if resource == .unknown { throw .upload(UploadError(.notFound, "There is no resource at this path.")) }
        guard settings.supported(resource.methods).contains(method) else {
            throw .refused(.methodNotAllowed(settings.supported(resource.allowed)))
        }
        // Discovery needs neither a version nor an upload.
        if method == .options { return discovery(resource) }
        try requireVersion(request.head.fields, for: method)
        if resource == .collection { return try await create(request) }
        guard let id else {
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

    /// The response to a failed PATCH.
    ///
    /// If the upload still exists, it includes the expiry (tus 1.0.0, Upload-Expires).
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

    /// Refuses every unsupported version, with a list of the supported ones (tus 1.0.0, Tus-Resumable).
    ///
    /// HEAD is allowed without the field: it changes nothing, its response has the same meaning for every client, and
    /// people inspect upload URLs with tools that are not tus clients (tusd allows it, too). An unsupported version is
    /// refused for HEAD, too: the client would misinterpret the response.
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
                "Allow": settings.supported(resource.allowed).map(\.rawValue).joined(separator: ", "),
                "Tus-Version": Tus.version,
                "Tus-Extension": settings.extensions.joined(separator: ","),
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
        // A final upload has no offset before it is joined (tus 1.0.0, concatenation), and no length before its parts
        // have one.
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
        response.trace.note(upload: upload.id.text, isMedia: upload.isMedia)
        return response
    }

    /// Adds `Upload-Expires` for an upload that can expire (tus 1.0.0, expiration); complete ones cannot.
    func addExpiry(of upload: Upload, to response: inout Response) {
        guard let date = upload.expiresAt else { return }
        // `HTTPDate` supports years up to 9999.
        let seconds = Int64(exactly: date.timeIntervalSince1970.rounded(.down)) ?? .max
        response.fields.append("Upload-Expires", HTTPDate.format(seconds))
    }
}

/// Constants of the protocol.
enum Tus {
    static let version = "1.0.0"
    static let extensions = [
        "creation", "creation-with-upload", "creation-defer-length", "concatenation", "concatenation-unfinished",
        "expiration",
        "checksum", "checksum-trailer", "termination",
    ]
}

/// The resource at a path below `/files`.
enum TusResource: Equatable {
    case collection
    /// The locator of an upload, not verified yet.
    case upload(String)
    case unknown

    init(segments: [String]) {
        switch segments.count {
        case 0: self = .collection
        // The path is `/files/` or names an upload.
        case 1: self = segments[0].isEmpty ? .collection : .upload(segments[0])
        default: self = .unknown
        }
    }

    /// The locator of the upload, not verified; `nil` if the path names none.
    var locator: String? {
        if case .upload(let locator) = self { locator } else { nil }
    }

    /// The supported methods, after an override.
    var methods: [HTTPMethod] {
        switch self {
        case .collection: [.options, .post]
        case .upload: [.options, .head, .patch, .delete]
        case .unknown: []
        }
    }

    /// The value of `Allow`: includes methods of the other protocols at this path (RFC 9110 §10.2.1 refers to the
    /// resource).
    var allowed: [HTTPMethod] {
        switch self {
        case .collection: [.options, .post, .put, .patch]
        case .upload: [.options, .head, .get, .patch, .delete]
        case .unknown: []
        }
    }

    /// The methods that a page may use, before an override.
    var preflightMethods: [HTTPMethod] {
        switch self {
        // PUT and PATCH belong to plain uploads, which share the collection.
        case .collection: [.options, .post, .put, .patch]
        case .upload: [.options, .head, .patch, .delete, .post]
        case .unknown: [.options]
        }
    }
}

extension UploadError.Code {
    /// Whether the upload still exists after an append that failed with this error.
    fileprivate var leavesUpload: Bool {
        switch self {
        case .offsetMismatch, .lengthConflict, .lengthExceeded, .tooLarge, .checksumMismatch, .unsupportedChecksum,
            .quotaExceeded, .invalidRequest:
            true
        default: leavesUploadUsable
        }
    }
}
