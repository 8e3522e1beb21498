internal import Foundation
package import UploadModel

extension UploadService {
    /// Checks that an upload could be created now, for a client that asks before it sends anything; reserves nothing.
    ///
    /// - Throws: The errors of `create`, except those of hooks and one-time grants.
    package func checkAdmission(of new: NewUpload, under grant: Grant) async throws(UploadError) {
        try await context.reporting(nil) { () async throws(UploadError) in
            _ = try await checkedFiles([new], under: grant)
        }
    }

    /// Admits files whose bytes the client sends to a cloud: checks limits and quotas, asks the app (pre-create), and
    /// counts the files in the quotas of the period.
    ///
    /// What is stored or open at the cloud is unknown here and does not count. What the app would change about an upload
    /// is ignored.
    ///
    /// - Parameters:
    ///   - files: What the client wants to send together; quotas must have room for all of them.
    ///   - grant: What the client may upload; already checked for authenticity and expiry.
    ///   - isCounted: Whether the files count; `false` for those that were counted before.
    /// - Returns: What was counted, to be withdrawn if the cloud does not accept the files.
    /// - Throws: The errors of `create`, except those of one-time grants.
    package func admitElsewhere(
        _ files: [NewUpload],
        under grant: Grant,
        isCounted: Bool = true
    ) async throws(UploadError) -> ElsewhereAdmission {
        try await context.reporting(nil) { () async throws(UploadError) in
            let (uploads, effectiveLimits) = try await checkedFiles(files, under: grant)
            for upload in uploads { _ = try await hooks.willCreate(upload) }
            let admission = ElsewhereAdmission(
                changes: isCounted ? Accounting.sendingElsewhere(uploads) : [:],
                period: effectiveLimits.period,
                admittedAt: now
            )
            if isCounted {
                try await ledger.charge(admission.changes, createdAt: admission.admittedAt, under: effectiveLimits)
            }
            return admission
        }
    }

    /// Takes back what an admission counted, because no client can send the files.
    ///
    /// - Throws: `.storageFull`, `.storageFailure`; the files then count until the period ends.
    package func withdraw(_ admission: ElsewhereAdmission) async throws(UploadError) {
        let isOver = now >= admission.period.end
        if admission.changes.isEmpty || isOver { return }
        try await context.reporting(nil) { () async throws(UploadError) in
            let changes = admission.changes.mapValues(\.negated)
            try await ledger.charge(changes, createdAt: admission.admittedAt, under: nil)
        }
    }

    /// Takes back that an upload which was created here, and has ended, counts in the quotas of its period; bytes that it
    /// received still count.
    ///
    /// - Throws: `.storageFull`, `.storageFailure`; it then counts until the period ends.
    package func withdraw(_ upload: Upload) async throws(UploadError) {
        let period = try await ledger.effectiveLimits(for: upload.accounts).period
        // It counted in an earlier one.
        guard upload.createdAt >= period.start else { return }
        var counted = upload
        // Its end has given back the bytes.
        counted.reservedBytes = 0
        try await withdraw(
            ElsewhereAdmission(
                changes: Accounting.sendingElsewhere([counted]),
                period: period,
                admittedAt: upload.createdAt
            )
        )
    }

    private func checkedFiles(
        _ files: [NewUpload],
        under grant: Grant
    ) async throws(UploadError) -> ([Upload], EffectiveLimits) {
        try check(grant)
        let effectiveLimits = try await ledger.effectiveLimits(for: grant)
        var uploads: [Upload] = []
        for new in files { uploads.append(try await checkedUpload(new, under: grant, effectiveLimits)) }
        try await ledger.checkQuotas(of: uploads, for: grant.accounts, under: effectiveLimits)
        return (uploads, effectiveLimits)
    }
}

/// Files that were admitted for a cloud.
package struct ElsewhereAdmission: Sendable {
    /// Empty if nothing was counted.
    fileprivate let changes: Accounting.Changes
    fileprivate let period: QuotaPeriod
    fileprivate let admittedAt: Date
}
