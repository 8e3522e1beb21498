internal import Bytes
internal import CoreMetrics
internal import Foundation
internal import HTTPWire
internal import MetricsKit
internal import RESTKit
internal import Signing
internal import UploadCore
internal import UploadModel

/// The calls of the upload SDKs of Tencent Cloud VOD: `PrepareUploadUGC`, `ApplyUploadUGC`, `CommitUploadUGC`.
struct UGCHandler: UGCResponder {
    /// Path of the calls, for all hosts of the vendor.
    static let path = "/v3/index.php"
    /// A header in which iOS sends its JSON when it has resolved the host itself.
    private static let body: FieldName = "originalBody"
    static let bodyLimit = 64 << 10

    let uploads: VODUploads
    /// Whether there is an object endpoint for the bytes.
    let isServed: Bool
    let signatures: VODSignatureCheck
    let place: VODPlace
    let objectURL: ObjectURL
    let cors: CORSPolicy
    let calls: CounterTable
    let report: @Sendable (_ call: String, _ message: String) -> Void
    let clock: any WallClock

    static let known: Set<String> = ["PrepareUploadUGC", "ApplyUploadUGC", "CommitUploadUGC"]

    func answer(_ name: String, _ request: Request) async throws(VODError) -> (response: Response, code: String) {
        (try await response(name, request), "0")
    }

    private func response(_ name: String, _ request: Request) async throws(VODError) -> Response {
        let fields = try UGCFields(json: try await Self.json(of: request, named: name))
        let signer = try await signatures.verify(try fields.signature(), at: clock.now)
        try signer.checkParameters()
        switch name {
        case "PrepareUploadUGC": return UGCDocuments.preparation(appID: appID(of: signer))
        case "ApplyUploadUGC": return try await apply(fields, signer, request)
        default: return try await commit(fields, signer, request)
        }
    }

    private func appID(of signer: VODSigner) -> Int64 { signer.parameters.vodSubAppID ?? place.appID }

    /// The JSON of a call, wherever its SDK puts it.
    ///
    /// - Throws: `.invalidRequest`, also for an unknown call.
    static func json(of request: Request, named name: String) async throws(VODError) -> [UInt8] {
        guard request.head.method == .post || request.head.method == .get else {
            throw .invalid("invalid request: the method must be POST")
        }
        guard known.contains(name) else {
            throw .invalid(
                "invalid request: the query must have Action=PrepareUploadUGC, ApplyUploadUGC or CommitUploadUGC"
            )
        }
        let bytes: [UInt8]
        do throws(SourceFailure) {
            bytes = try await request.body.collect(limit: bodyLimit)
        } catch {
            throw .invalid("invalid request: the body must have at most \(bodyLimit) bytes")
        }
        if !bytes.isEmpty { return bytes }
        guard let text = request.head.fields[body] else { return Array("{}".utf8) }
        return Array(text.utf8)
    }

    private func apply(_ fields: UGCFields, _ signer: VODSigner, _ request: Request) async throws(VODError) -> Response
    {
        guard isServed else {
            throw VODError(.notServed, "this server has no object endpoint (object.listen), so it takes no uploads")
        }
        let applied: VODUploads.Applied
        if let sessionKey = try fields.text("vodSessionKey") {
            applied = try await uploads.resume(sessionKey, for: try VODNamedFiles(fields), by: signer)
        } else {
            let region = try fields.text("storageRegion", atMost: 64)
            guard region.map(SignatureRequest.isRegion) ?? true else {
                throw VODError.invalid("invalid request: storageRegion must be a region such as ap-guangzhou")
            }
            applied = try await uploads.begin(try Self.request(fields), region: region, by: signer)
        }
        var response = UGCDocuments.application(
            applied,
            at: place,
            appID: appID(of: signer),
            isForIOS: Self.isIOS(request.head.fields),
            now: clock.now
        )
        response.trace.mediaID = applied.session.mediaID
        return response
    }

    /// Whether a call comes from the SDK for iOS, which neither names itself nor sets `User-Agent`.
    ///
    /// Its calls have that of the system; or none, if it sends them through a class of its own to an address that it has
    /// resolved. That of the SDK for Android is the one of okhttp.
    static func isIOS(_ fields: HTTPFields) -> Bool {
        guard !fields.contains(body), let agent = fields["User-Agent"]?.lowercasedASCII() else { return true }
        return ["cfnetwork", "darwin", "iphone", "ipad"].contains { agent.contains($0) }
    }

    static func request(_ fields: UGCFields) throws(VODError) -> VODRequest {
        let video = try VODNewFile(fields, "video")
        let cover = try VODNewFile(fields, "cover")
        if let id = try fields.text("fileId", atMost: 64) {
            guard video == nil, let cover else {
                throw .invalid("invalid request: with fileId only the cover is replaced: send coverName and coverType")
            }
            return .cover(cover, of: id)
        }
        guard let video else { throw .invalid("invalid request: videoName and videoType are missing") }
        return .media(video, cover: cover)
    }

    private func commit(_ fields: UGCFields, _ signer: VODSigner, _ request: Request) async throws(VODError) -> Response
    {
        guard let sessionKey = try fields.text("vodSessionKey") else {
            throw VODError.invalid("invalid request: vodSessionKey is missing")
        }
        let committed = try await uploads.commit(sessionKey, by: signer)
        var response = UGCDocuments.commitment(
            committed,
            base: try base(for: request, committed.media.bucket),
            secretKey: signer.secretKey,
            now: clock.now
        )
        response.note(committed.media)
        return response
    }

    /// The URL of the bucket, always with `http:`, which the SDKs replace themselves: Android makes `httpss:` of `https:`.
    private func base(for request: Request, _ bucket: String) throws(VODError) -> String {
        var base = place.mediaURL ?? ""
        if base.isEmpty {
            do throws(Problem) {
                base = try objectURL.origin(for: request) + "/" + bucket
            } catch {
                throw VODError(.notServed, error.detail)
            }
        }
        return base.hasPrefix("https://") ? "http://" + base.dropFirst(8) : base
    }
}
