internal import Foundation
internal import GRDB
internal import StateRecords
internal import Synchronization
internal import UploadModel

/// The usage of accounts that the running transaction has changed, written once before its commit.
///
/// Under load, many uploads of one account share a transaction; its row is then read once and written once. Limits are checked
/// for each upload, against a usage that includes all earlier ones.
///
/// Only the writer lane begins and ends transactions, so this belongs to one at a time.
final class PendingUsages: Sendable {
    /// The usages at some point of the transaction.
    struct Mark: Sendable {
        fileprivate let usages: [Account: Usage]
    }

    private let usages = Mutex<[Account: Usage]>([:])

    /// Changes the usage of accounts.
    ///
    /// - Parameters:
    ///   - steps: By account; several are made in order, and limits apply after each.
    ///   - creation: When the upload that causes the changes was created.
    ///   - effectiveLimits: The limits of the accounts; `nil` if the changes only reduce usage.
    ///   - database: In a transaction of the lane.
    /// - Throws: `UploadError` `.quotaExceeded`; the work must then be undone.
    func charge(
        _ steps: [Accounting.Changes],
        createdAt creation: Date,
        under effectiveLimits: EffectiveLimits?,
        in database: Database
    ) throws {
        for account in Accounting.accounts(changedBy: steps) {
            var known = usages.withLock { $0[account] }
            if known == nil { known = try database.account(account)?.usage }
            let usage = try EffectiveLimits.usage(
                of: account,
                known ?? Usage(periodStart: effectiveLimits?.period.start ?? creation),
                adding: steps,
                createdAt: creation,
                under: effectiveLimits
            )
            usages.withLock { $0[account] = usage }
        }
    }

    /// Changes the usage of accounts in one step.
    func charge(
        _ changes: Accounting.Changes,
        createdAt creation: Date,
        under effectiveLimits: EffectiveLimits?,
        in database: Database
    ) throws {
        try charge([changes], createdAt: creation, under: effectiveLimits, in: database)
    }

    /// The present usages, to which a savepoint can return.
    var mark: Mark { Mark(usages: usages.withLock { $0 }) }

    /// Undoes what was charged since a mark.
    func roll(back mark: Mark) { usages.withLock { $0 = mark.usages } }

    /// Writes the rows; the transaction must be committed or rolled back next.
    func write(to database: Database) throws {
        for (account, usage) in takeAll() {
            try database.run(
                """
                INSERT INTO account (stored_bytes, reserved_bytes, open_uploads, period_start, period_bytes,
                    period_uploads, kind, name)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (kind, name) DO UPDATE SET stored_bytes = excluded.stored_bytes,
                    reserved_bytes = excluded.reserved_bytes, open_uploads = excluded.open_uploads,
                    period_start = excluded.period_start, period_bytes = excluded.period_bytes,
                    period_uploads = excluded.period_uploads
                """,
                [
                    usage.storedBytes, usage.reservedBytes, usage.openUploads, Milliseconds(usage.periodStart),
                    usage.periodBytes, usage.periodUploads, account.kind.rawValue, account.name,
                ]
            )
        }
    }

    /// Forgets what the transaction changed, because it is rolled back.
    func discard() { _ = takeAll() }

    private func takeAll() -> [Account: Usage] {
        usages.withLock { usages in
            defer { usages.removeAll(keepingCapacity: true) }
            return usages
        }
    }
}
