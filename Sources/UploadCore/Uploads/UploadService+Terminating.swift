package import UploadModel

/// Which uploads a termination may end; checked under the lease, in the transaction that ends the upload.
package enum Terminable: Sendable {
    /// Open uploads, and completed ones with their media.
    case any
    /// Open uploads only; an upload that is complete by then is unchanged.
    case open
    /// Open uploads, and completed parts of a final upload, which are no media.
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
    /// Ends an upload and removes its bytes and media; stops a running writer first.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - terminable: What may be ended.
    /// - Throws: `.notFound`, `.gone`, `.notOpen` for a complete upload that must not be ended, `.busy`, `.rejected` by
    ///   a hook, `.unavailable` if the hook cannot be reached, `.storageFailure`.
    package func terminate(_ id: UploadID, _ terminable: Terminable = .any) async throws(UploadError) {
        try await terminate(id, terminable, asking: true)
    }

    /// Ends an upload unless it has become media.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - refusal: Thrown if it has; `nil` allows deleting media too.
    /// - Throws: The same errors as `terminate(_:_:)`.
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
    ///   - asking: Whether the app is asked, and not only notified.
    /// - Throws: The same errors as `terminate(_:_:)`.
    func terminate(_ id: UploadID, _ terminable: Terminable, asking: Bool) async throws(UploadError) {
        try await context.reporting(id) { () async throws(UploadError) in
            try context.checkWritable()
            try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                // An upload created without bytes is completed without a lease.
                while true {
                    guard let upload = try await state.upload(id) else { throw UploadError.noUpload }
                    RequestMeter.note(key: upload.issuer, subject: upload.subject)
                    guard upload.isAlive else { throw UploadError.uploadEnded }
                    if !terminable.includes(upload) { throw UploadError.completedMeanwhile }
                    do throws(UploadError) {
                        if lifecycle.isOver(upload) {
                            try await lifecycle.end(upload, as: .expired)
                            throw UploadError.uploadEnded
                        }
                        if asking { try await hooks.willTerminate(upload) }
                        return try await lifecycle.end(upload, as: .terminated)
                    } catch  where error.code == .notOpen && terminable != .open {
                        continue
                    }
                }
            }
        }
    }
}
