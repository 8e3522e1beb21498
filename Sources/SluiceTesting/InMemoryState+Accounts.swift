package import Foundation
internal import Synchronization
package import UploadModel

extension InMemoryState {
    package func accounts(_ accounts: [Account]) async throws(UploadError) -> [Account: AccountRecord] {
        tables.withLock { tables in tables.accounts.filter { accounts.contains($0.key) } }
    }

    package func totals(of kind: Account.Kind) async throws(UploadError) -> UsageTotals {
        tables.withLock { tables in
            tables.accounts.filter { $0.key.kind == kind }.values.reduce(into: UsageTotals()) { totals, record in
                totals.openUploads += record.usage.openUploads
                totals.storedBytes += record.usage.storedBytes
            }
        }
    }

    package func setPolicy(_ policy: Policy?, of account: Account, at now: Date) async throws(UploadError) {
        tables.withLock { tables in
            var record = tables.accounts[account] ?? AccountRecord(usage: Usage(periodStart: now), policy: nil)
            record.policy = policy
            tables.accounts[account] = record
        }
    }

    package func charge(
        _ changes: Accounting.Changes,
        createdAt creation: Date,
        under effectiveLimits: EffectiveLimits?
    ) async throws(UploadError) {
        try transaction { tables throws(UploadError) in
            try tables.charge(changes, createdAt: creation, under: effectiveLimits)
        }
    }
}
