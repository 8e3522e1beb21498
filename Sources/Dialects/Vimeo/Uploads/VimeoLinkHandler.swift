internal import Bytes
internal import Foundation
internal import HTTPWire
internal import RESTKit
internal import SystemIO
internal import Tus
internal import UploadCore
internal import UploadModel
internal import VODKit

/// The links to which bytes go: `/vimeo/files/{upload}` for tus, `/vimeo/videos/{video}` for PUT and forms.
///
/// Whoever knows a link may use it: a credential beside it is not looked at (protocol notes §1, 11).
struct VimeoLinkHandler: RequestHandler {
    let library: VimeoLibrary
    let uploads: VimeoUploads
    let links: VimeoLinks
    let tus: TusHandler
    let urls: UploadURLs
    let cors: CORSPolicy
    /// Told the record of a video whose bytes have come.
    let arrived: @Sendable (_ recordKey: String) -> Void
    let report: @Sendable (_ call: String, _ message: String) -> Void

    func respond(to request: Request) async -> Response {
        let segments = request.head.target.segments
        if segments.count == 3, segments[1] == "files" { return await respondByTus(request, segments[2]) }
        if let response = cors.preflight(request.head, methods: [.put, .post, .options]) { return response }
        var response: Response
        do throws(VimeoError) {
            response = try await self.response(request, segments)
        } catch {
            let failure = if case .core(let cause) = error { Self.failure(cause) } else { error.failure }
            if error.isOfServer, failure.status.code >= 500 { report("bytes", error.message) }
            response = failure.response(requestID: request.id)
        }
        cors.decorate(&response, for: request.head)
        return response
    }

    /// The response to a request that is refused before it is handled.
    func refuse(_ error: UploadError, _ request: Request) -> Response {
        let segments = request.head.target.segments
        if segments.count == 3, segments[1] == "files" { return tus.refuse(error, request) }
        var response = Self.failure(error).response(requestID: request.id)
        cors.decorate(&response, for: request.head)
        return response
    }

    /// What the core's error means to a client that sends bytes.
    private static func failure(_ error: UploadError) -> VimeoFailure {
        switch error.code {
        case .offsetMismatch, .lengthConflict, .notOpen:
            VimeoFailure(409, nil, "The content does not fit to what is stored.", error.message)
        case .lengthExceeded, .tooLarge: VimeoFailure(413, nil, "The content is too large.", error.message)
        case .disconnected: VimeoFailure(400, nil, "The content is not complete.", error.message)
        case .timedOut: VimeoFailure(408, nil, "No content arrived for too long.", error.message)
        case .invalidRequest, .unauthenticated, .forbidden, .notFound, .gone, .contentTypeRefused, .checksumMismatch,
            .digestMismatch, .unsupportedChecksum, .conditionFailed, .invalidParts, .grantUsed, .quotaExceeded,
            .tooManyRequests, .rejected, .interrupted, .busy, .storageFull, .storageFailure, .finishing, .unavailable:
            VimeoFailure(error)
        }
    }

    // MARK: tus

    /// Passes on to tus, without what no client of Vimeo means.
    ///
    /// When vimeo.php 2.0.5 resumes, it announces the length of the whole file (protocol notes §1, 7). vimeo.php 3.0
    /// sends a digest of the whole file with each piece, which the real service does not look at (§15).
    private func respondByTus(_ request: Request, _ token: String) async -> Response {
        var head = request.head
        let target = head.target
        head.target = RequestTarget(
            rawPath: target.rawPath,
            rawQuery: target.rawQuery,
            authority: target.authority,
            segments: [token]
        )
        if let response = cors.preflight(request.head, methods: Self.tusMethods) { return response }
        // The real service has no creation here, and does not take a termination (protocol notes §4.3).
        let method = head.method
        guard Self.tusMethods.contains(method) else {
            var response = VimeoFailure.methodNotAllowed(Self.tusMethods).response(requestID: request.id)
            cors.decorate(&response, for: request.head)
            return response
        }
        for name: FieldName in ["X-HTTP-Method-Override", "Upload-Checksum", "Trailer"] { head.fields[name] = nil }
        var body = request.body
        let upload =
            if let id = links.locator.id(in: token) { try? await library.uploads.recorded(id) } else { nil as Upload? }
        if method == .options, upload?.isAlive != true {
            var response = VimeoFailure.notFound.response(requestID: request.id)
            cors.decorate(&response, for: request.head)
            return response
        }
        if method == .patch, let offset = head.fields["Upload-Offset"].flatMap({ Int64($0) }), offset >= 0,
            let length = upload?.length, offset < length, body.remaining.map({ $0 > length - offset }) ?? true
        {
            body = WindowBody(body, limit: length - offset)
        }
        var response = await tus.respond(
            to: Request(
                head: head,
                body: body,
                id: request.id,
                peerAddress: request.peerAddress,
                peerPort: request.peerPort,
                isEncrypted: request.isEncrypted,
                inform: request.inform
            )
        )
        if method == .options {
            response.fields["Allow"] = Self.list(Self.tusMethods)
            response.fields["Tus-Extension"] = "expiration"
            response.fields["Tus-Checksum-Algorithm"] = nil
        }
        return response
    }

