internal import CoreMetrics
internal import Foundation
internal import HTTPWire
internal import ObjectGateway
internal import ObjectGrants
internal import ObjectStore
internal import Presigning
internal import RESTKit
internal import Signing
internal import UploadCore
internal import UploadModel

/// `/s3`: the requests that Uppy's S3 uploader sends to Companion, so that pages can use it unchanged.
///
/// @uppy/companion 6, "s3" controller; @uppy/aws-s3 5. The page sends an upload token, or a key with the scope
/// `upload`, in `headers`, and gets URLs for the object endpoint: one form, or the parts of a multipart upload. Keys
/// are generated here, a new one each time, prefixed with the app user's name.
struct CompanionAPI: Sendable {
    let uploads: UploadService
    let multipart: MultipartUploads
    let issuer: CredentialIssuer
    let access: Access
    let mintedURLs: Counter
    let mintedSessions: Counter
    let objectURL: ObjectURL
    let region: String
    /// The bucket for uploads, or `nil` if none is configured.
    let bucket: String?
    let bodyLimit: Int
    let clock: any WallClock

    /// In seconds; Uppy requests a new URL for each part, and waits this long for one upload.
    private static let lifetime: Int64 = 3600

    var routes: [Route] {
        [
            route(.get, "/s3/params") { call throws(Problem) in try await form(call) },
            route(.get, "/s3/sts") { call throws(Problem) in try credentials(call) },
            route(.post, "/s3/multipart") { call throws(Problem) in try await begin(call) },
            route(.get, "/s3/multipart/{uploadId}") { call throws(Problem) in try await parts(call) },
            route(.delete, "/s3/multipart/{uploadId}") { call throws(Problem) in try await abort(call) },
            route(.post, "/s3/multipart/{uploadId}/complete") { call throws(Problem) in try await complete(call) },
            route(.get, "/s3/multipart/{uploadId}/batch") { call throws(Problem) in try await signParts(call) },
            route(.get, "/s3/multipart/{uploadId}/{partNumber}") { call throws(Problem) in try await signPart(call) },
        ]
    }

    /// An authenticated request.
    private struct Call {
        let request: Request
        let path: PathParameters
        let query: CompanionQuery
        /// What the caller may upload, and how long URLs for it are valid.
        let grant: Grant
        let bucket: String
        /// URL of the object endpoint.
        let origin: String
        let now: Date

        var seconds: Int64 { grant.expiresAt.unixSeconds - now.unixSeconds }
    }

    private func route(
        _ method: HTTPMethod,
        _ template: String,
        _ body: @escaping @Sendable (Call) async throws(Problem) -> Response
    ) -> Route {
        Route(method, template, dialect: .companion) { request, path in
            do throws(Problem) {
                return try await body(try await call(request, path))
            } catch {
                var problem = error
                problem.speaksCompanion = true
                return problem.response(requestID: request.id)
            }
        }
    }

    private func call(_ request: Request, _ path: PathParameters) async throws(Problem) -> Call {
        let authorization = request.head.fields["Authorization"]
        var grant = try await access.core { () async throws(UploadError) -> Grant in
            try await access.authenticator.grantForObjects(authorization: authorization)
        }
        guard let bucket else {
            throw Problem(403, "forbidden", "this server has no bucket to which pages can upload (object.buckets)")
        }
        let now = clock.now
        let end = Date(timeIntervalSince1970: Double(now.unixSeconds + Self.lifetime))
        grant.expiresAt = min(grant.expiresAt, end)
        return Call(
            request: request,
            path: path,
            query: try CompanionQuery(request),
            grant: grant,
            bucket: bucket,
            origin: try objectURL.origin(for: request),
            now: now
        )
    }

    // MARK: Whole files

    private struct FormView: Encodable {
        let method = "POST"
        let url: String
        let fields: [String: String]
        let expires: Int64
    }

