/// Where the state store keeps what the object endpoint needs besides uploads and media: parts, names of objects, buckets.
///
/// An object is media that have a bucket; there is one at most with each name. What holds for `StateStore` holds here. Keys are
/// ordered by their bytes. A page of a list costs its own size, whatever lies before and behind it.
package protocol ObjectRecords: Sendable {
    // MARK: Parts

    /// Records a part of an open upload in place of one with the same number.
    ///
    /// - Returns: The part that had the number before.
    /// - Throws: `.gone`, with nothing changed, if the upload is not open, takes no parts, or its completion was begun;
    ///   `.storageFull`, `.storageFailure`.
    func putPart(_ part: PartRecord, of id: UploadID) async throws(UploadError) -> PartRecord?

    /// Parts by their numbers, those after `number`; none if there is no such upload.
    func objectParts(of id: UploadID, after number: Int, limit: Int) async throws(UploadError) -> [PartRecord]

    /// A part, if it is there.
    func objectPart(_ number: Int, of id: UploadID) async throws(UploadError) -> PartRecord?

    /// Bytes of all parts; looks at each of them.
    func partBytes(of id: UploadID) async throws(UploadError) -> Int64

    /// Replaces the attributes of an open or completed upload, and of its media.
    ///
    /// - Returns: `false`, with nothing changed, if it is neither.
    func setAttributes(of id: UploadID, to attributes: ObjectAttributes) async throws(UploadError) -> Bool

    /// Open uploads that take parts, by key, and those of one key by id.
    func partUploads(_ query: PartUploadQuery) async throws(UploadError) -> [Upload]

    // MARK: Objects

    func object(_ name: ObjectName) async throws(UploadError) -> Media?

    /// By key.
    func objects(_ query: ObjectQuery) async throws(UploadError) -> [Media]

    // MARK: Buckets

    /// - Returns: `false` if there is one with the name.
    func insert(_ bucket: BucketRecord) async throws(UploadError) -> Bool

    func bucket(_ name: String) async throws(UploadError) -> BucketRecord?

    /// By name.
    func buckets() async throws(UploadError) -> [BucketRecord]

    /// Sets a document of a bucket; `nil` takes it away.
    ///
    /// - Returns: `false` if there is no such bucket.
    func setDocument(_ name: String, to text: String?, ofBucket bucket: String) async throws(UploadError) -> Bool

    /// Forgets a bucket in which there is neither an object nor an open upload.
    ///
    /// - Returns: `false`, with nothing changed, if there is; `true` also if there was no such bucket.
    func removeBucket(_ name: String) async throws(UploadError) -> Bool
}

/// Which objects to list; the texts are without U+0000, as keys are.
package struct ObjectQuery: Sendable, Equatable {
    package var bucket: String
    /// Only keys that begin with it.
    package var prefix: String
    /// Only keys after this one; `nil` for all.
    package var after: String?
    /// At least 1.
    package var limit: Int

    package init(bucket: String, prefix: String = "", after: String? = nil, limit: Int) {
        self.bucket = bucket
        self.prefix = prefix
        self.after = after
        self.limit = limit
    }
}

/// Which open uploads that take parts to list; the texts are without U+0000, as keys are.
package struct PartUploadQuery: Sendable, Equatable {
    package var bucket: String
    /// Only keys that begin with it.
    package var prefix: String
    /// Only keys after this one, or this one and ids after `afterID`, if there is such; `nil` for all.
    package var after: String?
    package var afterID: UploadID?
    /// At least 1.
    package var limit: Int

    package init(
        bucket: String,
        prefix: String = "",
        after: String? = nil,
        afterID: UploadID? = nil,
        limit: Int
    ) {
        self.bucket = bucket
        self.prefix = prefix
        self.after = after
        self.afterID = afterID
        self.limit = limit
    }
}
