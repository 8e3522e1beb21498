internal import Foundation

/// What an account may do, and does.
package struct QuotaReport: Sendable, Equatable {
    package var account: Account
    package var policy: Policy
    /// Whether the policy is its own, and not that of its kind.
    package var hasOwnPolicy: Bool
    package var usage: Usage
    package var period: QuotaPeriod
}

extension UploadService {
    /// What an account may do, and does; one that never did anything uses nothing.
    ///
    /// - Throws: `.storageFailure`.
    package func quota(of account: Account) async throws(UploadError) -> QuotaReport {
        try await reporting(nil) { () async throws(UploadError) -> QuotaReport in
            let period = QuotaPeriod(around: now, length: limits.quotaPeriod)
            let record = try await state.accounts([account])[account]
            return QuotaReport(
                account: account,
                policy: policies.policy(of: account, record),
                hasOwnPolicy: record?.policy != nil,
                usage: (record?.usage ?? Usage(periodStart: period.start)).rolled(to: period),
                period: period
            )
        }
    }

    /// Gives an account a policy of its own, which stands for the whole of its kind's; `nil` takes it away.
    ///
    /// - Throws: `.storageFull`, `.storageFailure`.
    package func setPolicy(_ policy: Policy?, of account: Account) async throws(UploadError) {
        try await reporting(nil) { () async throws(UploadError) in
            try checkWritable()
            let period = QuotaPeriod(around: now, length: limits.quotaPeriod)
            try await state.setPolicy(policy, of: account, at: period.start)
            policies.forget(account)
        }
    }

    func terms(for accounts: [Account]) async throws(UploadError) -> QuotaTerms {
        QuotaTerms(
            policies: try await policies.policies(of: accounts),
            period: QuotaPeriod(around: now, length: limits.quotaPeriod)
        )
    }

    /// Reserves bytes for an upload whose length is not known, before they are read.
    ///
    /// - Parameters:
    ///   - bytes: What it is to have room for, from its first byte on.
    ///   - upload: Open.
    ///   - terms: Of its accounts.
    ///   - isWhole: All of them or none; else as many as there are left, but at least one more than it has.
    /// - Returns: The upload with what it has reserved.
    /// - Throws: `.quotaExceeded`, `.gone`, `.storageFailure`.
    func reserve(
        _ bytes: Int64,
        for upload: Upload,
        under terms: QuotaTerms,
        isWhole: Bool
    ) async throws(UploadError) -> Upload {
        var upload = upload
        var bytes = bytes
        while true {
            do throws(UploadError) {
                guard try await state.reserve(bytes, for: upload.id, under: terms) else { throw Self.gone }
                upload.reservedBytes = bytes
                return upload
            } catch {
                // Others may take what is left between two attempts; each is smaller than the one before.
                guard !isWhole, case .quotaExceeded(let refusal) = error.code else { throw error }
                let possible = upload.reservedBytes.adding(refusal.left)
                guard possible > upload.offset, possible < bytes else { throw error }
                bytes = possible
            }
        }
    }
}

extension QuotaTerms {
    /// Whether bytes are limited at all.
    var limitsBytes: Bool { policies.values.contains { $0.storedBytes != nil || $0.periodBytes != nil } }

    /// The bytes of one upload that its accounts allow.
    var uploadBytes: Int64? { policies.values.compactMap(\.uploadBytes).min() }
}