    /// Parameters for an upload by one form.
    private func form(_ call: Call) async throws(Problem) -> Response {
        let file = CompanionFile(
            filename: call.query["filename"],
            type: call.query["type"],
            metadata: call.query.metadata
        )
        let presigner = presigner(for: call)
        let name = ObjectName(bucket: call.bucket, key: try key(of: file, for: call))
        let fields = try file.headers()
        let headers = headers(of: file, fields)
        // Uppy shows the reason of a refusal here, but not of one by the object endpoint after the file was sent.
        try await access.core { () async throws(UploadError) in
            let new = headers.upload(name, headers.attributes(), for: .aws)
            try await uploads.checkAdmission(of: new, under: call.grant)
        }
        let form: PresignedForm
        do throws(GrantTooLong) {
            form = try presigner.form(
                call.bucket,
                .only(name.key),
                contentType: file.contentType,
                fields: [SigningField("success_action_status", "201")] + fields,
                under: call.grant,
                at: call.now
            )
        } catch {
            throw Problem(error)
        }
        mintedURLs.increment()
        return response(
            FormView(
                url: form.url,
                fields: form.fields.reduce(into: [:]) { $0[$1.name] = $1.value },
                expires: call.seconds
            )
        )
    }

    // MARK: Multipart uploads

    private struct UploadView: Encodable {
        let key: String
        let uploadId: String
        let bucket: String
    }

    private func begin(_ call: Call) async throws(Problem) -> Response {
        let file = try await CompanionFile(readingFrom: call.request, limit: bodyLimit)
        let name = ObjectName(bucket: call.bucket, key: try key(of: file, for: call))
        let headers = headers(of: file, try file.headers())
        let upload = try await access.core { () async throws(UploadError) -> Upload in
            try await multipart.begin(name, headers, under: call.grant)
        }
        return response(UploadView(key: name.key, uploadId: upload.id.text, bucket: name.bucket), upload)
    }

    /// The upload in the path, if the caller created it.
    private func upload(_ call: Call, isOpen: Bool = true) async throws(Problem) -> (Upload, ObjectName) {
        guard let key = call.query["key"], !key.isEmpty else {
            throw Self.refusal("the query must have the key of the object: ?key=…")
        }
        let name = ObjectName(bucket: call.bucket, key: key)
        return try await access.core { () async throws(UploadError) -> (Upload, ObjectName) in
            let upload = try await multipart.find(call.path["uploadId"], of: name, isOpen: isOpen)
            guard upload.subject.isSameSubject(as: call.grant.subject), upload.issuer == call.grant.issuer else {
                throw UploadError(.notFound, "There is no multipart upload with this id for this key.")
            }
            return (upload, name)
        }
    }

    private struct PartView: Encodable {
        let number: Int
        let entityTag: String
        let size: Int64

        enum CodingKeys: String, CodingKey {
            case number = "PartNumber"
            case entityTag = "ETag"
            case size = "Size"
        }
    }

    private func parts(_ call: Call) async throws(Problem) -> Response {
        let (upload, _) = try await upload(call)
        let (_, parts) = try await access.core { () async throws(UploadError) -> (Upload, [PartRecord]) in
            try await multipart.parts.parts(of: upload.id, after: 0, limit: PartRecord.numbers.upperBound)
        }
        let views = parts.map { PartView(number: $0.number, entityTag: "\"\($0.entityTag)\"", size: $0.size) }
        return response(views, upload)
    }

    private struct PartURLView: Encodable {
        let url: String
        let expires: Int64
    }

    private func signPart(_ call: Call) async throws(Problem) -> Response {
        let numbers = try Self.numbers(call.path["partNumber"], maximumCount: 1)
        let (upload, urls) = try await sign(numbers, call)
        return response(PartURLView(url: urls[0].url, expires: call.seconds), upload)
    }

    private struct PartURLsView: Encodable {
        let presignedUrls: [String: String]
    }

    private func signParts(_ call: Call) async throws(Problem) -> Response {
        let numbers = try Self.numbers(call.query["partNumbers"] ?? "", maximumCount: PresignAPI.maximumParts)
        let (upload, urls) = try await sign(numbers, call)
        let pairs = zip(numbers, urls).map { (String($0), $1.url) }
        return response(PartURLsView(presignedUrls: Dictionary(pairs) { first, _ in first }), upload)
    }

