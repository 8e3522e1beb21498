internal import Bytes
internal import HTTPWire
internal import Signing
internal import UploadModel

/// Decodes a request of any vendor into an operation; see `ObjectOperation`.
package enum OperationDecoder {
    /// Supported sub-resources, and the level they belong to.
    private static let known: [String: Level] = [
        "location": .bucket, "uploads": .either, "delete": .bucket, "cors": .bucket, "lifecycle": .bucket,
        "tagging": .either, "uploadId": .object, "append": .object, "versioning": .bucket, "attributes": .object,
        "acl": .either, "bucketInfo": .bucket, "versions": .bucket,
    ]

    /// Response fields that a `response-…` parameter can override.
    private static let overridable = [
        "content-type", "content-language", "expires", "cache-control", "content-disposition", "content-encoding",
    ]

    /// All supported parameters, by name in lower case.
    static let parameters: [String: String] = {
        var names = Array(known.keys) + unknown + overridable.map { "response-" + $0 }
        names += [
            "partNumber", "position", "versionId", "prefix", "delimiter", "marker", "max-keys", "encoding-type",
            "key-marker", "upload-id-marker", "max-uploads", "part-number-marker", "max-parts", "list-type",
            "continuation-token", "start-after", "fetch-owner", "version-id-marker", "max-buckets", "bucket-region",
        ]
        return Dictionary(names.map { ($0.lowercasedASCII(), $0) }) { first, _ in first }
    }()

    /// Whether a parameter changes the effect of a request or its response, beyond selecting part of a listing.
    static func isDecisive(parameter name: String) -> Bool {
        known[name] != nil || unknown.contains(name) || ["partNumber", "position", "versionId"].contains(name)
            || name.hasPrefix("response-")
    }

    /// Sub-resources of Amazon that are not supported.
    ///
    /// A request with one of them is refused; ignoring it would be wrong.
    private static let unknown: Set<String> = [
        "abac", "accelerate", "analytics", "encryption", "intelligent-tiering", "inventory",
        "legal-hold", "logging", "metadataConfiguration", "metadataInventoryTable", "metadataJournalTable",
        "metadataTable", "metrics", "notification", "object-lock", "ownershipControls", "policy", "policyStatus",
        "publicAccessBlock", "renameObject", "replication", "requestPayment", "restore", "retention", "select",
        "select-type", "session", "torrent", "website",
    ]

    private enum Level {
        case bucket, object, either
    }

    /// Decodes the operation of a request.
    ///
    /// - Parameters:
    ///   - head: Untrusted.
    ///   - address: The addressed bucket or object.
    /// - Returns: The operation.
    /// - Throws: The error response.
    static func operation(
        _ head: RequestReader,
        for address: EndpointHosts.Address
    ) throws(ObjectError) -> ObjectOperation {
        if head.method == .options { return .preflight(bucket: address.bucket) }
        let parameters = try ObjectParameters(head.target)
        let resource = try subresource(parameters, of: head, isObject: !address.key.isEmpty)
        guard let bucket = address.bucket else {
            if head.method == .post, isForm(head.standard) { return .postObject(nil) }
            guard head.method == .get else { throw notAllowed("GET") }
            if let resource { throw ObjectError(.invalidRequest, "A bucket must be named for ?\(resource).") }
            return .listBuckets(try BucketListing(parameters, for: head.vendor))
        }
        try S3Names.check(bucket: bucket)
        if let resource, let level = known[resource] {
            if address.key.isEmpty, level == .object { throw ObjectError(.invalidRequest, "A key must be specified") }
            if !address.key.isEmpty, level == .bucket {
                let message = "Key is not expected for the \(head.method) method ?\(resource) subresource"
                throw ObjectError(.invalidRequest, message)
            }
        }
        guard !address.key.isEmpty else { return try bucketOperation(head, bucket, resource, parameters) }
        try S3Names.check(key: address.key, for: head.vendor)
        let name = ObjectName(bucket: bucket, key: address.key)
        return try objectOperation(head, name, resource, parameters)
    }

    /// The sub-resource of a request, if there is one.
    ///
    /// An unknown parameter without a value is a sub-resource, too. If it were ignored, a write would change something else,
    /// and a request about a bucket would get another document. When an object is read, it is ignored: web pages add such
    /// parameters to get past a cache.
    private static func subresource(
        _ parameters: ObjectParameters,
        of head: RequestReader,
        isObject: Bool
    ) throws(ObjectError) -> String? {
        let names = parameters.names
        let isHarmless = isObject && (head.method == .get || head.method == .head)
        // What no bucket has can be read, and deleted.
        let configurations = names.filter { AbsentConfiguration($0, of: head.vendor) != nil }
        let absent =
            isObject || head.method != .get && head.method != .delete
            ? [] : configurations.union(names.filter { isStat($0, head) })
        let bare = isHarmless ? [] : parameters.bareNames.filter { isUnknown(parameter: $0, head.vendor) }
        let others = isHarmless ? [] : configurations.subtracting(known.keys)
        if let name = names.intersection(unknown).union(bare).union(others).subtracting(absent).min() {
            throw unsupported(name)
        }
        // COS's SDK for Go downloads parts of the version "".
        let version = head.vendor == .aws ? try parameters.text("versionId") : try parameters.nonEmpty("versionId")
        if let version, version != "null" {
            throw ObjectError.noVersions
        }
        let found = names.intersection(known.keys).union(absent).sorted()
        guard found.count <= 1 else {
            let list = found.joined(separator: ", ")
            throw .argument("ResourceType", list, "Conflicting query string parameters: \(list)")
        }
        return found.first
    }

    private static func isStat(_ name: String, _ head: RequestReader) -> Bool {
        name == "stat" && head.method == .get && head.vendor == .aliyun
    }

    private static func isUnknown(parameter name: String, _ vendor: Vendor) -> Bool {
        let lowercased = name.lowercasedASCII()
        // No sub-resource of a vendor is named so: what begins with `x-` is a client's own, or a field.
        guard !lowercased.hasPrefix("x-") else { return false }
        return parameters[lowercased] == nil && !vendor.understands(parameter: name)
    }

    private static func bucketOperation(
        _ head: RequestReader,
        _ bucket: String,
        _ resource: String?,
        _ parameters: ObjectParameters
    ) throws(ObjectError) -> ObjectOperation {
        // An object may have the rights of its bucket, and a bucket has nothing to take them from ("PutBucketAcl", OSS
        // documentation).
        if head.vendor == .aliyun, head.method == .put, head["acl"] == "default" {
            throw .argument("x-oss-acl", "default", "The access rights of a bucket must be private here.")
        }
        if let document = resource.flatMap({ BucketConfiguration(rawValue: $0) }) {
            switch head.method {
            case .get: return .getBucketDocument(bucket, document)
            case .put: return .putBucketDocument(bucket, document)
            case .delete: return .deleteBucketDocument(bucket, document)
            default: throw notAllowed("GET, PUT, DELETE")
            }
        }
        if let resource, var absent = AbsentConfiguration(resource, of: head.vendor) {
            absent.isNamed = ["id", "inventoryId", "styleName"].contains { parameters.contains($0) }
            if head.method == .get { return .getAbsentConfiguration(bucket, absent) }
            if head.method == .delete, absent.isDeletable || absent.isNamed {
                return .deleteAbsentConfiguration(bucket, absent)
            }
        }
        switch (head.method, resource) {
        case (_, "tagging"): throw ObjectError(.notImplemented, "Tags of buckets are not supported: tag objects.")
        case (.get, "location"): return .getBucketLocation(bucket)
        case (.get, "versioning"): return .getBucketVersioning(bucket)
        case (.get, "acl"): return .getBucketACL(bucket)
        case (.put, "acl") where asksForNothingElse(head): return .putBucketACL(bucket)
        case (_, "acl"): throw ObjectError(.accessControlListNotSupported)
        case (.get, "bucketInfo") where head.vendor == .aliyun: return .getBucketInfo(bucket)
        case (.get, "stat"): return .getBucketStat(bucket)
        case (.get, "versions"):
            var listing = try ObjectListing(versions: parameters, bucket: bucket)
            listing.prefix = head.vendor.key(listing.prefix)
            return .listObjects(listing)
        case (_, "bucketInfo"), (_, "versions"), (_, "stat"): throw notAllowed("GET")
        case (_, "versioning"):
            throw ObjectError(
                .notImplemented,
                "Versions are not supported: leave the versioning of the bucket unchanged."
            )
        case (.get, "uploads"):
            var listing = try UploadListing(parameters, bucket: bucket)
            listing.prefix = head.vendor.key(listing.prefix)
            return .listMultipartUploads(listing)
        case (_, "location"), (_, "uploads"): throw notAllowed("GET")
        case (.post, "delete"): return .deleteObjects(bucket)
        case (_, "delete"): throw notAllowed("POST")
        case (_, let resource?): throw unsupported(resource)
        case (.get, nil):
            var listing = try ObjectListing(parameters, bucket: bucket)
            listing.prefix = head.vendor.key(listing.prefix)
            return .listObjects(listing)
        case (.head, nil): return .headBucket(bucket)
        case (.put, nil): return .createBucket(bucket)
        case (.delete, nil): return .deleteBucket(bucket)
        case (.post, nil):
            guard isForm(head.standard) else {
                throw ObjectError(.preconditionFailed, "Bucket POST must be of the enclosure-type multipart/form-data")
            }
            return .postObject(bucket)
        default: throw notAllowed("GET, HEAD, PUT, POST, DELETE")
        }
    }

    /// Whether a request for access rights names those that everything has.
    ///
    /// S3 refuses these, too, for buckets without access control lists. Other values of the fields are refused before.
    private static func asksForNothingElse(_ head: RequestReader) -> Bool {
        head.vendor != .aws && (head["acl"] ?? head["object-acl"]) != nil
    }

    /// Whether a request may be a form that uploads a file.
    static func isForm(_ fields: HTTPFields) -> Bool {
        fields["Content-Type"].flatMap { MediaType($0) }?.essence == "multipart/form-data"
    }

    private static func objectOperation(
        _ head: RequestReader,
        _ name: ObjectName,
        _ resource: String?,
        _ parameters: ObjectParameters
    ) throws(ObjectError) -> ObjectOperation {
        switch (head.method, resource) {
        case (.get, "tagging"): return .getObjectTagging(name)
        case (.put, "tagging"): return .putObjectTagging(name)
        case (.delete, "tagging"): return .deleteObjectTagging(name)
        case (_, "tagging"): throw notAllowed("GET, PUT, DELETE")
        case (.get, "acl"): return .getObjectACL(name)
        case (.put, "acl") where asksForNothingElse(head): return .putObjectACL(name)
        case (.put, "acl") where head.vendor == .aliyun:
            throw ObjectError(.missingArgument, "The header x-oss-object-acl is missing.")
        case (_, "acl"): throw ObjectError(.accessControlListNotSupported)
        case (.post, "uploads"): return .createMultipartUpload(name)
        case (.get, "uploads"):
            throw ObjectError(.invalidRequest, "Key is not expected for the GET method ?uploads subresource")
        case (_, "uploads"): throw notAllowed("POST")
        case (_, "uploadId"): return try uploadOperation(head, name, parameters)
        case (.get, "attributes"): return .getObjectAttributes(name, try S3AttributesQuery(head))
        case (_, "attributes"): throw notAllowed("GET")
        case (.post, "append") where head.vendor == .aws: throw notAllowed("GET, HEAD, PUT, DELETE")
        case (.post, "append"):
            let text = "The position must be a number of bytes."
            guard let position = try parameters.number("position", in: 0...Int.max, text) else {
                throw .argument("position", nil, text)
            }
            return .appendObject(name, position: Int64(position))
        case (_, "append"): throw notAllowed("POST")
        case (.put, _):
            guard !parameters.contains("partNumber") else {
                throw ObjectError(.invalidRequest, "The parameter partNumber needs the parameter uploadId.")
            }
            if let source = try CopySource(head) { return .copyObject(name, from: source) }
            return .putObject(name)
        case (.get, _): return .getObject(name, try reading(head, parameters))
        case (.head, _): return .headObject(name, try reading(head, parameters))
        case (.delete, _): return .deleteObject(name)
        default: throw notAllowed("GET, HEAD, PUT, DELETE")
        }
    }

    private static func uploadOperation(
        _ head: RequestReader,
        _ name: ObjectName,
        _ parameters: ObjectParameters
    ) throws(ObjectError) -> ObjectOperation {
        guard let id = try parameters.nonEmpty("uploadId") else { throw ObjectError(.noSuchUpload) }
        switch head.method {
        case .put:
            guard let number = try partNumber(parameters) else {
                throw ObjectError(.invalidRequest, "The parameter uploadId needs the parameter partNumber here.")
            }
            let part = PartReference(number, of: id)
            guard let source = try CopySource(head) else { return .uploadPart(name, part) }
            return .uploadPartCopy(name, part, from: source, range: try CopySource.range(head))
        case .get:
            let text = "Argument part-number-marker must be an integer between 0 and 2147483647"
            let marker = try parameters.number("part-number-marker", in: 0...2_147_483_647, text)
            return .listParts(
                name,
                PartListing(
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

    private static func partNumber(_ parameters: ObjectParameters) throws(ObjectError) -> Int? {
        let text = "Part number must be an integer between 1 and 10000, inclusive"
        guard try parameters.text("partNumber") != "" else { throw .argument("partNumber", "", text) }
        return try parameters.number("partNumber", in: PartRecord.numbers, text)
    }

    private static func reading(_ head: RequestReader, _ parameters: ObjectParameters) throws(ObjectError)
        -> ObjectReading
    {
        var reading = ObjectReading()
        reading.range = head.standard["Range"]
        reading.part = try partNumber(parameters)
        reading.rangeIsStandard = head["range-behavior"] == "standard"
        guard reading.range == nil || reading.part == nil else {
            throw ObjectError(.invalidRequest, "Cannot specify both Range header and partNumber query parameter")
        }
        reading.wantsChecksum = head["checksum-mode"]?.lowercasedASCII() == "enabled"
        for name in overridable {
            if let value = try parameters.text("response-\(name)") { reading.overrides[name] = value }
        }
        return reading
    }

    private static func unsupported(_ name: String) -> ObjectError {
        ObjectError(
            .notImplemented,
            "?\(name) is not supported: leave the call out (docs/object.md lists the supported ones)."
        )
    }

    private static func notAllowed(_ methods: String) -> ObjectError {
        ObjectError(.methodNotAllowed, fields: ["Allow": methods])
    }
}