    private static let tusMethods: [HTTPMethod] = [.head, .patch, .options]

    private static func list(_ methods: [HTTPMethod]) -> String { methods.map(\.rawValue).joined(separator: ", ") }

    // MARK: PUT and forms

    private func response(_ request: Request, _ segments: [String]) async throws(VimeoError) -> Response {
        if segments.count == 3, let kind = VimeoAttachment.Kind.allCases.first(where: { $0.collection == segments[1] })
        {
            return try await putAttachment(kind, request, segments[2])
        }
        guard segments.count == 3, segments[1] == "videos", let target = links.target(segments[2]),
            let entry = try await core(await library.entry(at: target.recordKey)),
            // A key has the number of its user only, so the subject is verified, too.
            links.verifies(target, entry.video.subject)
        else { throw VimeoError.refused(.notFound) }
        try await core(
            await urls.check(
                issuer: entry.video.issuer,
                subject: entry.video.subject,
                createdAt: entry.record.record.createdAt
            )
        )
        let methods: [HTTPMethod]
        switch entry.video.approach {
        case .tus, .pull: throw VimeoError.refused(.notFound)
        case .post: methods = [.put, .post, .options]
        case .streaming, .ticket: methods = [.put, .options]
        }
        guard methods.contains(request.head.method) else { throw VimeoError.refused(.methodNotAllowed(methods)) }
        switch request.head.method {
        case .options: return Response(204, ["Allow": Self.list(methods)])
        case .post: return try await form(request, entry)
        default: return try await put(request, entry)
        }
    }

    /// The bytes of a picture or a text track: always one PUT, whatever its type says.
    ///
    /// Content that its range calls a part is not stored.
    private func putAttachment(_ kind: VimeoAttachment.Kind, _ request: Request, _ text: String)
        async throws(VimeoError)
        -> Response
    {
        guard let target = links.attachmentTarget(text),
            let found = try await core(await library.attachments.one(kind, at: target.recordKey)),
            links.verifies(target, found.content),
            let entry = try await core(await library.entry(found.content.video, of: found.content.user))
        else { throw VimeoError.refused(.notFound) }
        try await core(
            await urls.check(
                issuer: found.content.issuer,
                subject: found.content.subject,
                createdAt: found.record.createdAt
            )
        )
        let methods: [HTTPMethod] = [.put, .options]
        guard methods.contains(request.head.method) else { throw VimeoError.refused(.methodNotAllowed(methods)) }
        if request.head.method == .options { return Response(204, ["Allow": Self.list(methods)]) }
        var total: Int64?
        switch request.head.fields["Content-Range"].flatMap({ VimeoContentRange($0) }) {
        case .probe: return Self.count(try await core(await library.attachments.count(of: found.content)), false)
        case .part(let part):
            // Nothing is kept of a part.
            if part.start > 0 {
                return Self.count(try await core(await library.attachments.count(of: found.content)), false)
            }
            total = part.total
        case nil: break
        }
        // vimeo.php sends text tracks as forms, and PyVimeo sends no type.
        let named = request.head.fields["Content-Type"].flatMap { MediaType($0)?.essence }
        let isMeant = named.map { $0.hasPrefix(kind == .picture ? "image/" : "text/") } ?? false
        let type = isMeant ? named : nil
        try await library.attachments.put(
            request.body,
            counting: total,
            type: type ?? (kind == .picture ? "image/jpeg" : "text/vtt"),
            to: found,
            of: entry.video
        )
        try await core(await library.touch(entry))
        let document = JSONValue.object([
            "Status": .string("success"), "Notes": .string(""), "Path": .string(found.content.uri(of: entry.video)),
        ])
        return Response(200, ["Content-Type": "application/json"], .bytes(VimeoJSON.bytes(document)))
    }

