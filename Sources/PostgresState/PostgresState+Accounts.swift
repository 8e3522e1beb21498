package import Foundation
internal import StateRecords
package import UploadCore

extension PostgresState {
    package func accounts(_ accounts: [Account]) async throws(UploadError) -> [Account: AccountRecord] {
        try await read { connection in
            try connection.accounts(accounts, Self.columns, order: "")
        }
    }

    package func setPolicy(_ policy: Policy?, of account: Account, at now: Date) async throws(UploadError) {
        try await write { connection in
            try connection.run(
                """
                INSERT INTO account (kind, name, period_start, policy) VALUES ($1, $2, $3, $4)
                ON CONFLICT (kind, name) DO UPDATE SET policy = excluded.policy
                """,
                [account.kind.rawValue, account.name, Milliseconds(now), try policy.map { try JSONText($0) }]
            )
        }
    }

    fileprivate static let columns = """
        kind, name, stored_bytes, reserved_bytes, open_uploads, period_start, period_bytes, period_uploads, policy
        """
}

extension Connection {
    /// Changes the usage of accounts in one step.
    func charge(_ changes: Accounting.Changes, createdAt creation: Date, under effectiveLimits: EffectiveLimits?) throws
    {
        try charge([changes], createdAt: creation, under: effectiveLimits)
    }

    /// Changes the usage of accounts; locks their rows, ordered by kind and name, until the transaction ends.
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
        let changed = Accounting.accounts(changedBy: steps).sorted {
            ($0.kind.rawValue, $0.name) < ($1.kind.rawValue, $1.name)
        }
        if changed.isEmpty { return }
        // Insert all rows first, then lock all. If each were locked as it is inserted, two transactions could deadlock.
        try run(
            """
            INSERT INTO account (kind, name, period_start)
            SELECT kind, name, $3::bigint
            FROM unnest($1::text[], $2::text[]) AS wanted (kind, name)
            ORDER BY kind COLLATE "C", name COLLATE "C"
            ON CONFLICT (kind, name) DO NOTHING
            """,
            Self.names(changed) + [Milliseconds(effectiveLimits?.period.start ?? creation)]
        )
        let known = try accounts(changed, PostgresState.columns, order: "ORDER BY kind, name FOR UPDATE")
        for account in changed {
            guard let before = known[account]?.usage else {
                throw UnreadableRecord(table: "account", column: "name")
            }
            let usage = try EffectiveLimits.usage(
                of: account,
                before,
                adding: steps,
                createdAt: creation,
                under: effectiveLimits
            )
            try run(
                """
                UPDATE account SET stored_bytes = $3, reserved_bytes = $4, open_uploads = $5, period_start = $6,
                    period_bytes = $7, period_uploads = $8
                WHERE kind = $1 AND name = $2
                """,
                [
                    account.kind.rawValue, account.name, usage.storedBytes, usage.reservedBytes, usage.openUploads,
                    Milliseconds(usage.periodStart), usage.periodBytes, usage.periodUploads,
                ]
            )
        }
    }

    /// The accounts among `accounts` that were ever used.
    fileprivate func accounts(
        _ accounts: [Account],
        _ columns: String,
        order: String
    ) throws -> [Account: AccountRecord] {
        var records: [Account: AccountRecord] = [:]
        let found = try rows(
            """
            SELECT \(columns) FROM account
            WHERE (kind, name) IN (SELECT * FROM unnest($1::text[], $2::text[])) \(order)
            """,
            Self.names(accounts)
        )
        for row in found {
            guard let kind = Account.Kind(rawValue: try row.value("kind", of: "account")) else {
                throw UnreadableRecord(table: "account", column: "kind")
            }
            records[Account(kind, try row.value("name", of: "account"))] = try AccountRecord(row: row)
        }
        return records
    }

    private static func names(_ accounts: [Account]) -> [(any Parameter)?] {
        [TextArray(accounts.map(\.kind.rawValue)), TextArray(accounts.map(\.name))]
    }
}
