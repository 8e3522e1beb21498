extension UploadService {
    /// Ends an upload with which nobody can go on, because nobody was told its URL; what is left if that fails expires.
    ///
    /// The app is told, but not asked.
    /// It may have filled the disk, so that its end can not be recorded: then the bytes go first. Should the process die between
    /// the two, an open upload without bytes remains, which expires like any other.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - terminable: What may be ended; `.open` where others may have completed it, or it may have been without an answer.
    package func discard(_ id: UploadID, _ terminable: Terminable = .any) async {
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
        } catch {
            report(error, of: id)
        }
    }
}
