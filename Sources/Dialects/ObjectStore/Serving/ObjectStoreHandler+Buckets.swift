internal import Bytes
internal import HTTPWire
internal import Signing
internal import UploadCore
internal import UploadModel

/// Buckets and their documents.
extension ObjectStoreHandler {
    func bucketResponse(_ call: ObjectCall) async throws(ObjectError) -> Response {
        switch call.operation {
        case .listBuckets(let listing):
            let buckets = try await core { () async throws(UploadError) in try await service.buckets() }
            let page = listing.page(of: buckets, in: region) { $0.name }
            return Self.document(
                BucketDocuments.list(
                    page.0.map { (name: $0.name, createdAt: $0.createdAt) },
                    listing,
                    isTruncated: page.isTruncated,
                    owner: Self.owner,
                    region: region,
                    host: call.command.host,
                    for: call.vendor
                )
            )
        case .createBucket(let name): return try await createBucket(name, call)
        case .headBucket: return Response(200, ["x-amz-bucket-region": region])
        case .deleteBucket(let name):
            try await delete(bucket: name)
            return Response(204)
        case .getBucketACL: return Self.document(AccessDocuments.acl(owner: Self.owner, for: call.vendor))
        case .putBucketACL(let name):
            let record = try await core { () async throws(UploadError) in try await service.bucket(name) }
            guard record != nil else { throw ObjectError(.noSuchBucket) }
            return Response(200)
        case .getBucketInfo(let name):
            let record = try await core { () async throws(UploadError) in try await service.bucket(name) }
            guard let record else { throw ObjectError(.noSuchBucket) }
            return Self.document(
                BucketDocuments.info(
                    name: name,
                    createdAt: record.createdAt,
                    owner: Self.owner,
                    region: region,
                    host: call.command.host
                )
            )
        case .getBucketStat(let name): return Self.document(BucketDocuments.stat(try await stat(of: name)))
        case .getAbsentConfiguration(let name, let absent):
            return Self.document(try absent.document(of: name, owner: Self.owner, for: call.vendor))
        case .deleteAbsentConfiguration(_, let absent):
            try absent.delete()
            return Response(204)
        case .getBucketLocation: return Self.document(BucketDocuments.location(region, for: call.vendor))
        case .getBucketVersioning: return Self.document(BucketDocuments.versioning(for: call.vendor))
        case .getBucketDocument(let name, let document):
            let record = try await core { () async throws(UploadError) in try await service.bucket(name) }
            guard let text = record?.documents[document.rawValue] else { throw document.missing }
            if document == .cors, call.vendor == .aliyun, let rules = try? BucketCORS(document: Array(text.utf8)) {
                return Self.document(rules.documentOfOSS())
            }
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

    /// Counts what a bucket has, page by page: for administrators, as it takes as long as all pages of a listing.
    private func stat(of bucket: String) async throws(ObjectError) -> BucketStat {
        var stat = BucketStat()
        var last: String?
        repeat {
            let query = ObjectQuery(bucket: bucket, prefix: "", after: last, limit: ObjectParameters.maximumPage)
            let page = try await core { () async throws(UploadError) in try await service.objects(query) }
            stat.objects += page.count
            stat.bytes += page.reduce(0) { $0 + $1.size }
            last = page.last?.key
        } while last != nil
        var open: Upload?
        repeat {
            let query = PartUploadQuery(
                bucket: bucket,
                prefix: "",
                after: open?.objectName?.key,
                afterID: open?.id,
                limit: ObjectParameters.maximumPage
            )
            let page = try await core(.upload) { () async throws(UploadError) in
                try await uploads.parts.partUploads(query)
            }
            stat.uploads += page.count
            open = page.last
        } while open != nil
        stat.countedAt = clock.now
        return stat
    }

    private func createBucket(_ name: String, _ call: ObjectCall) async throws(ObjectError) -> Response {
        try S3Names.check(newBucket: name)
        let bytes = try await call.collect(limit: RequestDocuments.Limit.creation)
        if let location = try BucketDocuments.location(document: bytes), location != region,
            location != BucketDocuments.named(region, for: call.vendor)
        {
            throw ObjectError(.illegalLocationConstraint, "The location must be \(region), or be left out.")
        }
        let isNew = try await core { () async throws(UploadError) in try await service.createBucket(name) }
        // Amazon's oldest region reports success ("CreateBucket", Amazon S3 API Reference, "Errors"), and so does OSS:
        // its command line tool makes a bucket twice in its own tests.
        let documents = call.vendor.profile.documents
        guard isNew || documents.recreatesBuckets || region == documents.unnamedRegion else {
            throw ObjectError(.bucketAlreadyOwnedByYou)
        }
        return Response(200, ["Location": "/\(name)"])
    }

    /// Deletes a bucket without objects; its open multipart uploads end, as in Amazon S3.
    ///
    /// - Throws: `BucketNotEmpty`.
    private func delete(bucket: String) async throws(ObjectError) {
        func isRemoved() async throws(ObjectError) -> Bool {
            try await core { () async throws(UploadError) in try await service.removeBucket(bucket) }
        }
        if try await isRemoved() { return }
        var last: UploadID?
        while true {
            let objects = try await core { () async throws(UploadError) in
                try await service.objects(ObjectQuery(bucket: bucket, prefix: "", after: nil, limit: 1))
            }
            guard objects.isEmpty else { throw ObjectError(.bucketNotEmpty) }
            let open = try await core(.upload) { () async throws(UploadError) in
                try await uploads.parts.partUploads(
                    PartUploadQuery(bucket: bucket, prefix: "", after: nil, afterID: nil, limit: Self.uploadsAtOnce)
                )
            }
            // Unless nothing has changed: an upload that is being completed, for example, does not end here.
            guard let first = open.first?.id, first != last else { break }
            last = first
            for upload in open {
                do throws(UploadError) {
                    try await uploads.abort(upload)
                } catch {
                    // One that has ended meanwhile is no longer in the way, or is an object now.
                    guard error.code == .notFound || error.code == .notOpen || error.code == .gone else {
                        throw ObjectError(error, about: .upload)
                    }
                }
            }
        }
        guard try await isRemoved() else { throw ObjectError(.bucketNotEmpty) }
    }

    private static let uploadsAtOnce = 100

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
