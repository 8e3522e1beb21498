internal import Foundation
internal import HTTPClient
internal import Signing
internal import Synchronization
package import UploadCore

/// How a blob becomes one object.
extension S3Storage {
    /// A completion that runs in this process, and how it ended.
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

        /// - Returns: `false` if it has not ended by then.
        func ends(within limit: Duration) async -> Bool {
            // Not a task group: that would wait for the completion as well.
            await withCheckedContinuation { continuation in
                let answer = Answer(continuation)
                let timer = Task {
                    try? await Task.sleep(for: limit)
                    if !Task.isCancelled { answer.give(false) }
                }
                Task { [task] in
                    _ = await task.value
                    timer.cancel()
                    answer.give(true)
                }
            }
        }

        private final class Answer: Sendable {
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
                try await keyTurns.take(record) { () async throws(UploadError) in try await complete(record) }
            }
            completions[id] = completion
            return (completion, true)
        }
        // Who finds one running need not wait as long again.
        guard await completion.ends(within: isNew ? settings.completionWait : .milliseconds(100)) else {
            throw UploadError(.finishing, "All bytes are stored; the store is still putting them together.")
        }
        try await completion.task.value.get()
    }

    private func complete(_ found: BlobRecord) async throws(UploadError) {
        var record = found
        if record.isBeginning { try await abortStrays(of: record) }
        if record.multipart == nil { return try await completeAsObject(record) }
        var parts = try await records.parts(of: record.id)
        if record.state == .open {
            var added: [BlobPart] = []
            let obsolete = record.sides
            if !record.sides.isEmpty {
                let last = try await part(record.partCount + 1, of: record.sides, in: record)
                record.partCount += 1
                record.partBytes += last.size
                record.sides = []
                added = [last]
                parts.append(last)
            }
            // Before the store is asked: whoever comes after a crash goes on from here.
            record.state = .completing
            record.version = try await records.update(record, adding: added, droppingFrom: nil)
            forget(obsolete, of: record)
        }
        if record.partSize == 0 {
            do throws(UploadError) {
                (record, parts) = try await joiningSmall(record, parts)
            } catch {
                // Somebody else who completes the blob may have been there first.
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
        record.entityTag = try await completeMultipart(record, parts)
        record.isBeginning = false
        record.state = .complete
        try await recordCompletion(record)
    }

    /// A blob of one part or less, and no multipart upload.
    private func completeAsObject(_ found: BlobRecord) async throws(UploadError) {
        var record = found
        let headers = objectHeaders(record)
        let obsolete = record.sides
        if obsolete.count == 1 {
            let (key, bucket) = (record.key, record.bucket)
            record.entityTag = try await asking { () async throws(S3Failure) in
                try await client.copy(obsolete[0].key, to: key, in: bucket, headers: headers)
            }
        } else {
            // Of the size of a part at most.
            record.entityTag = try await withMemory(for: obsolete) { () async throws(UploadError) in
                let bytes = try await bytes(of: obsolete, in: found)
                return try await asking { () async throws(S3Failure) in
                    try await client.put(found.key, in: found.bucket, bytes: bytes, headers: headers)
                }
            }
        }
        record.partBytes = record.length
        record.sides = []
        record.isBeginning = false
        record.state = .complete
        try await recordCompletion(record)
        forget(obsolete, of: record)
    }

    /// Two may complete the same blob, here and on another node, and both are right.
    private func recordCompletion(_ record: BlobRecord) async throws(UploadError) {
        do throws(UploadError) {
            _ = try await records.update(record, adding: [], droppingFrom: nil)
        } catch {
            guard let current = try await records.blob(record.id) else {
                // Removed by another node meanwhile, which may have seen no object yet.
                try await asking { () async throws(S3Failure) in
                    guard let head = try await client.head(record.key, in: record.bucket), record.owns(head) else {
                        return
                    }
                    try await client.delete(record.key, in: record.bucket, matching: head.entityTag)
                }
                throw UploadError(.notFound, "The blob was removed while it was put together.")
            }
            if current.state == .complete { return }
            throw error
        }
        // Small parts may have come to other nodes.
        if pristine.withLock({ $0.remove(record.id) }) != nil, record.partSize > 0 { return }
        // What a crash has left of an earlier append; nobody waits for this, and the sweep would find it too.
        tidy { [self] in
            let prefix = sidePrefix(of: record.id)
            _ = try? await removeSides(withPrefix: prefix, in: record.bucket, from: .distantFuture)
        }
    }

    /// Bytes of side objects as one part.
    ///
    /// - Parameters:
    ///   - number: Of the part.
    ///   - sides: In their order; of the size of a part together.
    ///   - record: Whose they are.
    /// - Returns: As the store confirmed it.
    /// - Throws: `.unavailable`, `.storageFailure`.
    func part(
        _ number: Int,
        of sides: [SideObject],
        in record: BlobRecord
    ) async throws(UploadError) -> BlobPart {
        if sides.count == 1, sides[0].length > 0 {
            let side = sides[0]
            do throws(S3Failure) {
                let tag = try await client.copyPart(
                    number,
                    of: record,
                    from: side.key,
                    in: record.bucket,
                    0..<side.length
                )
                if !settings.tagsAreDigests || EntityTagText.matches(tag, side.md5) {
                    return BlobPart(number: number, size: side.length, entityTag: tag)
                }
            } catch  where error.kind == .missing && error.code != "NoSuchUpload" {
                throw LostSide(side, "\(error)").uploadError
            } catch  where error.kind != .refused {
                throw error.uploadError
            } catch {
                // Not every store can copy into a part; then it is sent.
            }
        }
        // Nobody waits for this one alone.
        return try await withMemory(for: sides, within: .seconds(600)) { () async throws(UploadError) in
            let buffer = try await buffer(of: sides, in: record)
            let tag = try await Sending(part: number, buffer, record, self).entityTag()
            return BlobPart(number: number, size: buffer.length, entityTag: tag)
        }
    }

    /// Has the store make one object of the parts, or finds that it has.
    ///
    /// - Returns: The object's entity tag.
    private func completeMultipart(_ record: BlobRecord, _ parts: [BlobPart]) async throws(UploadError) -> String {
        do throws(S3Failure) {
            try await client.complete(record, parts)
        } catch {
            // It may have been done: by a request whose answer was lost, or by somebody else.
            if let head = try await object(of: record, parts) { return head.entityTag }
            switch error.code {
            case "InvalidPart", "InvalidPartOrder", "EntityTooSmall": try await repair(record, parts, error)
            case "NoSuchUpload", "NoSuchKey":
                throw UploadError(.storageFailure, "The store has lost the parts of this upload.", cause: error)
            default: break
            }
            throw error.uploadError
        }
        // The answer's tag may be empty; and what counts is what is there now.
        guard let head = try await object(of: record, parts) else {
            throw UploadError(.storageFailure, "The store made another object of the parts than it was told to.")
        }
        return head.entityTag
    }

    /// The object at the blob's key, if it is the blob.
    private func object(of record: BlobRecord, _ parts: [BlobPart]) async throws(UploadError) -> S3ObjectHead? {
        let head = try await asking { () async throws(S3Failure) in
            try await client.head(record.key, in: record.bucket)
        }
        guard let head, head.size == record.length else { return nil }
        // A store that keeps no metadata of multipart uploads tells by the tag.
        if head.upload == record.id.text { return head }
        return head.entityTag.contains(EntityTagText.ofMultipart(parts) ?? " ") ? head : nil
    }

    /// Finds out which parts the store has lost, and lets the upload go on before the first of them.
    ///
    /// - Throws: What its client is to be told.
    private func repair(_ found: BlobRecord, _ parts: [BlobPart], _ failure: S3Failure) async throws(UploadError) {
        let there = try await asking { () async throws(S3Failure) in try await client.parts(of: found) }
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
                "The store leaves no part out: all that were uploaded must be named.",
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
            "The store has lost bytes of this upload; ask for the offset and go on from there.",
            cause: failure
        )
    }
}
