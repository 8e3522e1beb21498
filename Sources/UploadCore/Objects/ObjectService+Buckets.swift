internal import Foundation
package import UploadModel

/// Buckets of the object endpoint.
extension ObjectService {
    /// The bucket with this name, or `nil`.
    package func bucket(_ name: String) async throws(UploadError) -> BucketRecord? {
        try await context.reporting(nil) { () async throws(UploadError) -> BucketRecord? in try await state.bucket(name)
        }
    }

    /// All buckets, ordered by name.
    package func buckets() async throws(UploadError) -> [BucketRecord] {
        try await context.reporting(nil) { () async throws(UploadError) -> [BucketRecord] in try await state.buckets() }
    }

    /// Creates a bucket.
    ///
    /// - Returns: `false` if the name is taken.
    /// - Throws: `.storageFull`, `.storageFailure`.
    package func createBucket(_ name: String) async throws(UploadError) -> Bool {
        try await context.reporting(nil) { () async throws(UploadError) -> Bool in
            try context.checkWritable()
            return try await state.insert(BucketRecord(name: name, createdAt: context.now))
        }
    }

    /// Removes an empty bucket.
    ///
    /// - Returns: `false` if the bucket contains an object or an open upload.
    /// - Throws: `.storageFull`, `.storageFailure`.
    package func removeBucket(_ name: String) async throws(UploadError) -> Bool {
        try await context.reporting(nil) { () async throws(UploadError) -> Bool in
            try context.checkWritable()
            return try await state.removeBucket(name)
        }
    }

    /// Sets a document of a bucket; `nil` removes it.
    ///
    /// - Parameters:
    ///   - name: The name of the document, such as `cors`.
    ///   - text: The document as the client sent it.
    ///   - bucket: The bucket.
    /// - Returns: `false` if there is no such bucket.
    /// - Throws: `.storageFull`, `.storageFailure`.
    package func setDocument(
        _ name: String,
        to text: String?,
        ofBucket bucket: String
    ) async throws(UploadError) -> Bool {
        try await context.reporting(nil) { () async throws(UploadError) -> Bool in
            try context.checkWritable()
            return try await state.setDocument(name, to: text, ofBucket: bucket)
        }
    }
}
