internal import Foundation
internal import UploadModel

extension UploadLifecycle {
    /// Completes an upload that has all its bytes.
    ///
    /// Requires the lease.
    ///
    /// - Parameters:
    ///   - upload: The upload, open, with its durable offset.
    ///   - digest: A digest of all its bytes, if one was verified while they arrived.
    ///   - isSynchronized: Whether the storage has done that with the last bytes.
    /// - Returns: The recorded upload; still open, with its length, if the storage takes longer to finish it than a
    ///   client should wait.
    /// - Throws: `.gone` if it has ended meanwhile; `.digestMismatch` and `.contentTypeRefused` (both end it);
    ///   `.conditionFailed` if the object's condition does not hold for its name; `.quotaExceeded`; `.unavailable` if a
    ///   hook cannot be reached; `.storageFull`, `.storageFailure`.
    func complete(
        _ upload: Upload,
        knowing digest: ExpectedDigest? = nil,
        isSynchronized: Bool = false
    ) async throws(UploadError) -> Upload {
        try context.checkWritable()
        let effectiveLimits = try await ledger.effectiveLimits(for: upload.accounts)
        do throws(UploadError) {
            if !isSynchronized {
                try await StorageUser.storing(for: upload.subject) { () async throws(UploadError) in
                    try await storage.synchronize(upload.id)
                }
            }
        } catch  where error.code == .finishing {
            return try await finishLater(upload, under: effectiveLimits)
        }
        try await checkContent(of: upload, under: effectiveLimits)
        let digests = try await verifiedDigests(of: upload, knowing: digest)
        try await hooks.willFinish(upload)
        let isPartial = upload.concatenation?.role == .partial
        var completed = completedRecord(of: upload)
        let condition = upload.attributes?.condition
        let name = completed.objectName
        let (isFirst, media, replaced) = try await withEdits(of: upload.id, name) {
            () async throws(UploadError) -> (Bool, Media, Upload?) in
            var isRepeated = false
            return try await repeating { () async throws(UploadError) -> (Bool, Media, Upload?) in
                // The metadata may have been changed while the bytes arrived, which is rare.
                if isRepeated, let recorded = try await state.upload(upload.id) {
                    completed.metadata = recorded.metadata
                }
                isRepeated = true
                let media = Media(of: completed, digests: digests)
                let replaced = try await replacedObject(by: completed, if: condition)
                let isFirst = try await state.complete(
                    completed,
                    as: isPartial ? nil : media,
                    replacing: replaced?.id,
                    under: effectiveLimits,
                    recording: [events.event(.completed, of: completed)]
                        + (replaced.map { [events.event(.terminated, of: $0)] } ?? [])
                )
                return (isFirst, media, replaced)
            }
        }
        guard isFirst else {
            guard let recorded = try await state.upload(upload.id), recorded.state == .completed else {
                throw UploadError.uploadEnded
            }
            return recorded
        }
        events.bell.ring()
        context.observer.observe(.completed(completed, isPartial ? nil : media))
        if let replaced {
            context.observer.observe(.terminated(replaced.id))
            await removeBytes(of: replaced.id)
        }
        return completed
    }

    /// The record of an upload that is complete with the bytes that it has.
    func completedRecord(of upload: Upload) -> Upload {
        var completed = upload
        completed.state = .completed
        completed.length = upload.offset
        completed.updatedAt = now
        completed.endedAt = completed.updatedAt
        let isPartial = upload.concatenation?.role == .partial
        completed.expiresAt =
            isPartial ? context.limits.lifetime.map { now.addingTimeInterval($0).wholeMilliseconds } : nil
        completed.reservedBytes = isPartial ? upload.offset : 0
        completed.attributes?.condition = nil
        completed.attributes?.completing = nil
        completed.attributes?.isChecksumUsual = nil
        completed.attributes?.isHeld = nil
        return completed
    }

    /// Runs `body` while no other task on this node changes the upload's metadata or the object with its name.
    func withEdits<Success>(
        of id: UploadID,
        _ name: ObjectName?,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        try await edits.withTurn(at: id) { () async throws(UploadError) -> Success in
            guard let name else { return try await body() }
            return try await names.withTurn(at: name, body)
        }
    }

    /// Repeats `body` while it fails because another node changed the metadata since they were read; in each round, one
    /// node succeeds.
    func repeating<Success>(
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        let deadline = ContinuousClock.now + context.limits.takeOverTimeout
        while true {
            do throws(UploadError) {
                return try await body()
            } catch  where error.code == .busy && ContinuousClock.now < deadline && !Task.isCancelled {
                // Random, so that the nodes do not collide again.
                try? await Task.sleep(for: .milliseconds(Int.random(in: 1...20)))
            }
        }
    }

    /// The object that an upload replaces, in its final state.
    func replacedObject(
        by upload: Upload,
        if condition: ObjectCondition?
    ) async throws(UploadError) -> Upload? {
        guard let name = upload.objectName else { return nil }
        let object = try await state.object(name)
        if let condition { try condition.check(object) }
        guard let object, var replaced = try await state.upload(object.id) else { return nil }
        replaced.state = .terminated
        replaced.updatedAt = now
        replaced.endedAt = replaced.updatedAt
        replaced.expiresAt = nil
        replaced.reservedBytes = 0
        return replaced
    }
}
