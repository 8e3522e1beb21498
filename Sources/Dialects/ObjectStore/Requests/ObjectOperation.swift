package import ObjectGrants
package import UploadModel

/// The operation that a request asks for, by its name in the Amazon S3 API Reference; OSS and COS have the same ones.
package enum ObjectOperation: Sendable, Equatable {
    case listBuckets(BucketListing)
    case createBucket(String)
    case headBucket(String)
    case deleteBucket(String)
    case getBucketACL(String)
    /// Asks for what each bucket is: private.
    case putBucketACL(String)
    /// Properties of a bucket; OSS only.
    case getBucketInfo(String)
    /// What is stored in a bucket; OSS only.
    case getBucketStat(String)
    case getBucketLocation(String)
    case getBucketVersioning(String)
    case getBucketDocument(String, BucketConfiguration)
    case putBucketDocument(String, BucketConfiguration)
    case deleteBucketDocument(String, BucketConfiguration)
    /// Reads what no bucket has.
    case getAbsentConfiguration(String, AbsentConfiguration)
    case deleteAbsentConfiguration(String, AbsentConfiguration)
    case listObjects(ObjectListing)
    case listMultipartUploads(UploadListing)
    case deleteObjects(String)
    /// An upload by an HTML form, whose fields specify the rest; without a bucket, the one of the credentials is used.
    case postObject(String?)

    case putObject(ObjectName)
    case copyObject(ObjectName, from: CopySource)
    case getObject(ObjectName, ObjectReading)
    case headObject(ObjectName, ObjectReading)
    case getObjectAttributes(ObjectName, S3AttributesQuery)
    case deleteObject(ObjectName)
    case getObjectACL(ObjectName)
    /// Asks for what each object is: private.
    case putObjectACL(ObjectName)
    /// Appends bytes to an object; OSS and COS only.
    case appendObject(ObjectName, position: Int64)
    case getObjectTagging(ObjectName)
    case putObjectTagging(ObjectName)
    case deleteObjectTagging(ObjectName)

    case createMultipartUpload(ObjectName)
    case uploadPart(ObjectName, PartReference)
    /// A part copied from an object; all of it if there is no range.
    case uploadPartCopy(ObjectName, PartReference, from: CopySource, range: ClosedRange<Int64>?)
    case listParts(ObjectName, PartListing)
    case completeMultipartUpload(ObjectName, uploadID: String)
    case abortMultipartUpload(ObjectName, uploadID: String)

    /// A browser's preflight for a page of another origin; always unsigned.
    case preflight(bucket: String?)
    /// A liveness check, which COS clients send unsigned.
    case probe
}

/// A bucket configuration document; the raw value is its sub-resource.
package enum BucketConfiguration: String, Sendable, CaseIterable {
    case cors, lifecycle
}

/// Identifies a part of an upload.
package struct PartReference: Sendable, Equatable {
    /// 1 to 10,000.
    package let number: Int
    package let uploadID: String

    package init(_ number: Int, of uploadID: String) {
        self.number = number
        self.uploadID = uploadID
    }
}

/// How an object is to be read.
package struct ObjectReading: Sendable, Equatable {
    /// The field `Range`, unchanged; never together with a part number.
    package var range: String?
    /// 1 to 10,000; an object not uploaded in parts has only the first.
    package var part: Int?
    /// Whether the range follows HTTP semantics although the vendor differs.
    package var rangeIsStandard = false
    /// Whether the checksum is requested (`x-amz-checksum-mode`).
    package var wantsChecksum = false
    /// Response fields that the request overrides, by name in lower case, such as `content-disposition`.
    package var overrides: [String: String] = [:]

    package init() {}
}

/// A request for a page of the parts of an upload.
package struct PartListing: Sendable, Equatable {
    package var uploadID: String
    /// Only parts with greater numbers are returned.
    package var marker: Int
    /// 0 to 1000.
    package var maximum: Int
    package var encodesURL: Bool
}

