internal import Foundation
package import UploadCore

extension S3Storage {
    package func empty(_ id: UploadID) async throws(UploadError) {
        let found = try await record(of: id)
        var record = BlobRecord(
            id: id,
            version: found.version,
            bucket: found.bucket,
            key: found.key,
            contentType: found.contentType,
            partSize: found.partSize,
            createdAt: found.createdAt
        )
        record.isBeginning = found.isBeginning
        // The store first: once the record is empty, nobody knows what is there.
        try await removeObjects(of: found)
        record.version = try await records.update(record, adding: [], droppingFrom: 1)
    }

    package func remove(_ id: UploadID) async throws(UploadError) {
        guard let record = try await records.blob(id) else { return }
        try await removeObjects(of: record)
        try await records.forgetBlob(id)
    }

    /// Everything that the store has of a blob.
    private func removeObjects(of record: BlobRecord) async throws(UploadError) {
        if record.isBeginning { try await abortStrays(of: record) }
        try await asking { () async throws(S3Failure) in
            if let multipart = record.multipart, record.state != .complete {
                try await client.abort(multipart, of: record.key, in: record.bucket)
            }
            for side in record.sides { try await client.delete(side.key, in: record.bucket) }
            // An open one may be there as well, whose confirmation came too late to be recorded.
            if record.state != .open || record.multipart == nil {
                // Under a key that the app chose there may be the object of another upload by now.
                if record.state == .complete, record.key.contains(record.id.text) {
                    try await client.delete(record.key, in: record.bucket)
                } else if let head = try await client.head(record.key, in: record.bucket),
                    record.owns(head)
                {
                    try await client.delete(record.key, in: record.bucket)
                }
            }
        }
    }
}

extension BlobRecord {
    /// Whether an object under its key is the one that it became: by the name in it, or, in a store that keeps none, by its
    /// entity tag.
    fileprivate func owns(_ head: S3ObjectHead) -> Bool {
        head.upload == id.text || state == .complete && entityTag.map { !$0.isEmpty && $0 == head.entityTag } ?? false
    }
}