    private func sign(_ numbers: [Int], _ call: Call) async throws(Problem) -> (Upload, [PresignedRequest]) {
        let presigner = presigner(for: call)
        let (upload, name) = try await upload(call)
        do throws(GrantTooLong) {
            let urls = try presigner.parts(numbers, of: upload.id.text, name, under: call.grant, at: call.now)
            mintedURLs.increment()
            return (upload, urls)
        } catch {
            throw Problem(error)
        }
    }

    private struct ObjectView: Encodable {
        let location: String
        let key: String
        let bucket: String
    }

    private func complete(_ call: Call) async throws(Problem) -> Response {
        let named = try await CompanionParts(readingFrom: call.request, limit: bodyLimit).named
        // A repeated request may find the result already there.
        let (upload, name) = try await upload(call, isOpen: false)
        let object = try await access.core { () async throws(UploadError) -> Upload in
            try await multipart.complete(upload, of: named)
        }
        let path = SigningRequest.path(of: "/\(name.bucket)/\(name.key)")
        return response(ObjectView(location: call.origin + path, key: name.key, bucket: name.bucket), object)
    }

    private struct NothingView: Encodable {}

    private func abort(_ call: Call) async throws(Problem) -> Response {
        let (upload, _) = try await upload(call)
        try await access.core { () async throws(UploadError) in try await multipart.abort(upload) }
        return response(NothingView(), upload)
    }

    // MARK: Credentials

    private struct CredentialsView: Encodable {
        let credentials: AWSCredentialsView
        let bucket: String
        let region: String
        /// The required prefix of keys that the page chooses.
        let keyPrefix: String
    }

    /// Credentials for a page that signs requests itself.
    private func credentials(_ call: Call) throws(Problem) -> Response {
        guard let prefix = call.grant.subject.flatMap({ KeyPrefix(subject: $0) }) else {
            throw Problem(
                403,
                "forbidden",
                "credentials are for the keys of one app user: send an upload token with a subject, or an API key for one subject"
            )
        }
        let grant = ObjectGrant(upload: call.grant, bucket: call.bucket, keys: .within(prefix))
        do throws(GrantTooLong) {
            let credentials = AWSCredentialsView(MintedSession(try issuer.mint(grant, for: .aws)))
            mintedSessions.increment()
            return response(
                CredentialsView(credentials: credentials, bucket: call.bucket, region: region, keyPrefix: prefix.text)
            )
        } catch {
            throw Problem(error)
        }
    }

    // MARK: Shared steps

    private func presigner(for call: Call) -> ObjectPresigner {
        ObjectPresigner(issuer: issuer, vendor: .aws, origin: call.origin, region: region)
    }

    private func key(of file: CompanionFile, for call: Call) throws(Problem) -> String {
        try file.key(for: call.grant.subject, id: UploadID.generate(at: call.now).text)
    }

    private func headers(of file: CompanionFile, _ fields: [SigningField]) -> S3ObjectHeaders {
        S3ObjectHeaders(
            contentType: file.contentType,
            headers: fields.reduce(into: [:]) { $0[$1.name] = $1.value }
        )
    }

    private func response(_ view: some Encodable, _ upload: Upload? = nil) -> Response {
        var response = JSONResponse.response(200, view)
        if let upload { response.trace.note(upload: upload.id.text, isMedia: upload.isMedia) }
        return response
    }

    static func refusal(_ text: String) -> Problem { Problem(400, "invalid_request", text) }

    /// Part numbers, separated by commas.
    private static func numbers(_ text: String, maximumCount: Int) throws(Problem) -> [Int] {
        let pieces = text.split(separator: ",", omittingEmptySubsequences: false)
        let numbers = pieces.compactMap { Int($0) }.filter(PartRecord.numbers.contains)
        guard numbers.count == pieces.count, numbers.count <= maximumCount else {
            throw refusal("the number of a part must be from 1 to 10000, and at most \(maximumCount) may be requested")
        }
        return numbers
    }
}
