internal import Bytes
internal import HTTPWire
internal import Signing
internal import UploadCore

/// Buckets and their documents.
extension S3Handler {
    func bucketResponse(_ call: S3Call) async throws(S3Error) -> Response {
        switch call.operation {
        case .listBuckets:
            let buckets = try await core { () async throws(UploadError) in try await service.buckets() }
            return Self.document(
                S3Buckets.list(
                    buckets.map { (name: $0.name, createdAt: $0.createdAt) },
                    owner: Self.owner,
                    region: region,
                    host: call.command.host,
                    for: call.vendor
                )
            )
        case .createBucket(let name): return try await createBucket(name, call)
        case .headBucket: return Response(200, ["x-amz-bucket-region": region])
        case .deleteBucket(let name):
            let isRemoved = try await core { () async throws(UploadError) in try await service.removeBucket(name) }
            guard isRemoved else { throw S3Error(.bucketNotEmpty) }
            return Response(204)
        case .getBucketLocation: return Self.document(S3Buckets.location(region, for: call.vendor))
        case .getBucketVersioning: return Self.document(S3Buckets.versioning(for: call.vendor))
        case .getBucketDocument(let name, let document):
            let record = try await core { () async throws(UploadError) in try await service.bucket(name) }
            guard let text = record?.documents[document.rawValue] else { throw document.missing }
            return Self.document(Array(text.utf8))
        case .putBucketDocument(let name, let document):
            let bytes = try await call.collect(limit: document.limit)
            let kept: [UInt8]
            switch document {
            case .cors:
                _ = try S3CORS(document: bytes)
                kept = bytes
            case .lifecycle: kept = try S3Lifecycle(document: bytes).document(instead: bytes, for: call.vendor)
            }
            try await set(document, of: name, to: String(decoding: kept, as: UTF8.self))
            return Response(200)
        case .deleteBucketDocument(let name, let document):
            try await set(document, of: name, to: nil)
            return Response(204)
        default: throw S3Error(.methodNotAllowed)
        }
    }

    private func createBucket(_ name: String, _ call: S3Call) async throws(S3Error) -> Response {
        try S3Names.check(newBucket: name)
        let bytes = try await call.collect(limit: S3Documents.Limit.creation)
        if let location = try S3Buckets.location(document: bytes), location != region {
            throw S3Error(.illegalLocationConstraint, "The location must be \(region), or none must be given.")
        }
        let isNew = try await core { () async throws(UploadError) in try await service.createBucket(name) }
        // Amazon's oldest region reports success ("CreateBucket", Amazon S3 API Reference, "Errors").
        guard isNew || region == call.vendor.profile.documents.unnamedRegion else {
            throw S3Error(.bucketAlreadyOwnedByYou)
        }
        return Response(200, ["Location": "/\(name)"])
    }

    private func set(_ document: S3BucketDocument, of bucket: String, to text: String?) async throws(S3Error) {
        let isThere = try await core { () async throws(UploadError) in
            try await service.setDocument(document.rawValue, to: text, ofBucket: bucket)
        }
        guard isThere else { throw S3Error(.noSuchBucket, details: [S3Error.Detail("BucketName", bucket)]) }
    }
}

extension S3BucketDocument {
    fileprivate var limit: Int {
        switch self {
        case .cors: S3Documents.Limit.cors
        case .lifecycle: S3Documents.Limit.lifecycle
        }
    }

    fileprivate var missing: S3Error {
        switch self {
        case .cors: S3Error(.noSuchCORSConfiguration)
        case .lifecycle: S3Error(.noSuchLifecycleConfiguration)
        }
    }
}
