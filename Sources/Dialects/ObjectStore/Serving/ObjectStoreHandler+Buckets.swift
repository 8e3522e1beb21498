internal import Bytes
internal import HTTPWire
internal import Signing
internal import UploadCore

/// Buckets and their documents.
extension ObjectStoreHandler {
    func bucketResponse(_ call: ObjectCall) async throws(ObjectError) -> Response {
        switch call.operation {
        case .listBuckets:
            let buckets = try await core { () async throws(UploadError) in try await service.buckets() }
            return Self.document(
                BucketDocuments.list(
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
            guard isRemoved else { throw ObjectError(.bucketNotEmpty) }
            return Response(204)
        case .getBucketLocation: return Self.document(BucketDocuments.location(region, for: call.vendor))
        case .getBucketVersioning: return Self.document(BucketDocuments.versioning(for: call.vendor))
        case .getBucketDocument(let name, let document):
            let record = try await core { () async throws(UploadError) in try await service.bucket(name) }
            guard let text = record?.documents[document.rawValue] else { throw document.missing }
            return Self.document(Array(text.utf8))
        case .putBucketDocument(let name, let document):
            let bytes = try await call.collect(limit: document.limit)
            let kept: [UInt8]
            switch document {
            case .cors:
                _ = try BucketCORS(document: bytes)
                kept = bytes
            case .lifecycle:
                let lifecycle = try BucketLifecycle(document: bytes)
                try lifecycle.checkSupported()
                kept = lifecycle.document(instead: bytes, for: call.vendor)
            }
            try await set(document, of: name, to: String(decoding: kept, as: UTF8.self))
            return Response(200)
        case .deleteBucketDocument(let name, let document):
            try await set(document, of: name, to: nil)
            return Response(204)
        default: throw ObjectError(.methodNotAllowed)
        }
    }

    private func createBucket(_ name: String, _ call: ObjectCall) async throws(ObjectError) -> Response {
        try S3Names.check(newBucket: name)
        let bytes = try await call.collect(limit: RequestDocuments.Limit.creation)
        if let location = try BucketDocuments.location(document: bytes), location != region {
            throw ObjectError(.illegalLocationConstraint, "The location must be \(region), or be left out.")
        }
        let isNew = try await core { () async throws(UploadError) in try await service.createBucket(name) }
        // Amazon's oldest region reports success ("CreateBucket", Amazon S3 API Reference, "Errors").
        guard isNew || region == call.vendor.profile.documents.unnamedRegion else {
            throw ObjectError(.bucketAlreadyOwnedByYou)
        }
        return Response(200, ["Location": "/\(name)"])
    }

    private func set(_ document: BucketConfiguration, of bucket: String, to text: String?) async throws(ObjectError) {
        let isThere = try await core { () async throws(UploadError) in
            try await service.setDocument(document.rawValue, to: text, ofBucket: bucket)
        }
        guard isThere else { throw ObjectError(.noSuchBucket, details: [ObjectError.Detail("BucketName", bucket)]) }
    }
}

extension BucketConfiguration {
    fileprivate var limit: Int {
        switch self {
        case .cors: RequestDocuments.Limit.cors
        case .lifecycle: RequestDocuments.Limit.lifecycle
        }
    }

    fileprivate var missing: ObjectError {
        switch self {
        case .cors: ObjectError(.noSuchCORSConfiguration)
        case .lifecycle: ObjectError(.noSuchLifecycleConfiguration)
        }
    }
}
