extension UploadService {
    /// Ends an open upload with which nobody can go on, because nobody was told its URL; what is left if that fails expires.
    ///
    /// The app is told, but not asked. What was completed meanwhile stays.
    /// It may have filled the disk, so that its end can not be recorded: then the bytes go first. Should the process die between
    /// the two, an open upload without bytes remains, which expires like any other.
    package func discard(_ id: UploadID) async {
        do throws(UploadError) {
            do throws(UploadError) {
                try await terminate(id, .open, asking: false)
            } catch  where error.code == .storageFull {
                try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                    guard try await state.upload(id)?.state == .open else { return }
                    try await storage.remove(id)
                }
                try await terminate(id, .open, asking: false)
            }
        } catch {
            report(error, of: id)
        }
    }
}