extension ObjectOperation {
    /// As in the Amazon S3 API Reference; the number of texts is bounded, for logs and metrics.
    package var name: String {
        switch self {
        case .listBuckets: "ListBuckets"
        case .createBucket: "CreateBucket"
        case .headBucket: "HeadBucket"
        case .deleteBucket: "DeleteBucket"
        case .getBucketACL: "GetBucketAcl"
        case .putBucketACL: "PutBucketAcl"
        case .getBucketInfo: "GetBucketInfo"
        case .getBucketStat: "GetBucketStat"
        case .getBucketLocation: "GetBucketLocation"
        case .getAbsentConfiguration(_, let absent): "Get" + absent.name
        case .deleteAbsentConfiguration(_, let absent): "Delete" + absent.name
        case .getBucketVersioning: "GetBucketVersioning"
        case .getBucketDocument(_, .cors): "GetBucketCors"
        case .putBucketDocument(_, .cors): "PutBucketCors"
        case .deleteBucketDocument(_, .cors): "DeleteBucketCors"
        case .getBucketDocument(_, .lifecycle): "GetBucketLifecycleConfiguration"
        case .putBucketDocument(_, .lifecycle): "PutBucketLifecycleConfiguration"
        case .deleteBucketDocument(_, .lifecycle): "DeleteBucketLifecycle"
        case .listObjects(let listing):
            switch listing.version {
            case .one: "ListObjects"
            case .two: "ListObjectsV2"
            case .versions: "ListObjectVersions"
            }
        case .listMultipartUploads: "ListMultipartUploads"
        case .deleteObjects: "DeleteObjects"
        case .postObject: "PostObject"
        case .putObject: "PutObject"
        case .copyObject: "CopyObject"
        case .getObject: "GetObject"
        case .headObject: "HeadObject"
        case .getObjectAttributes: "GetObjectAttributes"
        case .deleteObject: "DeleteObject"
        case .getObjectACL: "GetObjectAcl"
        case .putObjectACL: "PutObjectAcl"
        case .appendObject: "AppendObject"
        case .getObjectTagging: "GetObjectTagging"
        case .putObjectTagging: "PutObjectTagging"
        case .deleteObjectTagging: "DeleteObjectTagging"
        case .createMultipartUpload: "CreateMultipartUpload"
        case .uploadPart: "UploadPart"
        case .uploadPartCopy: "UploadPartCopy"
        case .listParts: "ListParts"
        case .completeMultipartUpload: "CompleteMultipartUpload"
        case .abortMultipartUpload: "AbortMultipartUpload"
        case .preflight: "Preflight"
        case .probe: "Probe"
        }
    }

    /// `nil` for operations on the service itself.
    package var bucket: String? {
        switch self {
        case .listBuckets, .probe: nil
        case .preflight(let bucket), .postObject(let bucket): bucket
        case .createBucket(let bucket), .headBucket(let bucket), .deleteBucket(let bucket), .getBucketACL(let bucket),
            .putBucketACL(let bucket), .getBucketInfo(let bucket), .getBucketLocation(let bucket),
            .getBucketVersioning(let bucket), .getBucketDocument(let bucket, _), .putBucketDocument(let bucket, _),
            .deleteBucketDocument(let bucket, _), .deleteObjects(let bucket), .getBucketStat(let bucket),
            .getAbsentConfiguration(let bucket, _), .deleteAbsentConfiguration(let bucket, _):
            bucket
        case .listObjects(let listing): listing.bucket
        case .listMultipartUploads(let listing): listing.bucket
        default: object?.bucket
        }
    }

    /// The object of the request; for a copy, the target.
    package var object: ObjectName? {
        switch self {
        case .putObject(let object), .copyObject(let object, _), .getObject(let object, _), .headObject(let object, _),
            .getObjectAttributes(let object, _), .deleteObject(let object), .getObjectACL(let object),
            .putObjectACL(let object), .appendObject(let object, _),
            .getObjectTagging(let object), .putObjectTagging(let object), .deleteObjectTagging(let object),
            .createMultipartUpload(let object), .uploadPart(let object, _),
            .uploadPartCopy(let object, _, _, _), .listParts(let object, _), .completeMultipartUpload(let object, _),
            .abortMultipartUpload(let object, _):
            object
        case .listBuckets, .createBucket, .headBucket, .deleteBucket, .getBucketACL, .putBucketACL,
            .getBucketInfo, .getBucketLocation, .getBucketVersioning, .getBucketDocument, .putBucketDocument,
            .deleteBucketDocument, .listObjects, .listMultipartUploads, .deleteObjects, .postObject, .preflight, .probe,
            .getBucketStat, .getAbsentConfiguration, .deleteAbsentConfiguration:
            nil
        }
    }

