package import Foundation
internal import GRDB
internal import StateRecords
package import UploadCore

extension SQLiteState {
    package func accounts(_ accounts: [Account]) async throws(UploadError) -> [Account: AccountRecord] {
        try await read { database in
            var records: [Account: AccountRecord] = [:]
            for account in accounts { records[account] = try database.account(account) }
            return records
        }
    }

    package func setPolicy(_ policy: Policy?, of account: Account, at now: Date) async throws(UploadError) {
        try await write { database in
            try database.run(
                """
                INSERT INTO account (kind, name, period_start, policy) VALUES (?, ?, ?, ?)
                ON CONFLICT (kind, name) DO UPDATE SET policy = excluded.policy
                """,
                [account.kind.rawValue, account.name, Milliseconds(now), try policy.map { try JSONText($0) }]
            )
        }
    }
}

extension Database {
    /// Changes the usage of accounts in one step.
    func charge(_ changes: Accounting.Changes, createdAt creation: Date, under effectiveLimits: EffectiveLimits?) throws
    {
        try charge([changes], createdAt: creation, under: effectiveLimits)
    }

    /// `nil` for an account that was never used.
    func account(_ account: Account) throws -> AccountRecord? {
        try row(
            "SELECT * FROM account WHERE kind = ? AND name = ?",
            [account.kind.rawValue, account.name]
        ).map(AccountRecord.init(row:))
    }

    /// Changes the usage of accounts.
    ///
    /// - Parameters:
    ///   - steps: By account; several are made in order, and limits apply after each.
    ///   - creation: When the upload that causes the changes was created.
    ///   - effectiveLimits: The limits of the accounts; `nil` if the changes only reduce usage.
    /// - Throws: `UploadError` `.quotaExceeded`, which rolls the transaction back.
    func charge(
        _ steps: [Accounting.Changes],
        createdAt creation: Date,
        under effectiveLimits: EffectiveLimits?
    ) throws {
        for account in Accounting.accounts(changedBy: steps) {
            let known = try self.account(account)?.usage
            let usage = try EffectiveLimits.usage(
                of: account,
                known ?? Usage(periodStart: effectiveLimits?.period.start ?? creation),
                adding: steps,
                createdAt: creation,
                under: effectiveLimits
            )
            try run(
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
}