    private func put(_ request: Request, _ entry: VimeoEntry) async throws(VimeoError) -> Response {
        // Without the field the content is the whole file.
        var range = VimeoContentRange.part(VimeoContentRange.Part(start: 0, end: 0))
        if let text = request.head.fields["Content-Range"] {
            guard let parsed = VimeoContentRange(text) else {
                throw VimeoError(
                    400,
                    nil,
                    "Content-Range cannot be read.",
                    "Send `bytes START-END/TOTAL` or `bytes */*`."
                )
            }
            range = parsed
        }
        switch range {
        case .probe(let total):
            let isInclusive = entry.video.countsInclusively
            return Self.count(try await core(await uploads.count(of: entry)), isInclusive, mayBeMissing: total != nil)
        case .part(let part):
            let isPiece = part.isPiece(request.body.remaining)
            let isInclusive = part.isInclusive || isPiece
            if isInclusive != entry.video.countsInclusively, part.start == 0, request.body.remaining != 0 {
                _ = try await core(
                    await library.change(entry) { video in
                        var video = video
                        video.countsInclusively = isInclusive
                        return video
                    }
                )
            }
            let isWhole = request.head.fields["Content-Range"] == nil
            switch try await uploads.put(request.body, from: part.start, of: part.total, isWhole: isWhole, to: entry) {
            case .stored where isPiece: return Self.count(part.end + 1, isInclusive)
            case .stored:
                arrived(entry.record.record.key)
                return Self.stored(entry)
            case .count(let count): return Self.count(count, isInclusive)
            }
        }
    }

    /// 308 with the number of stored bytes, and without `Location`, which HTTP clients would follow.
    ///
    /// The clients read the end of `Range` as a count, except one that reads it as a position (protocol notes §5.4).
    /// Nothing is `bytes=0-0` for the former; for the latter, whose probes have a total, it is no `Range`.
    private static func count(_ count: Int64, _ isInclusive: Bool, mayBeMissing: Bool = false) -> Response {
        if count == 0, isInclusive || mayBeMissing { return Response(308) }
        return Response(308, ["Range": "bytes=0-\(isInclusive ? count - 1 : count)"])
    }

    private static func stored(_ entry: VimeoEntry) -> Response {
        var response = Response(200)
        response.trace.uploadID = entry.video.uploadID
        response.trace.mediaID = String(entry.video.id)
        return response
    }

    /// A form with the file in `file_data` (protocol notes §4.4).
    private func form(_ request: Request, _ entry: VimeoEntry) async throws(VimeoError) -> Response {
        guard
            let boundary = request.head.fields["Content-Type"].flatMap({ MediaType($0) }).flatMap(
                MultipartBoundary.init
            )
        else {
            throw VimeoError(
                415,
                nil,
                "The content is not a form.",
                "Send multipart/form-data with a part file_data."
            )
        }
        let reader = FormReader(request.body, boundary: boundary)
        if let (file, isEmpty) = try await core(await Self.file(in: reader)) {
            let outcome = try await uploads.put(file, from: 0, of: isEmpty ? 0 : nil, isWhole: true, to: entry)
            guard outcome == .stored else { throw VimeoError.refused(.busy) }
            return Self.redirected(entry)
        }
        throw VimeoError(400, nil, "The form has no file.", "Send the file in a part named file_data.")
    }

    /// The part `file_data` of a form, and whether it is empty; `nil` if no file was chosen.
    private static func file(in reader: FormReader) async throws(UploadError) -> (file: FormFile, isEmpty: Bool)? {
        do throws(SourceFailure) {
            while let head = try await reader.nextPart() {
                guard let disposition = FormDisposition(of: head), disposition.name == "file_data" else { continue }
                let file = FormFile(reader)
                let isEmpty = try await file.isEmpty()
                // A browser sends the part without a name if its user has chosen no file.
                return isEmpty && disposition.filename?.isEmpty ?? true ? nil : (file, isEmpty)
            }
            return nil
        } catch {
            throw UploadError(error)
        }
    }

    private static func redirected(_ entry: VimeoEntry) -> Response {
        guard let url = entry.video.redirectURL else { return stored(entry) }
        let halves = url.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        let mark = halves[0].contains("?") ? "&" : "?"
        let fragment = halves.count > 1 ? "#\(halves[1])" : ""
        var response = stored(entry)
        response.status = 303
        let uri = entry.video.uri.replacing("/", with: "%2F")
        response.fields["Location"] = "\(halves[0])\(mark)video_uri=\(uri)\(fragment)"
        return response
    }
}

/// A body that ends early; see `WindowSource`.
private final class WindowBody: RequestBody {
    private let body: any RequestBody
    private let window: WindowSource

    init(_ body: any RequestBody, limit: Int64) {
        self.body = body
        window = WindowSource(body, skipping: 0, limit: limit)
    }

    var trailers: HTTPFields { body.trailers }
    var remaining: Int64? { window.remaining }
    var interrupter: SourceInterrupter { window.interrupter }
    var supportsTransfer: Bool { window.supportsTransfer }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? { try await window.next(maximum: maximum) }

    func transfer(to file: OpenFile, at offset: Int64, limit: Int64, on pool: BlockingPool) async -> TransferOutcome {
        await window.transfer(to: file, at: offset, limit: limit, on: pool)
    }
}
