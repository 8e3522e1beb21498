/// Which uploads a termination ends; whether one is among them is decided with its lease, in the transaction that ends it.
package enum Terminable: Sendable {
    /// Open ones, and completed ones with their media.
    case any
    /// Open ones; what is complete by then stays as it is.
    case open
    /// Open ones, and completed parts of a final upload, which are no media.
    case allButMedia

    fileprivate func includes(_ upload: Upload) -> Bool {
        switch self {
        case .any: true
        case .open: upload.state == .open
        case .allButMedia: upload.state == .open || upload.concatenation?.role == .partial
        }
    }
}

extension UploadService {
    /// Ends an upload and removes its bytes and media; a running writer is stopped first.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - terminable: What may be ended.
    /// - Throws: `.notFound`, `.gone`, `.notOpen` for what is complete and is not to be ended then, `.busy`, `.rejected` by a
    ///   hook, `.unavailable` if it can not be asked, `.storageFailure`.
    package func terminate(_ id: UploadID, _ terminable: Terminable = .any) async throws(UploadError) {
        try await terminate(id, terminable, asking: true)
    }

    /// Ends an upload that has not become media.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - refusal: Thrown if it has; `nil` where media may be deleted, too.
    /// - Throws: As `terminate(_:_:)`.
    package func terminate(_ id: UploadID, unlessComplete refusal: UploadError?) async throws(UploadError) {
        guard let refusal else { return try await terminate(id) }
        do throws(UploadError) {
            try await terminate(id, .allButMedia)
        } catch  where error.code == .notOpen {
            throw refusal
        }
    }

    /// - Parameters:
    ///   - id: The upload.
    ///   - terminable: What may be ended.
    ///   - asking: The app is asked, and not only told.
    /// - Throws: As `terminate(_:_:)`.
    func terminate(_ id: UploadID, _ terminable: Terminable, asking: Bool) async throws(UploadError) {
        try await reporting(id) { () async throws(UploadError) in
            try checkWritable()
            try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                // What is created without bytes is completed without a lease.
                while true {
                    guard let upload = try await state.upload(id) else { throw Self.notFound }
                    guard upload.isAlive else { throw Self.gone }
                    if !terminable.includes(upload) { throw Self.completedMeanwhile }
                    do throws(UploadError) {
                        if isOver(upload) {
                            try await end(upload, as: .expired)
                            throw Self.gone
                        }
                        if asking { try await hooks.willTerminate(upload) }
                        return try await end(upload, as: .terminated)
                    } catch  where error.code == .notOpen && terminable != .open {
                        continue
                    }
                }
            }
        }
    }
}
