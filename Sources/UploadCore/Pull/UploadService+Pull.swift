/// What fetching needs beyond what clients do with an upload.
extension UploadService {
    /// Takes all bytes of an open upload back, because those that follow are not theirs.
    ///
    /// - Throws: `.notFound`, `.gone`, `.notOpen`, `.busy`, `.storageFailure`.
    func restart(_ id: UploadID) async throws(UploadError) {
        try await reporting(id) { () async throws(UploadError) in
            try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                let upload = try await settled(id)
                guard upload.state == .open else { throw UploadError(.notOpen, "The upload is complete.") }
                try await storage.empty(id)
            }
        }
    }

    /// Checks and records what is known only now about an open upload.
    ///
    /// - Throws: `.contentTypeRefused` where a policy of its accounts does not admit it; `.storageFull`, `.storageFailure`.
    func describe(
        _ upload: Upload,
        as metadata: UploadMetadata,
        contentTypes: [String]
    ) async throws(UploadError) {
        try await reporting(upload.id) { () async throws(UploadError) in
            if !contentTypes.isEmpty { try MediaTypePattern.check(metadata.contentType, against: contentTypes) }
            for policy in try await terms(for: upload.accounts).policies.values { try policy.check(metadata) }
            if upload.metadata == metadata { return }
            _ = try await setMetadata(metadata, of: upload.id)
        }
    }
}
