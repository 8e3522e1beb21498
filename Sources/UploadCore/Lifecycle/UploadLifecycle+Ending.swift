internal import Synchronization
internal import UploadModel

extension UploadLifecycle {
    /// Ends an upload: first the record, then the bytes; if removing the bytes fails, the sweep does it.
    ///
    /// Requires the lease.
    ///
    /// - Parameters:
    ///   - upload: The recorded upload.
    ///   - reason: `terminated` or `expired`.
    /// - Throws: `.gone` if it has already ended; `.notOpen` if `upload` is open but was completed meanwhile.
    func end(_ upload: Upload, as reason: Upload.State) async throws(UploadError) {
        try context.checkWritable()
        let id = upload.id
        var ended = upload
        if upload.state == .open { ended.offset = (try? await receivedBytes(of: upload)) ?? 0 }
        let received = ended.offset
        ended.state = reason
        ended.updatedAt = now
        ended.endedAt = ended.updatedAt
        ended.expiresAt = nil
        ended.reservedBytes = 0
        let isFirst = try await state.end(
            id,
            from: upload.state,
            as: reason,
            at: ended.updatedAt,
            received: received,
            recording: events.event(reason == .expired ? .expired : .terminated, of: ended)
        )
        guard isFirst else {
            if upload.state == .open, try await state.upload(id)?.state == .completed {
                throw UploadError.completedMeanwhile
            }
            throw UploadError.uploadEnded
        }
        events.bell.ring()
        context.observer.observe(reason == .expired ? .expired(id) : .terminated(id))
        await removeBytes(of: id)
    }

    /// Removes bytes that are no longer needed; if that fails, or the storage is still finishing them, the sweep does
    /// it.
    ///
    /// - Returns: Whether they were removed.
    @discardableResult
    func removeBytes(of id: UploadID) async -> Bool {
        do throws(UploadError) {
            try await storage.remove(id)
            unremoved.withLock { _ = $0.remove(id) }
            return true
        } catch {
            unremoved.withLock { _ = $0.insert(id) }
            context.report(error, of: id)
            return false
        }
    }

    /// Ended uploads whose bytes could not be removed.
    var unremovedUploads: Set<UploadID> { unremoved.withLock { $0 } }

    /// Records that the bytes of an ended upload have been removed.
    func noteRemoved(_ id: UploadID) { unremoved.withLock { _ = $0.remove(id) } }
}
