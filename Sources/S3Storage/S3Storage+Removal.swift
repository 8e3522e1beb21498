internal import Foundation
internal import Synchronization
package import UploadModel

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
        // The record is changed first: a suspended process that continues after another one took over fails here.
        // Objects that are then not removed are looked for when the blob is completed or removed.
        record.isBeginning = found.isBeginning || found.multipart != nil
        record.version = try await records.update(record, adding: [], droppingFrom: 1)
        try await removeObjects(of: found, recorded: record)
    }

    package func remove(_ id: UploadID) async throws(UploadError) {
        // The object that the store is just making would appear after the removal, unknown to any record.
        if let running = completions.withLock({ $0[id] }), await !running.finishes(within: .milliseconds(100)) {
            throw UploadError(.finishing, "The store is still combining the object; try the removal again later.")
        }
        guard let record = try await records.blob(id) else { return }
        let isCertain = try await removeObjects(of: record, recorded: record)
        // Without the record, an object that appears later would be unknown.
        guard isCertain || completionTimeHasPassed(id) else {
            throw UploadError(
                .finishing,
                "The store may still be combining the object; the removal will be tried again."
            )
        }
        try await records.forgetBlob(id)
        uncertainRemovals.withLock { _ = $0.removeValue(forKey: id) }
    }

    /// Whether no object has appeared for so long that none will.
    private func completionTimeHasPassed(_ id: UploadID) -> Bool {
        let now = ContinuousClock.now
        let since = uncertainRemovals.withLock { uncertainRemovals in
            let since = uncertainRemovals[id] ?? now
            uncertainRemovals[id] = since
            return since
        }
        return now - since > Self.maximumCompletionTime
    }

    /// Longer than stores take to complete a multipart upload, and longer than Ceph keeps one locked after a failure
    /// (ten minutes).
    private static let maximumCompletionTime = Duration.seconds(15 * 60)

    /// Removes everything that the store has of a blob.
    ///
    /// - Parameters:
    ///   - record: The record as it was before the removal.
    ///   - current: The record as it is now.
    /// - Returns: `false` if the store may still make an object of the parts, because another process requested it.
    /// - Throws: `.interrupted` if another node changed the record meanwhile; failures of the store.
    @discardableResult
    private func removeObjects(
        of record: BlobRecord,
        recorded current: BlobRecord
    ) async throws(UploadError) -> Bool {
        if current.isBeginning { try await abortStrays(of: current) }
        let wasThere = try await convertingFailures { () async throws(S3Failure) -> Bool in
            var wasThere = false
            if let multipart = record.multipart, record.state != .complete {
                wasThere = try await client.abort(multipart, of: record.key, in: record.bucket)
            }
            for tail in record.tails { try await client.delete(tail.key, in: record.bucket) }
            return wasThere
        }
        if record.partSize == 0 {
            // Small parts, which no record of the storage names, and which other nodes may have received.
            let prefix = tailPrefix(of: record.id)
            _ = try await removeTails(withPrefix: prefix, in: record.bucket, from: .distantFuture, ended: record.id)
        }
        // An open multipart upload may have become an object, if the confirmation came too late to be recorded.
        guard record.state != .open || record.multipart == nil else { return true }
        return try await keyLocks.withLock(record) { () async throws(UploadError) -> Bool in
            var tag: String?
            if record.state != .complete || !record.hasKeyOfItsOwn {
                // A key that the app chose can belong to another upload's object by now.
                let head = try await convertingFailures { () async throws(S3Failure) in
                    try await client.head(record.key, in: record.bucket)
                }
                guard let head, record.owns(head) else { return record.state != .completing || wasThere }
                tag = head.entityTag
            }
            // Another node may have completed the blob meanwhile.
            try await checkUnchanged(current)
            let found = tag
            try await convertingFailures { () async throws(S3Failure) in
                try await client.delete(record.key, in: record.bucket, matching: found)
            }
            return true
        }
    }
}

extension BlobRecord {
    /// Whether the object at its key belongs to this blob: by the upload id in it or, in a store that keeps no
    /// metadata, by its entity tag.
    func owns(_ head: S3ObjectHead) -> Bool {
        // Another upload of the same bytes has the same entity tag.
        if let upload = head.upload { return upload == id.text }
        return state == .complete && entityTag.map { !$0.isEmpty && $0 == head.entityTag } ?? false
    }

    /// Whether no other upload can have the key.
    ///
    /// A key that the app chose can be used again.
    var hasKeyOfItsOwn: Bool { key.contains(id.text) }
}
