internal import Bytes
package import HTTPWire
internal import Signing
package import UploadCore
package import UploadModel

/// The object endpoint for clients of Amazon S3, Alibaba Cloud OSS and Tencent Cloud COS.
///
/// Each vendor's request is decoded into one `ObjectCommand`, which is authorised and executed; the other differences
/// between vendors are in their `VendorProfile`.
///
/// Objects are media with a name in a bucket. Multipart uploads are uploads that take parts, under the same ids.
package struct ObjectStoreHandler: RequestHandler {
    /// Makes response content from bytes of a blob; the last argument says that only the head is sent.
    package typealias ContentMaker =
        @Sendable (StoredBlob, Range<Int64>, Bool) async throws(UploadError) -> Response.Content

    let service: ObjectService
    let uploads: MultipartUploads
    let endpoint: EndpointHosts
    let region: String
    let authentication: ObjectAuthentication
    let publicRead: PublicRead
    let content: ContentMaker
    /// For buckets without their own rules; `nil` for none.
    let cors: @Sendable () -> BucketCORS?
    /// `nil` if clients must not name callbacks.
    let callbacks: (any CallbackSender)?
    /// `nil` if there is no video service.
    let owner: (any ObjectOwnership)?
    let baseURL: @Sendable (Request) -> String
    let clock: any WallClock

    /// - Parameters:
    ///   - service: Operations on objects and buckets.
    ///   - uploads: Operations on multipart uploads.
    ///   - endpoint: The host names of the endpoint.
    ///   - region: The region reported to clients.
    ///   - authentication: Authenticates requests.
    ///   - publicRead: Objects that anyone can read without a signature.
    ///   - cors: Rules for buckets that have none of their own; asked for each request of a page.
    ///   - callbacks: Sends callbacks for OSS clients; `nil` if they must not name any.
    ///   - owner: Makes media of some objects; `nil` if there is none.
    ///   - baseURL: The URL by which the client of a request reaches the endpoint, without a trailing slash.
    ///   - clock: The current time.
    ///   - content: Makes the content of responses.
    package init(
        service: ObjectService,
        uploads: MultipartUploads,
        endpoint: EndpointHosts,
        region: String,
        authentication: ObjectAuthentication,
        publicRead: PublicRead = PublicRead(),
        cors: @escaping @Sendable () -> BucketCORS?,
        callbacks: (any CallbackSender)?,
        owner: (any ObjectOwnership)? = nil,
        baseURL: @escaping @Sendable (Request) -> String,
        clock: any WallClock,
        content: @escaping ContentMaker
    ) {
        self.service = service
        self.uploads = uploads
        self.endpoint = endpoint
        self.region = region
        self.authentication = authentication
        self.publicRead = publicRead
        self.cors = cors
        self.callbacks = callbacks
        self.owner = owner
        self.baseURL = baseURL
        self.clock = clock
        self.content = content
    }

    package func respond(to request: Request) async -> Response {
        let vendor = Vendor(of: request.head)
        var name = vendor.storeName.uppercasedASCII()
        var bucket = endpoint.address(of: request.head).bucket
        var response: Response
        do throws(ObjectError) {
            let asked = try await understand(request, vendor)
            name = asked.command.operation.name
            bucket = asked.command.operation.bucket ?? bucket
            response = try await self.response(asked, request)
            vendor.finish(&response.fields, requestID: request.id)
        } catch {
            let refusal = error.namingUnreadableField(of: request.head, vendor)
            response = refusal.response(to: request.head, requestID: request.id, for: error.vendor ?? vendor)
        }
        response.trace.route = name
        response.trace.dialect = vendor.dialect
        if let bucket, request.head.fields.contains("Origin"), request.head.method != .options {
            await rules(of: bucket)?.decorate(&response.fields, for: request.head)
        }
        return response
    }

    /// The response to a request that is refused before it is handled, in the form of its vendor's client.
    package func refuse(_ error: UploadError, _ request: Request) -> Response {
        var response = ObjectError(error, about: .object).response(to: request)
        response.trace.dialect = Vendor(of: request.head).dialect
        return response
    }

    /// The decoded operation of a request.
    private struct Asked {
        let command: ObjectCommand
        /// The caller, if authentication had to come first.
        var caller: ObjectCaller?
    }

    private func understand(_ request: Request, _ vendor: Vendor) async throws(ObjectError) -> Asked {
        let head = request.head
        let address = endpoint.address(of: head).meant(to: vendor)
        if head.method == .post, address.key.isEmpty, vendor != .aws, OperationDecoder.isForm(head.fields) {
            return Asked(command: ObjectCommand(.postObject(address.bucket), vendor))
        }
        // COS clients probe which region responds fastest.
        if vendor == .tencent, head.method == .head, address.key.isEmpty, !head.fields.contains("Authorization"),
            head.target.rawQuery == nil
        {
            return Asked(command: ObjectCommand(.probe, vendor))
        }
        if let reader = publicRead.reader(head, at: address) {
            try vendor.checkParameters(of: head.target)
            let command = try ObjectCommand(try RequestReader(head, vendor), for: address)
            if command.operation.isPlainReading { return Asked(command: command, caller: reader) }
        }
        // S3 signatures say nothing about the address; those of other vendors do, through the credentials.
        let found: (caller: ObjectCaller, address: EndpointHosts.Address)?
        switch vendor {
        case .aws: found = nil
        case _ where head.method == .options: found = nil
        case .aliyun: found = try await authentication.authenticateOSS(head, at: endpoint, at: clock.now)
        case .tencent: found = try await authentication.authenticateCOS(head, at: endpoint, at: clock.now)
        }
        if found != nil { try vendor.checkParameters(of: head.target) }
        let command = try ObjectCommand(try RequestReader(head, vendor), for: found?.address ?? address)
        return Asked(command: command, caller: found?.caller)
    }

    private func response(_ asked: Asked, _ request: Request) async throws(ObjectError) -> Response {
        let operation = asked.command.operation
        if case .probe = operation { return Response(200) }
        if case .preflight(let bucket) = operation {
            let rules = if let bucket { await rules(of: bucket) } else { cors() }
            return try BucketCORS.preflight(request.head, rules)
        }
        if case .postObject(let bucket) = operation { return try await post(to: bucket, request) }
        var caller = asked.caller
        if caller == nil {
            caller = try await authentication.authenticate(request.head, for: operation, at: clock.now)
        }
        guard let caller else { throw ObjectError(.accessDenied) }
        try caller.count()
        var call = try ObjectCall(asked.command, request, caller)
        call.callback = try callback(of: call)
        guard let bucket = operation.bucket else { return try await response(call) }
        // For object operations the state itself reports a missing bucket.
        if operation.object == nil, !operation.makesBucket { try await requireBucket(bucket) }
        do throws(ObjectError) {
            return try await response(call)
        } catch {
            if error.code == .noSuchKey || error.code == .noSuchUpload { try await requireBucket(bucket) }
            let write = call.command.write
            let refusal = Self.refusal(error, under: call.grant, write.condition, for: call.vendor)
            guard refusal.code == .preconditionFailed, write.forbidsOverwrite else { throw refusal }
            throw ObjectError(call.vendor.profile.errors.forbiddenOverwrite)
        }
    }

    /// An error of storing an object: if the right to write has ended, what the vendor answers where nothing can be
    /// replaced.
    static func refusal(
        _ error: ObjectError,
        under grant: Grant,
        _ condition: ObjectCondition?,
        for vendor: Vendor
    ) -> ObjectError {
        guard error.code == .preconditionFailed, condition == nil, WritingRight(grantID: grant.id) != nil else {
            return error
        }
        return ObjectError(vendor.profile.errors.forbiddenOverwrite, UploadError.rightEnded.message)
    }

    private func response(_ call: ObjectCall) async throws(ObjectError) -> Response {
        switch call.operation {
        case .listBuckets, .createBucket, .headBucket, .deleteBucket, .getBucketACL, .putBucketACL,
            .getBucketInfo, .getBucketLocation, .getBucketVersioning, .getBucketDocument, .putBucketDocument,
            .deleteBucketDocument, .getBucketStat, .getAbsentConfiguration, .deleteAbsentConfiguration:
            return try await bucketResponse(call)
        case .listObjects(let listing): return try await list(listing, call)
        case .listMultipartUploads(let listing): return try await list(listing, call)
        case .deleteObjects(let bucket): return try await delete(from: bucket, call)
        case .putObject(let name): return try await put(name, call)
        case .copyObject(let name, let source): return try await copy(source, to: name, call)
        case .getObject(let name, let reading), .headObject(let name, let reading):
            return try await get(name, reading, call)
        case .getObjectAttributes(let name, let query): return try await attributes(of: name, query, call)
        case .getObjectACL(let name): return try await acl(of: name, call)
        case .putObjectACL(let name):
            _ = try await acl(of: name, call)
            return Response(200)
        case .deleteObject(let name): return try await delete(name, if: call.command.write.condition)
        case .appendObject(let name, let position): return try await append(name, at: position, call)
        case .getObjectTagging, .putObjectTagging, .deleteObjectTagging: return try await tagging(call)
        case .createMultipartUpload(let name): return try await create(name, call)
        case .uploadPart(let name, let part): return try await put(part, of: name, call)
        case .uploadPartCopy(let name, let part, let source, let range):
            return try await copy(source, range, to: part, of: name, call)
        case .listParts(let name, let listing): return try await list(listing, of: name, call)
        case .completeMultipartUpload(let name, let id): return try await complete(id, name, call)
        case .abortMultipartUpload(let name, let id): return try await abort(id, name, call)
        case .preflight, .postObject, .probe: throw ObjectError(.methodNotAllowed)
        }
    }

    // MARK: Shared steps

    /// Calls the service and converts its errors to error responses.
    func core<Success>(
        _ subject: ObjectError.Subject = .object,
        _ body: () async throws(UploadError) -> Success
    ) async throws(ObjectError) -> Success {
        do throws(UploadError) {
            return try await body()
        } catch {
            // Content that does not match its declaration.
            if let cause = error.cause as? ObjectError { throw cause }
            throw ObjectError(error, about: subject)
        }
    }

    func requireBucket(_ name: String) async throws(ObjectError) {
        let bucket = try await core { () async throws(UploadError) in try await service.bucket(name) }
        guard bucket != nil else {
            throw ObjectError(.noSuchBucket, details: [ObjectError.Detail("BucketName", name)])
        }
    }

    /// The CORS rules of a bucket: its own, or the server's.
    private func rules(of bucket: String) async -> BucketCORS? {
        guard let record = try? await service.bucket(bucket) else { return cors() }
        guard let document = record.documents[BucketConfiguration.cors.rawValue] else { return cors() }
        return try? BucketCORS(document: Array(document.utf8))
    }

    /// A response with an XML document.
    static func document(_ bytes: [UInt8]) -> Response {
        Response(200, ["Content-Type": "application/xml"], .bytes(bytes))
    }

    /// The owner of everything.
    static let owner = ObjectOwner(id: "sluice", name: "sluice")
}

extension Vendor {
    /// What its clients speak, for logs.
    fileprivate var dialect: Response.Trace.Dialect {
        switch self {
        case .aws: .s3
        case .aliyun: .oss
        case .tencent: .cos
        }
    }
}

extension ObjectOperation {
    /// Whether the bucket need not exist.
    fileprivate var makesBucket: Bool { if case .createBucket = self { true } else { false } }
}
