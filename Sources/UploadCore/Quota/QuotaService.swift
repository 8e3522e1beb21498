internal import Foundation
package import UploadModel

/// The policy and usage of an account.
package struct QuotaReport: Sendable, Equatable {
    package var account: Account
    package var policy: Policy
    /// Whether the account has its own policy instead of that of its kind.
    package var hasOwnPolicy: Bool
    package var usage: Usage
    package var period: QuotaPeriod
}

/// Reports the usage of accounts, and sets the policies that limit them.
package final class QuotaService: Sendable {
    private let context: ServiceContext
    private let state: any AccountRecords
    private let policies: PolicyCache

    init(_ context: ServiceContext, state: any AccountRecords, policies: PolicyCache) {
        self.context = context
        self.state = state
        self.policies = policies
    }

    /// The policy and usage of an account; an unused account has zero usage.
    ///
    /// - Throws: `.storageFailure`.
    package func quota(of account: Account) async throws(UploadError) -> QuotaReport {
        try await context.reporting(nil) { () async throws(UploadError) -> QuotaReport in
            let period = QuotaPeriod(around: context.now, length: context.limits.quotaPeriod)
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

    /// Sets the policies of accounts without their own, by kind, for all requests that begin now.
    package func replaceDefaults(_ policies: [Account.Kind: Policy]) { self.policies.replaceDefaults(policies) }

    /// Sets an account's own policy, which replaces that of its kind entirely; `nil` removes it.
    ///
    /// - Throws: `.storageFull`, `.storageFailure`.
    package func setPolicy(_ policy: Policy?, of account: Account) async throws(UploadError) {
        try await context.reporting(nil) { () async throws(UploadError) in
            try context.checkWritable()
            let period = QuotaPeriod(around: context.now, length: context.limits.quotaPeriod)
            try await state.setPolicy(policy, of: account, at: period.start)
            policies.forget(account)
        }
    }
}
