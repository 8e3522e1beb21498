package import HTTPWire
internal import UploadCore

/// What a request asks for, in S3's words; see `S3Operation`.
package enum S3Request {
    /// Sub-resources that are understood, and of what they are one.
    private static let known: [String: Level] = [
        "location": .bucket, "uploads": .either, "delete": .bucket, "cors": .bucket, "lifecycle": .bucket,
        "tagging": .either, "uploadId": .object, "append": .object, "versioning": .bucket, "attributes": .object,
    ]

    /// Fields of the answer to a reading that a parameter `response-…` sets.
    private static let overridable = [
        "content-type", "content-language", "expires", "cache-control", "content-disposition", "content-encoding",
    ]

    /// All parameters that are understood, by their names in lower case.
    static let parameters: [String: String] = {
        var names = Array(known.keys) + unknown + overridable.map { "response-" + $0 }
        names += [
            "partNumber", "position", "versionId", "prefix", "delimiter", "marker", "max-keys", "encoding-type",
            "key-marker", "upload-id-marker", "max-uploads", "part-number-marker", "max-parts", "list-type",
            "continuation-token", "start-after", "fetch-owner",
        ]
        return Dictionary(names.map { ($0.lowercased(), $0) }) { first, _ in first }
    }()

    /// Whether a parameter changes what a request does or answers, and does not only tell which part of a listing is wanted.
    static func isDecisive(parameter name: String) -> Bool {
        known[name] != nil || unknown.contains(name) || ["partNumber", "position", "versionId"].contains(name)
            || name.hasPrefix("response-")
    }

    /// Sub-resources that Amazon has and that are not here; a request with one of them is refused, never answered as if it
    /// were not there.
    private static let unknown: Set<String> = [
        "abac", "accelerate", "acl", "analytics", "encryption", "intelligent-tiering", "inventory",
        "legal-hold", "logging", "metadataConfiguration", "metadataInventoryTable", "metadataJournalTable",
        "metadataTable", "metrics", "notification", "object-lock", "ownershipControls", "policy", "policyStatus",
        "publicAccessBlock", "renameObject", "replication", "requestPayment", "restore", "retention", "select",
        "select-type", "session", "torrent", "versions", "website",
    ]

    private enum Level {
        case bucket, object, either
    }

    /// Reads the head of a request.
    ///
    /// - Parameters:
    ///   - head: An effective one of a client of S3; nothing of it is believed.
    ///   - endpoint: Where it came to.
    /// - Returns: What it asks for.
    /// - Throws: The error to answer with.
    package static func operation(_ head: RequestHead, at endpoint: S3Endpoint) throws(S3Error) -> S3Operation {
        let operation = try operation(head, for: endpoint.address(of: head))
        if case .appendObject = operation { throw notAllowed("GET, HEAD, PUT, DELETE") }
        return operation
    }

    /// Reads the head of a request.
    ///
    /// - Parameters:
    ///   - head: An effective one.
    ///   - address: What it is about.
    /// - Returns: What it asks for.
    /// - Throws: The error to answer with.
    static func operation(_ head: RequestHead, for address: S3Endpoint.Address) throws(S3Error) -> S3Operation {
        if head.method == .options { return .preflight(bucket: address.bucket) }
        let parameters = try S3Parameters(head.target)
        let resource = try subresource(parameters)
        guard let bucket = address.bucket else {
            if head.method == .post, isForm(head) { return .postObject(nil) }
            guard head.method == .get else { throw notAllowed("GET") }
            if let resource { throw S3Error(.invalidRequest, "A bucket must be named for ?\(resource).") }
            return .listBuckets
        }
        try S3Names.check(bucket: bucket)
        try checkHeaders(head)
        if let resource, let level = known[resource] {
            if address.key.isEmpty, level == .object { throw S3Error(.invalidRequest, "A key must be specified") }
            if !address.key.isEmpty, level == .bucket {
                let message = "Key is not expected for the \(head.method) method ?\(resource) subresource"
                throw S3Error(.invalidRequest, message)
            }
        }
        guard !address.key.isEmpty else { return try bucketOperation(head, bucket, resource, parameters) }
        try S3Names.check(key: address.key)
        let name = ObjectName(bucket: bucket, key: address.key)
        return try objectOperation(head, name, resource, parameters)
    }

    /// A head in which headers stand that a presigned URL has in its query, where some SDKs put those that begin with
    /// `x-amz-`; for everything but the check of the signature.
    ///
    /// What would be said of the content is not among them: SDKs for JavaScript since 3.729 put the CRC-32 of no bytes into
    /// the URL of an upload whose content they do not know yet, and Amazon passes over it (localstack issue 12169).
    package static func effectiveHead(_ head: RequestHead) -> RequestHead {
        var effective = head
        for name in tagConditions {
            if let tags = head.fields[name] { effective.fields[name] = ObjectDialect.s3.recorded(tags) }
        }
        guard let query = try? head.target.queryItems(), query.first("X-Amz-Signature") != nil else { return effective }
        for item in query.items {
            let lowercased = item.name.lowercased()
            guard lowercased.hasPrefix("x-amz-"), !unhoisted.contains(lowercased),
                ObjectChecksum.Algorithm.allCases.allSatisfy({ $0.s3Field.spelling != lowercased }),
                let name = FieldName(item.name), !head.fields.contains(name)
            else { continue }
            let isCondition = tagConditions.contains(name)
            effective.fields.append(name, isCondition ? ObjectDialect.s3.recorded(item.value) : item.value)
        }
        return effective
    }

    /// Fields with entity tags, whose quotes some clients leave out.
    private static let tagConditions: [FieldName] = [
        "If-Match", "If-None-Match", "If-Range", "x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match",
    ]

    private static let unhoisted: Set<String> = [
        "x-amz-algorithm", "x-amz-content-sha256", "x-amz-credential", "x-amz-date", "x-amz-decoded-content-length",
        "x-amz-expires", "x-amz-sdk-checksum-algorithm", "x-amz-security-token", "x-amz-signature",
        "x-amz-signedheaders", "x-amz-trailer",
    ]

    /// The sub-resource of a request, if there is one.
    private static func subresource(_ parameters: S3Parameters) throws(S3Error) -> String? {
        let names = parameters.names
        if let name = names.intersection(unknown).min() {
            throw S3Error(
                .notImplemented,
                "Nothing here has ?\(name): leave the call out (docs/object.md lists what there is)."
            )
        }
        if let version = try parameters.text("versionId"), version != "null" {
            throw S3Error.noVersions
        }
        let found = names.intersection(known.keys).sorted()
        guard found.count <= 1 else {
            let list = found.joined(separator: ", ")
            throw .argument("ResourceType", list, "Conflicting query string parameters: \(list)")
        }
        return found.first
    }

    private static func bucketOperation(
        _ head: RequestHead,
        _ bucket: String,
        _ resource: String?,
        _ parameters: S3Parameters
    ) throws(S3Error) -> S3Operation {
        if let document = resource.flatMap({ S3BucketDocument(rawValue: $0) }) {
            switch head.method {
            case .get: return .getBucketDocument(bucket, document)
            case .put: return .putBucketDocument(bucket, document)
            case .delete: return .deleteBucketDocument(bucket, document)
            default: throw notAllowed("GET, PUT, DELETE")
            }
        }
        switch (head.method, resource) {
        case (_, "tagging"): throw S3Error(.notImplemented, "Buckets have no tags here: tag objects.")
        case (.get, "location"): return .getBucketLocation(bucket)
        case (.get, "versioning"): return .getBucketVersioning(bucket)
        case (_, "versioning"):
            throw S3Error(.notImplemented, "There are no versions here: leave the versioning of the bucket as it is.")
        case (.get, "uploads"): return .listMultipartUploads(try S3UploadListing(parameters, bucket: bucket))
        case (_, "location"), (_, "uploads"): throw notAllowed("GET")
        case (.post, "delete"): return .deleteObjects(bucket)
        case (_, "delete"): throw notAllowed("POST")
        case (.get, _): return .listObjects(try S3ObjectListing(parameters, bucket: bucket))
        case (.head, _): return .headBucket(bucket)
        case (.put, _): return .createBucket(bucket)
        case (.delete, _): return .deleteBucket(bucket)
        case (.post, _):
            guard isForm(head) else {
                throw S3Error(.preconditionFailed, "Bucket POST must be of the enclosure-type multipart/form-data")
            }
            return .postObject(bucket)
        default: throw notAllowed("GET, HEAD, PUT, POST, DELETE")
        }
    }

    /// Whether a request may be a form that uploads a file.
    static func isForm(_ head: RequestHead) -> Bool {
        head.fields["Content-Type"].flatMap { MediaType($0) }?.essence == "multipart/form-data"
    }

    private static func objectOperation(
        _ head: RequestHead,
        _ name: ObjectName,
        _ resource: String?,
        _ parameters: S3Parameters
    ) throws(S3Error) -> S3Operation {
        switch (head.method, resource) {
        case (.get, "tagging"): return .getObjectTagging(name)
        case (.put, "tagging"): return .putObjectTagging(name)
        case (.delete, "tagging"): return .deleteObjectTagging(name)
        case (_, "tagging"): throw notAllowed("GET, PUT, DELETE")
        case (.post, "uploads"): return .createMultipartUpload(name)
        case (.get, "uploads"):
            throw S3Error(.invalidRequest, "Key is not expected for the GET method ?uploads subresource")
        case (_, "uploads"): throw notAllowed("POST")
        case (_, "uploadId"): return try uploadOperation(head, name, parameters)
        case (.get, "attributes"): return .getObjectAttributes(name, try S3AttributesQuery(head.fields))
        case (_, "attributes"): throw notAllowed("GET")
        case (.post, "append"):
            let text = "The position must be a number of bytes."
            guard let position = try parameters.number("position", in: 0...Int.max, text) else {
                throw .argument("position", nil, text)
            }
            return .appendObject(name, position: Int64(position))
        case (_, "append"): throw notAllowed("POST")
        case (.put, _):
            guard !parameters.contains("partNumber") else {
                throw S3Error(.invalidRequest, "The parameter partNumber needs the parameter uploadId.")
            }
            if let source = try S3CopySource(head.fields) { return .copyObject(name, from: source) }
            return .putObject(name)
        case (.get, _): return .getObject(name, try reading(head, parameters))
        case (.head, _): return .headObject(name, try reading(head, parameters))
        case (.delete, _): return .deleteObject(name)
        default: throw notAllowed("GET, HEAD, PUT, DELETE")
        }
    }

    private static func uploadOperation(
        _ head: RequestHead,
        _ name: ObjectName,
        _ parameters: S3Parameters
    ) throws(S3Error) -> S3Operation {
        guard let id = try parameters.nonEmpty("uploadId") else { throw S3Error(.noSuchUpload) }
        switch head.method {
        case .put:
            guard let number = try partNumber(parameters) else {
                throw S3Error(.invalidRequest, "The parameter uploadId needs the parameter partNumber here.")
            }
            let part = S3Part(number, of: id)
            guard let source = try S3CopySource(head.fields) else { return .uploadPart(name, part) }
            return .uploadPartCopy(name, part, from: source, range: try S3CopySource.range(head.fields))
        case .get:
            let text = "Argument part-number-marker must be an integer between 0 and 2147483647"
            let marker = try parameters.number("part-number-marker", in: 0...2_147_483_647, text)
            return .listParts(
                name,
                S3PartListing(
                    uploadID: id,
                    marker: marker ?? 0,
                    maximum: try parameters.pageSize("max-parts"),
                    encodesURL: try parameters.encodesURL()
                )
            )
        case .post: return .completeMultipartUpload(name, uploadID: id)
        case .delete: return .abortMultipartUpload(name, uploadID: id)
        default: throw notAllowed("GET, PUT, POST, DELETE")
        }
    }

    private static func partNumber(_ parameters: S3Parameters) throws(S3Error) -> Int? {
        let text = "Part number must be an integer between 1 and 10000, inclusive"
        guard try parameters.text("partNumber") != "" else { throw .argument("partNumber", "", text) }
        return try parameters.number("partNumber", in: PartRecord.numbers, text)
    }

    private static func reading(_ head: RequestHead, _ parameters: S3Parameters) throws(S3Error) -> S3Reading {
        var reading = S3Reading()
        reading.range = head.fields["Range"]
        reading.part = try partNumber(parameters)
        guard reading.range == nil || reading.part == nil else {
            throw S3Error(.invalidRequest, "Cannot specify both Range header and partNumber query parameter")
        }
        reading.wantsChecksum = head.fields["x-amz-checksum-mode"]?.lowercased() == "enabled"
        for name in overridable {
            if let value = try parameters.text("response-\(name)") { reading.overrides[name] = value }
        }
        return reading
    }

    /// Headers that promise what nobody here would keep are refused.
    private static func checkHeaders(_ head: RequestHead) throws(S3Error) {
        let fields = head.fields
        for index in fields.entries.indices {
            let name = fields.name(at: index).lowercased()
            guard name.hasPrefix("x-amz-") else { continue }
            let value = fields.value(at: index)
            switch name {
            case "x-amz-acl":
                guard ["private", "bucket-owner-full-control"].contains(value) else {
                    throw S3Error(.accessControlListNotSupported)
                }
            case "x-amz-storage-class":
                guard value == "STANDARD" else { throw S3Error(.invalidStorageClass) }
            case "x-amz-object-ownership":
                guard value == "BucketOwnerEnforced" else { throw S3Error(.accessControlListNotSupported) }
            case "x-amz-bucket-object-lock-enabled":
                if value.lowercased() == "true" { throw notImplemented(name) }
            case "x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner",
                "x-amz-website-redirect-location", "x-amz-write-offset-bytes", "x-amz-if-match-last-modified-time",
                "x-amz-if-match-size":
                throw notImplemented(name)
            default:
                if name.hasPrefix("x-amz-grant-") { throw S3Error(.accessControlListNotSupported) }
                let isRefused = [
                    "x-amz-object-lock-", "x-amz-server-side-encryption", "x-amz-copy-source-server-side-",
                ]
                .contains(where: name.hasPrefix)
                if isRefused { throw notImplemented(name) }
            }
        }
    }

    private static func notImplemented(_ header: String) -> S3Error {
        S3Error(
            .notImplemented,
            "The header \(header) asks for what this server does not keep: leave it out.",
            details: [S3Error.Detail("Header", header)]
        )
    }

    private static func notAllowed(_ methods: String) -> S3Error {
        S3Error(.methodNotAllowed, fields: ["Allow": methods])
    }
}
