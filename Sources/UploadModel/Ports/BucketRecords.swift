/// Buckets of the object endpoint.
package protocol BucketRecords: Sendable {
    /// - Returns: `false` if the name is taken.
    func insert(_ bucket: BucketRecord) async throws(UploadError) -> Bool

    func bucket(_ name: String) async throws(UploadError) -> BucketRecord?

    /// All buckets, ordered by name.
    func buckets() async throws(UploadError) -> [BucketRecord]

    /// Sets a document of a bucket; `nil` removes it.
    ///
    /// - Returns: `false` if there is no such bucket.
    func setDocument(_ name: String, to text: String?, ofBucket bucket: String) async throws(UploadError) -> Bool

    /// Removes a bucket that contains neither an object nor an open upload.
    ///
    /// - Returns: `false`, with nothing changed, if the bucket is not empty; `true` also if there is no such bucket.
    func removeBucket(_ name: String) async throws(UploadError) -> Bool
}
