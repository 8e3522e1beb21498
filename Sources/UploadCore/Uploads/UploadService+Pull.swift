package import UploadModel

/// Operations that only pulls need.
extension UploadService {
    /// Removes all bytes of an open upload, because the following bytes belong to other content.
    ///
    /// - Throws: `.notFound`, `.gone`, `.notOpen`, `.busy`, `.storageFailure`.
    func restart(_ id: UploadID) async throws(UploadError) {
        try await context.reporting(id) { () async throws(UploadError) in
            try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                let upload = try await lifecycle.reconciled(id)
                guard upload.state == .open else { throw UploadError(.notOpen, "The upload is complete.") }
                try await storage.empty(id)
            }
        }
    }

    /// The recorded state of an upload, or `nil`.
    package func state(of id: UploadID) async throws(UploadError) -> Upload.State? { try await state.upload(id)?.state }

    /// Checks and records facts about an open upload that become known only now.
    ///
    /// - Throws: `.contentTypeRefused` if a policy of its accounts does not allow them; `.storageFull`,
    ///   `.storageFailure`.
    func describe(
        _ upload: Upload,
        as metadata: UploadMetadata,
        contentTypes: [String],
        otherwise type: String? = nil
    ) async throws(UploadError) {
        try await context.reporting(upload.id) { () async throws(UploadError) in
            if !contentTypes.isEmpty { try MediaTypePattern.check(metadata.contentType ?? type, against: contentTypes) }
            for policy in try await ledger.effectiveLimits(for: upload.accounts).policies.values {
                try policy.check(metadata)
            }
            if upload.metadata == metadata { return }
            _ = try await setMetadata(metadata, of: upload.id)
        }
    }
}
