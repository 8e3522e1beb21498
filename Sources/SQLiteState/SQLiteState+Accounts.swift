package import Foundation
internal import GRDB
internal import StateRecords
package import UploadModel

extension SQLiteState {
    package func accounts(_ accounts: [Account]) async throws(UploadError) -> [Account: AccountRecord] {
        try await read { database in
            var records: [Account: AccountRecord] = [:]
            for account in accounts { records[account] = try database.account(account) }
            return records
        }
    }

    package func totals(of kind: Account.Kind) async throws(UploadError) -> UsageTotals {
        try await read { database in
            let row = try database.row(
                """
                SELECT coalesce(sum(open_uploads), 0) AS open_uploads, coalesce(sum(stored_bytes), 0) AS stored_bytes
                FROM account WHERE kind = ?
                """,
                [kind.rawValue]
            )
            return try row.map(UsageTotals.init(row:)) ?? UsageTotals()
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

    package func charge(
        _ changes: Accounting.Changes,
        createdAt creation: Date,
        under effectiveLimits: EffectiveLimits?
    ) async throws(UploadError) {
        try await write { [usages] database in
            try usages.charge(changes, createdAt: creation, under: effectiveLimits, in: database)
        }
    }
}

extension Database {
    /// `nil` for an account that was never used.
    func account(_ account: Account) throws -> AccountRecord? {
        try row(
            "SELECT * FROM account WHERE kind = ? AND name = ?",
            [account.kind.rawValue, account.name]
        ).map(AccountRecord.init(row:))
    }
}
