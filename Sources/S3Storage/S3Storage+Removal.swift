internal import Foundation
internal import Synchronization
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
        // The record first: who was paused, and goes on after somebody else has taken the upload over, ends here. What of the
        // store is not removed then is looked for when the blob is completed or removed.
        record.isBeginning = found.isBeginning || found.multipart != nil
        record.version = try await records.update(record, adding: [], droppingFrom: 1)
        try await removeObjects(of: found, recorded: record)
    }

    package func remove(_ id: UploadID) async throws(UploadError) {
        // What the store is just making of the parts would be there when they are gone, and nobody would know of it.
        if let running = completions.withLock({ $0[id] }), await !running.ends(within: .milliseconds(100)) {
            throw UploadError(.finishing, "The store is still putting the object together; remove it after that.")
        }
        guard let record = try await records.blob(id) else { return }
        try await removeObjects(of: record, recorded: record)
        try await records.forgetBlob(id)
    }

    /// Removes everything that the store has of a blob.
    ///
    /// - Parameters:
    ///   - record: What it has.
    ///   - current: The record as it is now.
    /// - Throws: `.interrupted` if somebody else wrote the record meanwhile; what the store's answers became.
    private func removeObjects(of record: BlobRecord, recorded current: BlobRecord) async throws(UploadError) {
        if current.isBeginning { try await abortStrays(of: current) }
        try await asking { () async throws(S3Failure) in
            if let multipart = record.multipart, record.state != .complete {
                try await client.abort(multipart, of: record.key, in: record.bucket)
            }
            for side in record.sides { try await client.delete(side.key, in: record.bucket) }
        }
        if record.partSize == 0 {
            // Small parts, which no record of the storage names, and which other nodes may have taken.
            let prefix = sidePrefix(of: record.id)
            _ = try await removeSides(withPrefix: prefix, in: record.bucket, from: .distantFuture, ended: record.id)
        }
        // An open one may be there as well, whose confirmation came too late to be recorded.
        guard record.state != .open || record.multipart == nil else { return }
        try await keyTurns.take(record) { () async throws(UploadError) in
            var tag: String?
            if record.state != .complete || !record.hasKeyOfItsOwn {
                // Under a key that the app chose there may be the object of another upload by now.
                let head = try await asking { () async throws(S3Failure) in
                    try await client.head(record.key, in: record.bucket)
                }
                guard let head, record.owns(head) else { return }
                tag = head.entityTag
            }
            // Somebody else may have completed the blob meanwhile.
            try await checkUnchanged(current)
            let found = tag
            try await asking { () async throws(S3Failure) in
                try await client.delete(record.key, in: record.bucket, matching: found)
            }
        }
    }
}

extension BlobRecord {
    /// Whether an object under its key is the one that it became: by the name in it, or, in a store that keeps none, by its
    /// entity tag.
    func owns(_ head: S3ObjectHead) -> Bool {
        // Another upload of the same bytes has the same entity tag.
        if let upload = head.upload { return upload == id.text }
        return state == .complete && entityTag.map { !$0.isEmpty && $0 == head.entityTag } ?? false
    }

    /// No other upload has it; else the app chose it, and may choose it again.
    var hasKeyOfItsOwn: Bool { key.contains(id.text) }
}
