package import UploadModel

extension UploadService {
    /// Ends an upload that cannot be continued because its URL was never returned; if that fails, it expires later.
    ///
    /// The app is notified but not asked.
    ///
    /// The upload may have filled the disk, so that its end cannot be recorded: then its bytes are removed first. If
    /// the process dies between the two steps, an open upload without bytes remains, which expires like any other.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - terminable: What may be ended; `.open` where another request may have completed it, or it may be complete
    ///     although its client got no response.
    ///   - error: Why; an upload that a quota refused does not count in the period, as if its length had been known.
    package func discard(_ id: UploadID, _ terminable: Terminable = .any, after error: UploadError? = nil) async {
        do throws(UploadError) {
            do throws(UploadError) {
                try await terminate(id, terminable, asking: false)
            } catch  where error.code == .storageFull {
                try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                    let found = try await state.upload(id)?.state
                    guard found == .open || found == .completed && terminable == .any else { return }
                    try await storage.remove(id)
                }
                try await terminate(id, terminable, asking: false)
            }
            guard case .quotaExceeded = error?.code, let ended = try await state.upload(id) else { return }
            try await withdraw(ended)
        } catch {
            context.report(error, of: id)
        }
    }
}
