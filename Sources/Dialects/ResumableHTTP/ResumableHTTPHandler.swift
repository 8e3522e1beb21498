internal import Bytes
internal import Foundation
package import HTTPWire
internal import RESTKit
package import UploadCore
package import UploadModel

/// "Resumable Uploads for HTTP" (draft-ietf-httpbis-resumable-upload), interop versions 3 to 8, and plain uploads by
/// POST and PUT, which are the same without interruption.
///
/// It shares `/files` and its upload resources with tus: each protocol can finish uploads of the other.
package struct ResumableHTTPHandler: Sendable {
    let service: UploadService
    let media: MediaService
    let locator: UploadLocator
    let grants: @Sendable (RequestHead) async throws(UploadError) -> Grant
    let admits: @Sendable (UploadID) async throws(UploadError) -> Void
    let deletesComplete: Bool
    let terminates: Bool
    let metadata: @Sendable (RequestHead) throws(UploadError) -> UploadMetadata
    let uploadsURL: @Sendable (Request) -> String
    let canInform: @Sendable (Request) -> Bool
    let target: @Sendable (Upload, Request) -> Response

    /// - Parameters:
    ///   - service: Executes the requests.
    ///   - media: Has the digests of complete uploads.
    ///   - locator: Creates and verifies the last path segment of upload URLs.
    ///   - grants: Authorises a creation by the head of its request.
    ///   - admits: Throws if the URL of an existing upload is no longer valid.
    ///   - deletesComplete: Whether DELETE of an upload URL also removes complete uploads.
    ///   - terminates: Whether DELETE of an upload URL is supported.
    ///   - metadata: What the fields of a request say about the file, besides its media type.
    ///   - uploadsURL: The absolute URL of the collection of upload resources, as seen by the client of the request.
    ///   - canInform: Whether interim responses reach the client of a request.
    ///   - target: Makes the response of the target: 201 with the media of a complete upload, or the state of an
    /// incomplete one.
    package init(
        service: UploadService,
        media: MediaService,
        locator: UploadLocator,
        grants: @escaping @Sendable (RequestHead) async throws(UploadError) -> Grant,
        admits: @escaping @Sendable (UploadID) async throws(UploadError) -> Void = { _ in },
        deletesComplete: Bool = false,
        terminates: Bool = true,
        metadata: @escaping @Sendable (RequestHead) throws(UploadError) -> UploadMetadata,
        uploadsURL: @escaping @Sendable (Request) -> String,
        canInform: @escaping @Sendable (Request) -> Bool,
        target: @escaping @Sendable (Upload, Request) -> Response
    ) {
        self.service = service
        self.media = media
        self.locator = locator
        self.grants = grants
        self.admits = admits
        self.deletesComplete = deletesComplete
        self.terminates = terminates
        self.metadata = metadata
        self.uploadsURL = uploadsURL
        self.canInform = canInform
        self.target = target
    }

    /// Whether a request uses this protocol, at a path that it shares with tus.
    ///
    /// `Tus-Resumable` means tus. Otherwise fields of the draft decide. A creation without fields of either protocol is
    /// a plain upload, and the newest draft has requests without fields of its own.
    package static func isMeant(by head: RequestHead) -> Bool {
        let fields = head.fields
        if fields.contains("Tus-Resumable") || head.method == .options { return false }
        if fields.contains("Upload-Draft-Interop-Version") || fields.contains("Upload-Complete")
            || fields.contains("Upload-Incomplete") || DraftFields.hasPartialType(fields)
        {
            return true
        }
        // Only tus defines it, and it can change any method.
        if fields.contains("X-HTTP-Method-Override") { return false }
        if [.put, .head, .get, .delete].contains(head.method) { return true }
        if head.method == .patch { return !DraftFields.hasType(fields, "application/offset+octet-stream") }
        let ofTus: [FieldName] = [
            "Upload-Length", "Upload-Defer-Length", "Upload-Metadata", "Upload-Concat",
        ]
        return head.method == .post && !ofTus.contains(where: fields.contains)
    }

    /// Handles a request for the collection (`token` is `nil`) or for an upload resource.
    package func respond(to request: Request, upload token: String?) async -> Response {
        let version = InteropVersion(request.head.fields)
        let id = token.flatMap { locator.id(in: $0) }
        var response: Response
        do throws(UploadProblem) {
            response = try await self.response(request, isForUpload: token != nil, id, version)
        } catch {
            var error = error
            if error.status == 410, version.endedIsNotFound {
                error.status = 404
                error.code = "not_found"
            }
            response = error.response(requestID: request.id)
            if error.expectedOffset != nil { version.setComplete(error.isComplete, in: &response.fields) }
            if error.status == 413, version.hasLimits { response.fields["Upload-Limit"] = limits(of: nil, version) }
        }
        if let id { response.trace.uploadID = id.text }
        if request.head.method == .head { response.content = .empty }
        if let number = version.number { response.fields["Upload-Draft-Interop-Version"] = String(number) }
        return response
    }

    private func response(
        _ request: Request,
        isForUpload: Bool,
        _ id: UploadID?,
        _ version: InteropVersion
    ) async throws(UploadProblem) -> Response {
        let method = request.head.method
        guard isForUpload else {
            guard [.post, .put, .patch].contains(method) else { throw Self.notAllowed("OPTIONS, POST, PUT, PATCH") }
            return try await create(request, version)
        }
        guard [.head, .get, .patch].contains(method) || method == .delete && terminates else {
            throw Self.notAllowed("OPTIONS, HEAD, GET, PATCH" + (terminates ? ", DELETE" : ""))
        }
        guard let id else {
            throw UploadProblem(404, "not_found", "There is no such upload; create one with POST to the collection.")
        }
        try await UploadProblem.wrapping { () async throws(UploadError) in try await admits(id) }
        if method == .patch { return try await append(request, to: id, version) }
        if version.hasStrayFields(request.head.fields, of: method) {
            throw UploadProblem(
                400,
                "invalid_request",
                "\(method) must have neither Upload-Offset nor a field about completeness."
            )
        }
        if method == .delete {
            try await UploadProblem.wrapping { () async throws(UploadError) in
                try await service.terminate(id, unlessComplete: deletesComplete ? nil : .completeStays)
            }
            return Response(204)
        }
        return try await offset(of: id, version)
    }

    private static func notAllowed(_ methods: String) -> UploadProblem {
        var problem = UploadProblem(405, "method_not_allowed", "This resource does not support this method; see Allow.")
        problem.fields["Allow"] = methods
        return problem
    }

    // MARK: Operations

    private func offset(of id: UploadID, _ version: InteropVersion) async throws(UploadProblem) -> Response {
        let upload = try await UploadProblem.wrapping { () async throws(UploadError) in
            try await service.status(of: id, .explicit(isLast: false))
        }
        var response = Response(204, ["Cache-Control": "no-store"])
        describe(upload, version, in: &response)
        if let length = upload.length { response.fields["Upload-Length"] = String(length) }
        return response
    }

    private func create(_ request: Request, _ version: InteropVersion) async throws(UploadProblem) -> Response {
        let head = request.head
        // The framing of the form would become part of the file.
        guard !DraftFields.hasType(head.fields, "multipart/form-data") else {
            throw UploadProblem(
                415,
                "unsupported_media_type",
                "Send the file itself as the content; forms need POST and cannot be resumed."
            )
        }
        try DraftFields.requirePlainContent(head.fields)
        let grant = try await UploadProblem.wrapping { () async throws(UploadError) in try await grants(head) }
        let declared = version.isLast(head.fields)
        let isLast = declared ?? true
        let length = try newLength(head.fields, contentLength: request.body.remaining, isLast: isLast)
        let contentDigest = try DigestFields.expectation(of: request)
        let expectedDigests = try DigestFields.values("Repr-Digest", head.fields)
        let new = NewUpload(
            dialect: "http",
            length: length,
            metadata: try await UploadProblem.wrapping { () async throws(UploadError) in try metadata(head) },
            expectedDigests: expectedDigests,
            completesWhenFull: false
        )
        // A client that can resume first learns the URL, and continues there if the connection breaks.
        let isResumable = declared != nil && version.hasInterim && canInform(request)
        var source: any ByteSource = request.body
        if isLast, !isResumable, let upload = try await createWhole(new, under: grant, &source, contentDigest) {
            return await completed(upload, request, version, uploadsURL(request) + "/" + locator.token(for: upload))
        }
        var upload = try await UploadProblem.wrapping { () async throws(UploadError) in
            try await service.create(new, under: grant)
        }
        let location = uploadsURL(request) + "/" + locator.token(for: upload)
        if isResumable { await inform(request, upload, version, ["Location": location]) }
        // If an interrupted upload would be discarded anyway, hash while receiving instead of reading the bytes again.
        let digest =
            contentDigest
            ?? (isLast && !isResumable ? AnnouncedDigests.strongest(expectedDigests).map { .known($0) } : nil)
        if isLast || request.body.remaining != 0 {
            do throws(UploadError) {
                upload = try await append(
                    request,
                    source,
                    to: upload.id,
                    at: 0,
                    length,
                    isLast: isLast,
                    digest,
                    version
                )
            } catch {
                var error = error
                if error.code == .checksumMismatch, contentDigest == nil { error = UploadError.digestMismatch }
                let isUsable = error.code.leavesUploadUsable || error.code == .checksumMismatch
                if !isResumable || !isUsable { await service.discard(upload.id, after: error) }
                throw UploadProblem(error)
            }
        }
        if isLast, !isResumable {
            let taken = upload
            upload = try await UploadProblem.wrapping { () async throws(UploadError) in
                try await service.finished(taken)
            }
        }
        if upload.state == .completed { return await completed(upload, request, version, location) }
        var response = target(upload, request)
        response.fields["Location"] = location
        describe(upload, version, in: &response)
        return response
    }

    /// Stores small content with its record; see `UploadService.createWhole`.
    private func createWhole(
        _ new: NewUpload,
        under grant: Grant,
        _ source: inout any ByteSource,
        _ digest: DigestExpectation?
    ) async throws(UploadProblem) -> Upload? {
        do throws(UploadError) {
            return try await service.createWhole(new, under: grant, from: &source, expecting: digest)
        } catch {
            throw UploadProblem(error)
        }
    }

    private func append(
        _ request: Request,
        to id: UploadID,
        _ version: InteropVersion
    ) async throws(UploadProblem) -> Response {
        let fields = request.head.fields
        guard !version.needsMediaType || DraftFields.hasPartialType(fields) else {
            var problem = UploadProblem(415, "unsupported_media_type", "Send Content-Type: application/partial-upload.")
            problem.fields["Accept-Patch"] = "application/partial-upload"
            throw problem
        }
        let offset = try DraftFields.offset(fields)
        let declared = version.isLast(fields)
        guard let isLast = declared ?? (version.needsCompleteness ? nil : true) else {
            throw UploadProblem(
                400,
                "invalid_request",
                "Upload-Complete is missing: send ?1 with the last request, ?0 with others."
            )
        }
        let length = DraftFields.length(fields)
        let digest = try DigestFields.expectation(of: request)
        let hasContent = request.body.remaining != 0
        let upload: Upload
        do throws(UploadError) {
            upload = try await append(
                request,
                request.body,
                to: id,
                at: offset,
                length,
                isLast: isLast,
                digest,
                version
            )
        } catch {
            if case .lengthExceeded = error.code, version.overlengthEnds { await service.discard(id, .open) }
            var problem = UploadProblem(error)
            if case .offsetMismatch(let expected) = error.code {
                problem.providedOffset = offset
                problem.isComplete = (try? await service.inspect(id))?.state == .completed
                problem.fields["Upload-Offset"] = String(expected)
            }
            if error.code == .notOpen, !version.hasCompletedProblem {
                problem =
                    hasContent
                    ? UploadProblem(400, "length_conflict", type: UploadProblem.inconsistentLength, error.message)
                    : UploadProblem(410, "gone", error.message)
            }
            if version.failuresTellOffset, error.code.leavesOffset, problem.fields["Upload-Offset"] == nil,
                let upload = try? await service.inspect(id)
            {
                problem.fields["Upload-Offset"] = String(upload.offset)
            }
            throw problem
        }
        if upload.state == .completed {
            return await completed(upload, request, version, uploadsURL(request) + "/" + locator.token(for: upload))
        }
        var response = Response(version.appendStatus)
        describe(upload, version, in: &response)
        return response
    }

    private func append(
        _ request: Request,
        _ content: any ByteSource,
        to id: UploadID,
        at offset: Int64,
        _ length: Int64?,
        isLast: Bool,
        _ digest: DigestExpectation?,
        _ version: InteropVersion
    ) async throws(UploadError) -> Upload {
        var progress: ((Upload) async -> Void)?
        if version.hasProgress, canInform(request) {
            progress = { current in
                let fields: HTTPFields = ["Upload-Offset": "\(current.offset)"]
                await inform(request, current, version, fields)
            }
        }
        return try await service.append(
            to: id,
            at: offset,
            contentLength: content.remaining,
            declaring: length,
            finish: .explicit(isLast: isLast),
            expecting: digest,
            from: content,
            progress: progress
        )
    }

    // MARK: Responses

    /// Sends a 104.
    ///
    /// A failure is detected later, when the content is read or the response is written.
    private func inform(
        _ request: Request,
        _ upload: Upload,
        _ version: InteropVersion,
        _ fields: HTTPFields
    ) async {
        guard let number = version.number else { return }
        var head = ResponseHead(104, ["Upload-Draft-Interop-Version": String(number)])
        head.fields.append(contentsOf: fields)
        if fields.contains("Location"), version.hasLimits { head.fields["Upload-Limit"] = limits(of: upload, version) }
        try? await request.inform(head)
    }

    private func completed(
        _ upload: Upload,
        _ request: Request,
        _ version: InteropVersion,
        _ location: String
    ) async -> Response {
        var response = target(upload, request)
        await DigestFields.add(to: &response, wantedBy: request.head) { algorithm in
            try? await media.digest(of: upload.id, by: algorithm)
        }
        if !version.targetResponses { response.fields["Location"] = location }
        response.fields["Upload-Offset"] = String(upload.offset)
        version.setComplete(true, in: &response.fields)
        return response
    }

    private func describe(_ upload: Upload, _ version: InteropVersion, in response: inout Response) {
        response.fields["Upload-Offset"] = String(upload.offset)
        version.setComplete(upload.state == .completed, in: &response.fields)
        if version.hasLimits, upload.state == .open { response.fields["Upload-Limit"] = limits(of: upload, version) }
    }

    /// The value of `Upload-Limit`; without an upload, the limits of all uploads.
    private func limits(of upload: Upload?, _ version: InteropVersion) -> String {
        let most = min(service.limits.maximumBytes, upload?.maximumBytes ?? .max)
        // Structured integers have at most 15 digits (RFC 9651 §3.3.1).
        var text = "max-size=\(min(most, 999_999_999_999_999))"
        if let expiresAt = upload?.expiresAt {
            let secondsLeft = Int64(max(0, expiresAt.timeIntervalSince(service.now)))
            text += ", \(version.ageKey)=\(secondsLeft)"
        } else if upload == nil, let lifetime = service.limits.lifetime {
            text += ", \(version.ageKey)=\(Int64(lifetime))"
        }
        return text
    }

    /// Adds the fields of this protocol to a response to OPTIONS.
    package func describeDiscovery(to head: RequestHead, in response: inout Response) {
        let version = InteropVersion(head.fields)
        response.fields["Upload-Limit"] = limits(of: nil, version)
        response.fields["Accept-Patch"] = "application/partial-upload"
    }

    // MARK: Checks

    private func newLength(
        _ fields: HTTPFields,
        contentLength: Int64?,
        isLast: Bool
    ) throws(UploadProblem) -> Int64? {
        let declared = DraftFields.length(fields)
        guard let contentLength else { return declared }
        if let declared, isLast ? declared != contentLength : declared < contentLength {
            throw UploadProblem(
                400,
                "length_conflict",
                type: UploadProblem.inconsistentLength,
                "Upload-Length says \(declared) bytes, and the content has \(contentLength)."
            )
        }
        return isLast ? contentLength : declared
    }
}

extension UploadError.Code {
    /// Whether an append that failed with this error leaves an upload whose offset can be read without interrupting
    /// another request.
    fileprivate var leavesOffset: Bool {
        switch self {
        case .offsetMismatch, .lengthConflict, .lengthExceeded, .tooLarge, .checksumMismatch, .notOpen, .timedOut,
            .quotaExceeded, .storageFull, .storageFailure, .finishing, .invalidRequest, .tooManyRequests:
            true
        // Another request is writing now.
        case .interrupted, .busy, .notFound, .gone, .unavailable, .disconnected, .unauthenticated, .forbidden,
            .contentTypeRefused, .digestMismatch, .unsupportedChecksum, .conditionFailed, .invalidParts, .grantUsed,
            .rejected:
            false
        }
    }
}
