internal import Foundation
internal import HTTPClient
internal import Signing
internal import Synchronization
package import UploadModel

/// Combining the parts of a blob into one object.
extension S3Storage {
    /// A completion that runs in this process, and its result.
    final class Completion: Sendable {
        let task: Task<Result<Void, UploadError>, Never>

        init(_ work: @escaping @Sendable () async throws(UploadError) -> Void) {
            task = Task {
                do throws(UploadError) {
                    try await work()
                    return .success(())
                } catch {
                    return .failure(error)
                }
            }
        }

        /// - Returns: `false` if it has not ended within the limit.
        func finishes(within limit: Duration) async -> Bool {
            // Not a task group: it would wait for the completion, too.
            await withCheckedContinuation { continuation in
                let response = Waiter(continuation)
                let timer = Task {
                    try? await Task.sleep(for: limit)
                    if !Task.isCancelled { response.give(false) }
                }
                Task { [task] in
                    _ = await task.value
                    timer.cancel()
                    response.give(true)
                }
            }
        }

        private final class Waiter: Sendable {
            private let continuation: Mutex<CheckedContinuation<Bool, Never>?>

            init(_ continuation: CheckedContinuation<Bool, Never>) { self.continuation = Mutex(continuation) }

            func give(_ value: Bool) {
                continuation.withLock { $0.take() }?.resume(returning: value)
            }
        }
    }

    package func synchronize(_ id: UploadID) async throws(UploadError) {
        let record = try await record(of: id)
        if record.state == .complete { return }
        let (completion, isNew) = completions.withLock { completions in
            if let running = completions[id] { return (running, false) }
            let completion = Completion { [self] () async throws(UploadError) in
                defer { self.completions.withLock { _ = $0.removeValue(forKey: id) } }
                try await keyLocks.withLock(record) { () async throws(UploadError) in try await complete(record) }
            }
            completions[id] = completion
            return (completion, true)
        }
        // A request that finds a running completion need not wait as long again.
        guard await completion.finishes(within: isNew ? settings.completionWait : .milliseconds(100)) else {
            throw UploadError(.finishing, "All bytes are stored; the store is still combining them.")
        }
        try await completion.task.value.get()
    }

    private func complete(_ found: BlobRecord) async throws(UploadError) {
        var record = found
        let isFirst = found.state == .open || joins.withLock { $0.remove(found.id) } != nil
        if record.isBeginning { try await abortStrays(of: record) }
        if record.multipart == nil { return try await completeAsObject(record) }
        var parts = try await records.parts(of: record.id)
        if record.state == .open {
            var added: [BlobPart] = []
            let obsolete = record.tails
            if !record.tails.isEmpty {
                let last = try await part(record.partCount + 1, of: record.tails, in: record)
                record.partCount += 1
                record.partBytes += last.size
                record.tails = []
                added = [last]
                parts.append(last)
            }
            // Recorded before the request, so that a restart after a crash resumes the completion.
            record.state = .completing
            record.version = try await records.update(record, adding: added, droppingFrom: nil)
            removeInBackground(obsolete, of: record)
        }
        if record.partSize == 0 {
            do throws(UploadError) {
                (record, parts) = try await combiningSmallParts(record, parts)
            } catch {
                // Another node that completes the blob may have been faster.
                (record, parts) = (try await self.record(of: record.id), try await records.parts(of: record.id))
                if record.state == .complete { return }
                guard record.state == .completing,
                    !parts.contains(where: { SmallPart(location: $0.entityTag) != nil })
                else {
                    try await reopen(record, parts, after: error)
                    throw error
                }
            }
        }
        record.entityTag = try await completeMultipart(record, parts, isFirst: isFirst)
        record.isBeginning = false
        record.state = .complete
        try await recordCompletion(record)
    }

    /// Completes a blob of at most one part, without a multipart upload.
    private func completeAsObject(_ found: BlobRecord) async throws(UploadError) {
        var record = found
        let headers = objectHeaders(record)
        let obsolete = record.tails
        if obsolete.count == 1 {
            let (key, bucket) = (record.key, record.bucket)
            record.entityTag = try await convertingFailures { () async throws(S3Failure) in
                try await client.copy(obsolete[0].key, to: key, in: bucket, headers: headers)
            }
        } else {
            // At most the size of a part.
            record.entityTag = try await withMemory(for: obsolete) { () async throws(UploadError) in
                let bytes = try await bytes(of: obsolete, in: found)
                return try await convertingFailures { () async throws(S3Failure) in
                    try await client.put(found.key, in: found.bucket, bytes: bytes, headers: headers)
                }
            }
        }
        record.partBytes = record.length
        record.tails = []
        record.isBeginning = false
        record.state = .complete
        try await recordCompletion(record)
        removeInBackground(obsolete, of: record)
    }

    /// Two nodes can complete the same blob at the same time; both results are correct.
    private func recordCompletion(_ record: BlobRecord) async throws(UploadError) {
        do throws(UploadError) {
            _ = try await records.update(record, adding: [], droppingFrom: nil)
        } catch {
            guard let current = try await records.blob(record.id) else {
                // Another node has removed the blob meanwhile, perhaps before the object existed.
                try await convertingFailures { () async throws(S3Failure) in
                    guard let head = try await client.head(record.key, in: record.bucket), record.owns(head) else {
                        return
                    }
                    try await client.delete(record.key, in: record.bucket, matching: head.entityTag)
                }
                throw UploadError(.notFound, "The blob was removed while it was being completed.")
            }
            if current.state == .complete { return }
            throw error
        }
        // Other nodes may have received small parts.
        if pristine.withLock({ $0.remove(record.id) }) != nil, record.partSize > 0 { return }
        // Tail objects of an earlier append that crashed. Nothing waits for their removal, and the sweep would find
        // them, too.
        inBackground { [self] in
            let prefix = tailPrefix(of: record.id)
            _ = try? await removeTails(withPrefix: prefix, in: record.bucket, from: .distantFuture)
        }
    }

