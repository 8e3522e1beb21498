internal import Synchronization
internal import UploadCore
package import UploadModel

extension InMemoryState {
    package func insert(_ bucket: BucketRecord) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            let name = Array(bucket.name.utf8)
            guard tables.buckets[name] == nil else { return false }
            tables.buckets[name] = bucket
            return true
        }
    }

    package func bucket(_ name: String) async throws(UploadError) -> BucketRecord? {
        tables.withLock { $0.buckets[Array(name.utf8)] }
    }

    package func buckets() async throws(UploadError) -> [BucketRecord] {
        tables.withLock { tables in
            tables.buckets.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map(\.value)
        }
    }

    package func setDocument(
        _ name: String,
        to text: String?,
        ofBucket bucket: String
    ) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            guard var record = tables.buckets[Array(bucket.utf8)] else { return false }
            record.documents[name] = text
            tables.buckets[Array(bucket.utf8)] = record
            return true
        }
    }

    package func removeBucket(_ name: String) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            let isUsed =
                tables.media.values.contains { $0.objectName?.isIn(name) == true }
                || tables.uploads.values.contains { $0.state == .open && $0.objectName?.isIn(name) == true }
            if !isUsed { tables.buckets[Array(name.utf8)] = nil }
            return !isUsed
        }
    }
}
