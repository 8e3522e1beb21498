internal import Bytes
package import HTTPWire
package import UploadCore

/// The object endpoint for clients of Amazon S3, Alibaba Cloud OSS and Tencent Cloud COS.
///
/// It thinks in S3's words; what the others have other names for is translated on the way in and out (`ObjectDialect`).
///
/// Objects are media that have a name in a bucket; multipart uploads are uploads that take parts, and their ids are the ids of
/// these.
package struct S3Handler: RequestHandler {
    /// Bytes of a blob as the content of an answer, of which only the head is sent if the last argument says so.
    package typealias ContentMaker =
        @Sendable (StoredBlob, Range<Int64>, Bool) async throws(UploadError) -> Response.Content

    let service: UploadService
    let endpoint: S3Endpoint
    let region: String
    let authentication: S3Authentication
    let content: ContentMaker
    /// For buckets that have no rules of their own; `nil` for none.
    let cors: S3CORS?
    /// `nil` where clients may name no callbacks.
    let callbacks: (any CallbackSender)?
    let baseURL: @Sendable (Request) -> String
    let clock: any WallClock

    /// - Parameters:
    ///   - service: Does what is asked for.
    ///   - endpoint: Where it is reached.
    ///   - region: Where clients are told to be.
    ///   - authentication: Knows who sends a request.
    ///   - cors: Which pages may use buckets that have no rules of their own.
    ///   - callbacks: Sends callbacks that clients of OSS name; `nil` if they may name none.
    ///   - baseURL: The URL of the endpoint as the client of a request reaches it, without slash.
    ///   - clock: Tells the time.
    ///   - content: Makes the content of answers.
    package init(
        service: UploadService,
        endpoint: S3Endpoint,
        region: String,
        authentication: S3Authentication,
        cors: S3CORS?,
        callbacks: (any CallbackSender)?,
        baseURL: @escaping @Sendable (Request) -> String,
        clock: any WallClock,
        content: @escaping ContentMaker
    ) {
        self.service = service
        self.endpoint = endpoint
        self.region = region
        self.authentication = authentication
        self.cors = cors
        self.callbacks = callbacks
        self.baseURL = baseURL
        self.clock = clock
        self.content = content
    }

    package func respond(to request: Request) async -> Response {
        let dialect = ObjectDialect(of: request.head)
        var name = dialect.rawValue.uppercased()
        var bucket = endpoint.address(of: request.head).bucket
        var response: Response
        do throws(S3Error) {
            let asked = try await understand(request, dialect)
            name = asked.operation.name
            bucket = asked.operation.bucket ?? bucket
            response = try await answer(asked, request, dialect)
            dialect.finish(&response.fields, requestID: request.id)
        } catch {
            response = error.response(to: request.head, requestID: request.id, for: error.dialect ?? dialect)
        }
        response.trace.route = name
        if let bucket, request.head.fields.contains("Origin"), request.head.method != .options {
            await rules(of: bucket)?.decorate(&response.fields, for: request.head)
        }
        return response
    }

    /// What a request asks for.
    private struct Asked {
        let operation: S3Operation
        /// An effective one, in S3's words whatever the dialect is.
        let head: RequestHead
        /// Who sends it, if that had to be found out first.
        var caller: S3Caller?
    }

    private func understand(_ request: Request, _ dialect: ObjectDialect) async throws(S3Error) -> Asked {
        let head = request.head
        guard dialect != .s3, head.method != .options else {
            let effective = S3Request.effectiveHead(head)
            return Asked(operation: try S3Request.operation(effective, at: endpoint), head: effective)
        }
        let address = endpoint.address(of: head)
        if head.method == .post, address.key.isEmpty, S3Request.isForm(head) {
            return Asked(operation: .postObject(address.bucket), head: head)
        }
        // Clients of COS look which region answers soonest.
        if dialect == .cos, head.method == .head, address.key.isEmpty, !head.fields.contains("Authorization"),
            head.target.rawQuery == nil
        {
            return Asked(operation: .probe, head: head)
        }
        let (caller, resource) =
            dialect == .oss
            ? try await authentication.authenticateOSS(head, at: endpoint, at: clock.now)
            : try await authentication.authenticateCOS(head, at: endpoint, at: clock.now)
        try dialect.checkParameters(of: head.target)
        let effective = try dialect.effectiveHead(head)
        return Asked(operation: try S3Request.operation(effective, for: resource), head: effective, caller: caller)
    }

    private func answer(
        _ asked: Asked,
        _ request: Request,
        _ dialect: ObjectDialect
    ) async throws(S3Error) -> Response {
        let operation = asked.operation
        if case .probe = operation { return Response(200) }
        if case .preflight(let bucket) = operation {
            var rules = cors
            if let bucket { rules = await self.rules(of: bucket) }
            return try S3CORS.preflight(request.head, rules)
        }
        if case .postObject(let bucket) = operation { return try await post(to: bucket, request) }
        var caller = asked.caller
        if caller == nil {
            caller = try await authentication.authenticate(request.head, for: operation, at: clock.now)
        }
        guard let caller else { throw S3Error(.accessDenied) }
        var call = try S3Call(operation, request, asked.head, caller, dialect)
        call.callback = try callback(of: call)
        guard let bucket = operation.bucket else { return try await answer(call) }
        // Of what is about an object the state says by itself that there is no bucket.
        if operation.object == nil, !operation.makesBucket { try await requireBucket(bucket) }
        do throws(S3Error) {
            return try await answer(call)
        } catch {
            if error.code == .noSuchKey || error.code == .noSuchUpload { try await requireBucket(bucket) }
            throw error
        }
    }

    private func answer(_ call: S3Call) async throws(S3Error) -> Response {
        switch call.operation {
        case .listBuckets, .createBucket, .headBucket, .deleteBucket, .getBucketLocation, .getBucketVersioning,
            .getBucketDocument, .putBucketDocument, .deleteBucketDocument:
            return try await bucketAnswer(call)
        case .listObjects(let listing): return try await list(listing, call)
        case .listMultipartUploads(let listing): return try await list(listing, call)
        case .deleteObjects(let bucket): return try await delete(from: bucket, call)
        case .putObject(let name): return try await put(name, call)
        case .copyObject(let name, let source): return try await copy(source, to: name, call)
        case .getObject(let name, let reading), .headObject(let name, let reading):
            return try await get(name, reading, call)
        case .getObjectAttributes(let name, let query): return try await attributes(of: name, query, call)
        case .deleteObject(let name): return try await delete(name, if: try call.deleteCondition())
        case .appendObject(let name, let position): return try await append(name, at: position, call)
        case .getObjectTagging, .putObjectTagging, .deleteObjectTagging: return try await tagging(call)
        case .createMultipartUpload(let name): return try await create(name, call)
        case .uploadPart(let name, let part): return try await put(part, of: name, call)
        case .uploadPartCopy(let name, let part, let source, let range):
            return try await copy(source, range, to: part, of: name, call)
        case .listParts(let name, let listing): return try await list(listing, of: name, call)
        case .completeMultipartUpload(let name, let id): return try await complete(id, name, call)
        case .abortMultipartUpload(let name, let id): return try await abort(id, name)
        case .preflight, .postObject, .probe: throw S3Error(.methodNotAllowed)
        }
    }

    // MARK: Shared steps

    /// Does something with the service, and tells what goes wrong in S3's words.
    func core<Success>(
        _ subject: S3Error.Subject = .object,
        _ body: () async throws(UploadError) -> Success
    ) async throws(S3Error) -> Success {
        do throws(UploadError) {
            return try await body()
        } catch {
            // What content says that is not what was announced.
            if let cause = error.cause as? S3Error { throw cause }
            throw S3Error(error, about: subject)
        }
    }

    func requireBucket(_ name: String) async throws(S3Error) {
        let bucket = try await core { () async throws(UploadError) in try await service.bucket(name) }
        guard bucket != nil else {
            throw S3Error(.noSuchBucket, details: [S3Error.Detail("BucketName", name)])
        }
    }

    /// Which pages may use a bucket: its own rules, or those of the server.
    private func rules(of bucket: String) async -> S3CORS? {
        guard let record = try? await service.bucket(bucket) else { return cors }
        guard let document = record.documents[S3BucketDocument.cors.rawValue] else { return cors }
        return try? S3CORS(document: Array(document.utf8))
    }

    /// An answer with a document.
    static func document(_ bytes: [UInt8]) -> Response {
        Response(200, ["Content-Type": "application/xml"], .bytes(bytes))
    }

    /// Whom everything belongs to.
    static let owner = S3Owner(id: "sluice", name: "sluice")
}

extension S3Operation {
    /// Whether the bucket need not be there.
    fileprivate var makesBucket: Bool { if case .createBucket = self { true } else { false } }
}