    /// Uploads the bytes of tail objects as one part.
    ///
    /// - Parameters:
    ///   - number: Part number.
    ///   - tails: In order; together at most as large as a part.
    ///   - record: The blob.
    ///   - limit: Maximum time to wait for memory; long, because the store goes on with a completion without its client.
    /// - Returns: The part as the store confirmed it.
    /// - Throws: `.unavailable`, `.storageFailure`.
    func part(
        _ number: Int,
        of tails: [TailObject],
        in record: BlobRecord,
        within limit: Duration = .seconds(600)
    ) async throws(UploadError) -> BlobPart {
        if tails.count == 1, tails[0].length > 0 {
            let tail = tails[0]
            do throws(S3Failure) {
                let tag = try await client.copyPart(
                    number,
                    of: record,
                    from: tail.key,
                    in: record.bucket,
                    0..<tail.length
                )
                if !settings.tagsAreDigests || EntityTagText.matches(tag, tail.md5) {
                    return BlobPart(number: number, size: tail.length, entityTag: tag)
                }
            } catch  where error.kind == .missing && error.code != "NoSuchUpload" {
                throw LostTail(tail, "\(error)").uploadError
            } catch  where error.kind != .refused {
                throw error.uploadError
            } catch {
                // Not every store can copy into a part; in that case the bytes are sent.
            }
        }
        return try await withMemory(for: tails, within: limit) { () async throws(UploadError) in
            let buffer = try await buffer(of: tails, in: record)
            let tag = try await PartUpload(part: number, buffer, record, self).entityTag()
            return BlobPart(number: number, size: buffer.length, entityTag: tag)
        }
    }

    /// Lets the store combine the parts into one object, or finds the object if that is already done.
    ///
    /// - Parameters:
    ///   - record: The blob.
    ///   - parts: All parts, in order.
    ///   - isFirst: Whether nobody can have asked for that before.
    /// - Returns: The object's entity tag.
    /// - Throws: `.unavailable`, `.storageFailure`.
    private func completeMultipart(
        _ record: BlobRecord,
        _ parts: [BlobPart],
        isFirst: Bool
    ) async throws(UploadError) -> String {
        // What was begun before a crash may be done; asking again could destroy it (see `S3Client.complete`).
        if !isFirst, let head = try await object(of: record, parts) { return head.entityTag }
        do throws(S3Failure) {
            try await client.complete(record, parts) { () async throws(S3Failure) in
                try await head(of: record, parts) != nil
            }
        } catch {
            // It may exist already: the response was lost, or another node completed the blob.
            if let head = try await object(of: record, parts) { return head.entityTag }
            switch error.code {
            case "InvalidPart", "InvalidPartOrder", "EntityTooSmall": try await repair(record, parts, error)
            case "NoSuchUpload", "NoSuchKey":
                throw UploadError(
                    .storageFailure,
                    "The store has lost the parts of this upload; start a new one.",
                    cause: error
                )
            default: break
            }
            throw error.uploadError
        }
        // The tag in the response may be empty, and the object that exists now is what counts.
        guard let head = try await object(of: record, parts) else {
            throw UploadError(.storageFailure, "The store combined the parts into a different object than requested.")
        }
        return head.entityTag
    }

    /// The object at the blob's key, if it belongs to the blob.
    private func object(of record: BlobRecord, _ parts: [BlobPart]) async throws(UploadError) -> S3ObjectHead? {
        try await convertingFailures { () async throws(S3Failure) in try await head(of: record, parts) }
    }

    private func head(of record: BlobRecord, _ parts: [BlobPart]) async throws(S3Failure) -> S3ObjectHead? {
        let head = try await client.head(record.key, in: record.bucket)
        guard let head, head.size == record.length else { return nil }
        // A store that does not keep metadata of multipart uploads is recognised by the tag.
        if head.upload == record.id.text { return head }
        return head.entityTag.contains(EntityTagText.ofMultipart(parts) ?? " ") ? head : nil
    }

    /// Finds out which parts the store has lost, and lets the upload continue before the first of them.
    ///
    /// - Throws: The error for the client.
    private func repair(_ found: BlobRecord, _ parts: [BlobPart], _ failure: S3Failure) async throws(UploadError) {
        let there = try await convertingFailures { () async throws(S3Failure) in try await client.parts(of: found) }
        let byNumber = Dictionary(there.map { ($0.number, $0) }) { $1 }
        let good = parts.prefix { part in
            guard let stored = byNumber[part.number], stored.size == part.size else { return false }
            return EntityTagText.digest(stored.entityTag) == EntityTagText.digest(part.entityTag)
        }
        if good.count == parts.count, found.partSize == 0, there.count > parts.count {
            var record = found
            record.state = .open
            _ = try await records.update(record, adding: [], droppingFrom: 1)
            throw UploadError(
                .invalidParts(.unnamed),
                "The store does not allow parts to be left out: list all uploaded parts.",
                cause: failure
            )
        }
        guard good.count < parts.count else { return }
        var record = found
        record.state = .open
        record.partCount = good.count
        record.partBytes = good.reduce(0) { $0 + $1.size }
        record.crc32c = nil
        _ = try await records.update(record, adding: [], droppingFrom: good.count + 1)
        throw UploadError(
            .unavailable,
            "The store has lost bytes of this upload; read the offset and resume from there.",
            cause: failure
        )
    }
}
