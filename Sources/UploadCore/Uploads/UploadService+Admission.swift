extension UploadService {
    /// Checks that an upload could be created now, for a client that asks before it sends anything; reserves nothing.
    ///
    /// - Throws: The errors of `create`, except those of hooks and one-time grants.
    package func checkAdmission(of new: NewUpload, under grant: Grant) async throws(UploadError) {
        try await context.reporting(nil) { () async throws(UploadError) in
            _ = try await checkedFiles([new], under: grant)
        }
    }

    /// Admits files whose bytes the client sends to a cloud: checks limits and quotas, then asks the app (pre-create).
    ///
    /// Records nothing, so these bytes never count. What the app would change about an upload is ignored.
    ///
    /// - Parameters:
    ///   - files: What the client wants to send together; quotas must have room for all of them.
    ///   - grant: What the client may upload; already checked for authenticity and expiry.
    /// - Throws: The errors of `create`, except those of one-time grants.
    package func admitElsewhere(_ files: [NewUpload], under grant: Grant) async throws(UploadError) {
        try await context.reporting(nil) { () async throws(UploadError) in
            for upload in try await checkedFiles(files, under: grant) { _ = try await hooks.willCreate(upload) }
        }
    }

    private func checkedFiles(_ files: [NewUpload], under grant: Grant) async throws(UploadError) -> [Upload] {
        try check(grant)
        let effectiveLimits = try await ledger.effectiveLimits(for: grant.accounts)
        var uploads: [Upload] = []
        for new in files { uploads.append(try await checkedUpload(new, under: grant, effectiveLimits)) }
        try await ledger.checkQuotas(of: uploads, for: grant.accounts, under: effectiveLimits)
        return uploads
    }
}
