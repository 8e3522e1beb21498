package import UploadModel

extension FaultyState {
    package func putPart(_ part: PartRecord, of id: UploadID) async throws(UploadError) -> PartRecord? {
        try await plan.step(.putPart)
        let replaced = try await base.putPart(part, of: id)
        try plan.response(.putPart)
        return replaced
    }

    package var sharesParts: Bool { base.sharesParts }

    package func objectParts(
        of id: UploadID,
        after number: Int,
        limit: Int
    ) async throws(UploadError) -> [PartRecord] {
        try await plan.step(.objectParts)
        return try await base.objectParts(of: id, after: number, limit: limit)
    }

    package func objectPart(_ number: Int, of id: UploadID) async throws(UploadError) -> PartRecord? {
        try await plan.step(.objectPart)
        return try await base.objectPart(number, of: id)
    }

    package func partBytes(of id: UploadID) async throws(UploadError) -> Int64 {
        try await plan.step(.partBytes)
        return try await base.partBytes(of: id)
    }

    package func partBytes(of ids: [UploadID]) async throws(UploadError) -> [UploadID: Int64] {
        try await plan.step(.partBytes)
        return try await base.partBytes(of: ids)
    }

    package func setAttributes(
        of id: UploadID,
        to attributes: ObjectAttributes
    ) async throws(UploadError) -> Bool {
        try await plan.step(.setAttributes)
        return try await base.setAttributes(of: id, to: attributes)
    }

    package func partUploads(_ query: PartUploadQuery) async throws(UploadError) -> [Upload] {
        try await plan.step(.partUploads)
        return try await base.partUploads(query)
    }

    package func object(_ name: ObjectName) async throws(UploadError) -> Media? {
        try await plan.step(.object)
        return try await base.object(name)
    }

    package func objects(_ query: ObjectQuery) async throws(UploadError) -> [ObjectSummary] {
        try await plan.step(.objects)
        return try await base.objects(query)
    }

    package func insert(_ bucket: BucketRecord) async throws(UploadError) -> Bool {
        try await plan.step(.insertBucket)
        return try await base.insert(bucket)
    }

    package func bucket(_ name: String) async throws(UploadError) -> BucketRecord? {
        try await plan.step(.bucket)
        return try await base.bucket(name)
    }

    package func buckets() async throws(UploadError) -> [BucketRecord] {
        try await plan.step(.buckets)
        return try await base.buckets()
    }

    package func setDocument(
        _ name: String,
        to text: String?,
        ofBucket bucket: String
    ) async throws(UploadError) -> Bool {
        try await plan.step(.setDocument)
        return try await base.setDocument(name, to: text, ofBucket: bucket)
    }

    package func removeBucket(_ name: String) async throws(UploadError) -> Bool {
        try await plan.step(.removeBucket)
        return try await base.removeBucket(name)
    }
}