    /// What "not found" refers to in its responses.
    package var subject: ObjectError.Subject {
        switch self {
        case .uploadPart, .uploadPartCopy, .listParts, .completeMultipartUpload, .abortMultipartUpload: .upload
        default: .object
        }
    }

    /// The access that an operation requires.
    package enum Requirement: Sendable, Equatable {
        case administrator
        /// All of these accesses.
        case accesses([ObjectAccess])
        /// This action on one of the objects; each is checked separately once the content names it.
        case each(ObjectAction, bucket: String)
        case anybody
    }

    /// The access it requires, before the content of the request is known.
    ///
    /// Setting tags requires write access to the object, because writing can set tags too. Reading tags requires read
    /// access to its metadata.
    ///
    /// - Parameters:
    ///   - contentLength: Size of the object in the request, in bytes; `nil` if unknown.
    ///   - contentType: Media type of the object to create; `nil` if unknown.
    /// - Returns: The access to check.
    package func requirement(contentLength: Int64? = nil, contentType: String? = nil) -> Requirement {
        func access(_ action: ObjectAction, _ name: ObjectName) -> ObjectAccess {
            ObjectAccess(
                action,
                bucket: name.bucket,
                key: name.key,
                contentLength: action.bringsContent ? contentLength : nil,
                contentType: action.bringsContentType ? contentType : nil
            )
        }
        switch self {
        case .listBuckets, .createBucket, .deleteBucket, .putBucketACL, .getBucketDocument, .putBucketDocument,
            .deleteBucketDocument, .getBucketStat, .deleteAbsentConfiguration:
            return .administrator
        case .preflight, .probe: return .anybody
        case .headBucket(let bucket): return .accesses([ObjectAccess(.headBucket, bucket: bucket)])
        // The responses are the same for all buckets.
        case .getBucketACL(let bucket), .getBucketInfo(let bucket), .getBucketLocation(let bucket),
            .getBucketVersioning(let bucket), .getAbsentConfiguration(let bucket, _):
            return .accesses([ObjectAccess(.getBucketLocation, bucket: bucket)])
        case .listObjects(let listing):
            return .accesses([ObjectAccess(.listObjects, bucket: listing.bucket, key: listing.prefix)])
        case .listMultipartUploads(let listing):
            return .accesses([ObjectAccess(.listMultipartUploads, bucket: listing.bucket, key: listing.prefix)])
        case .deleteObjects(let bucket): return .each(.deleteObject, bucket: bucket)
        case .postObject(let bucket): return .each(.postObject, bucket: bucket ?? "")
        case .putObject(let name), .putObjectACL(let name), .putObjectTagging(let name), .deleteObjectTagging(let name):
            return .accesses([access(.putObject, name)])
        case .copyObject(let name, let source):
            return .accesses([access(.putObject, name), access(.copySource, source.object)])
        case .getObject(let name, _): return .accesses([access(.getObject, name)])
        case .headObject(let name, _), .getObjectTagging(let name), .getObjectAttributes(let name, _),
            .getObjectACL(let name):
            return .accesses([access(.headObject, name)])
        case .deleteObject(let name): return .accesses([access(.deleteObject, name)])
        case .appendObject(let name, _): return .accesses([access(.appendObject, name)])
        case .createMultipartUpload(let name): return .accesses([access(.createMultipartUpload, name)])
        case .uploadPart(let name, _): return .accesses([access(.uploadPart, name)])
        case .uploadPartCopy(let name, _, let source, _):
            return .accesses([access(.uploadPart, name), access(.copySource, source.object)])
        case .listParts(let name, _): return .accesses([access(.listParts, name)])
        case .completeMultipartUpload(let name, _): return .accesses([access(.completeMultipartUpload, name)])
        case .abortMultipartUpload(let name, _): return .accesses([access(.abortMultipartUpload, name)])
        }
    }
}
