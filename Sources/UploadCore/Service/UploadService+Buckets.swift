internal import Foundation

/// Buckets of the object endpoint.
extension UploadService {
    /// A bucket with this name, if there is one.
    package func bucket(_ name: String) async throws(UploadError) -> BucketRecord? {
        try await reporting(nil) { () async throws(UploadError) -> BucketRecord? in try await state.bucket(name) }
    }

    /// All buckets, by name.
    package func buckets() async throws(UploadError) -> [BucketRecord] {
        try await reporting(nil) { () async throws(UploadError) -> [BucketRecord] in try await state.buckets() }
    }

    /// Makes a bucket.
    ///
    /// - Returns: `false` if there is one with this name.
    /// - Throws: `.storageFull`, `.storageFailure`.
    package func createBucket(_ name: String) async throws(UploadError) -> Bool {
        try await reporting(nil) { () async throws(UploadError) -> Bool in
            try checkWritable()
            return try await state.insert(BucketRecord(name: name, createdAt: now))
        }
    }

    /// Removes an empty bucket.
    ///
    /// - Returns: `false` if there is an object or an open upload in it.
    /// - Throws: `.storageFull`, `.storageFailure`.
    package func removeBucket(_ name: String) async throws(UploadError) -> Bool {
        try await reporting(nil) { () async throws(UploadError) -> Bool in
            try checkWritable()
            return try await state.removeBucket(name)
        }
    }

    /// Sets a document of a bucket; `nil` takes it away.
    ///
    /// - Parameters:
    ///   - name: Of the document, such as `cors`.
    ///   - text: As the client has sent it.
    ///   - bucket: Whose.
    /// - Returns: `false` if there is no such bucket.
    /// - Throws: `.storageFull`, `.storageFailure`.
    package func setDocument(
        _ name: String,
        to text: String?,
        ofBucket bucket: String
    ) async throws(UploadError) -> Bool {
        try await reporting(nil) { () async throws(UploadError) -> Bool in
            try checkWritable()
            return try await state.setDocument(name, to: text, ofBucket: bucket)
        }
    }
}
