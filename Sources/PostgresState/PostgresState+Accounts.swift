package import Foundation
internal import StateRecords
package import UploadModel

extension PostgresState {
    package func accounts(_ accounts: [Account]) async throws(UploadError) -> [Account: AccountRecord] {
        try await read { connection in
            let names = Connection.names(accounts)
            let rows = try connection.rows(
                """
                SELECT \(Self.columns), policy, NULL::bigint AS position, NULL::bigint AS created_at
                FROM account WHERE \(Connection.isNamed)
                UNION ALL
                SELECT \(Self.columns), NULL, position, created_at FROM account_change WHERE \(Connection.isNamed)
                ORDER BY position NULLS FIRST
                """,
                names
            )
            var records: [Account: AccountRecord] = [:]
            for row in rows {
                let account = try Account(row: row)
                if row.isNull("position") {
                    records[account] = try AccountRecord(row: row)
                } else {
                    let change = try CountedChange(row)
                    var record =
                        records[account]
                        ?? AccountRecord(usage: Usage(periodStart: change.periodStart ?? change.createdAt), policy: nil)
                    record.usage = change.added(to: record.usage)
                    records[account] = record
                }
            }
            return records
        }
    }

    package func totals(of kind: Account.Kind) async throws(UploadError) -> UsageTotals {
        try await read { connection in
            let row = try connection.row(
                """
                SELECT coalesce(sum(open_uploads), 0)::bigint AS open_uploads,
                    coalesce(sum(stored_bytes), 0)::bigint AS stored_bytes
                FROM (
                    SELECT open_uploads, stored_bytes FROM account WHERE kind = $1
                    UNION ALL
                    SELECT open_uploads, stored_bytes FROM account_change WHERE kind = $1
                ) AS counted
                """,
                [kind.rawValue]
            )
            return try row.map(UsageTotals.init(row:)) ?? UsageTotals()
        }
    }

    package func setPolicy(_ policy: Policy?, of account: Account, at now: Date) async throws(UploadError) {
        try await write { connection in
            _ = connection.send(
                """
                INSERT INTO account (kind, name, period_start, policy) VALUES ($1, $2, $3, $4)
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
        try await write { connection in
            try connection.charge(changes, createdAt: creation, under: effectiveLimits)
        }
    }

    fileprivate static let columns = """
        kind, name, stored_bytes, reserved_bytes, open_uploads, period_start, period_bytes, period_uploads
        """
}

/// A row of `account_change`.
private struct CountedChange {
    var change = UsageChange()
    /// `nil` if it only reduces usage.
    var periodStart: Date?
    let createdAt: Date

    init(_ row: StoredRow) throws {
        let table = "account_change"
        change.storedBytes = try row.value("stored_bytes", of: table)
        change.reservedBytes = try row.value("reserved_bytes", of: table)
        change.openUploads = try row.value("open_uploads", of: table)
        change.periodBytes = try row.value("period_bytes", of: table)
        change.periodUploads = try row.value("period_uploads", of: table)
        periodStart = try row.optionalDate("period_start", of: table)
        createdAt = try row.date("created_at", of: table)
    }

    /// Like `EffectiveLimits.usage`, without a limit.
    func added(to usage: Usage) -> Usage {
        var usage = usage
        var change = change
        if let periodStart, usage.periodStart < periodStart {
            usage.periodStart = periodStart
            usage.periodBytes = 0
            usage.periodUploads = 0
        } else if let periodStart, periodStart < usage.periodStart {
            // Its period is over.
            change.periodBytes = 0
            change.periodUploads = 0
        }
        // Each change is small (`isSmall`), so only millions of them in a row could overflow.
        return (try? usage.adding(change, createdAt: createdAt)) ?? usage
    }
}

extension Connection {
    /// Changes the usage of accounts in one step.
    func charge(
        _ changes: Accounting.Changes,
        createdAt creation: Date,
        under effectiveLimits: EffectiveLimits?
    ) throws {
        try charge([changes], createdAt: creation, under: effectiveLimits)
    }

    /// Changes the usage of accounts; locks the rows of those that have a limit, ordered by kind and name, until the
    /// transaction ends.
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
        var locked: [Account] = []
        for account in Accounting.accounts(changedBy: steps).sorted() {
            if mayAppendChanges, !(effectiveLimits?.policies[account]?.limitsUsage ?? false),
                steps.allSatisfy({ $0[account]?.isSmall ?? true })
            {
                let change = steps.compactMap { $0[account] }.reduce(UsageChange(), { $0.adding($1) })
                append(change, to: account, createdAt: creation, effectiveLimits?.period.start)
            } else {
                locked.append(account)
            }
        }
        if locked.isEmpty { return }
        let known = try lock(locked, since: effectiveLimits?.period.start ?? creation)
        for account in locked {
            guard let before = known[account] else { throw UnreadableRecord(table: "account", column: "name") }
            let usage = try EffectiveLimits.usage(
                of: account,
                before,
                adding: steps,
                createdAt: creation,
                under: effectiveLimits
            )
            set(usage, of: account)
        }
    }

    /// Moves changes of accounts into their rows, unless another transaction is doing that.
    ///
    /// - Returns: The number of changes that were looked at, at most `limit`; more than these may have been moved.
    func countChanges(limit: Int) throws -> Int {
        let isMine = try row(
            """
            SELECT pg_try_advisory_xact_lock(hashtextextended('sluice accounts ' || current_schema(), 0)) AS is_mine
            """
        )?.flag("is_mine")
        guard isMine == true else { return 0 }
        let waiting = try rows("SELECT kind, name FROM account_change ORDER BY kind, name, position LIMIT $1", [limit])
        let accounts = Set(try waiting.map { try Account(row: $0) }).sorted()
        if accounts.isEmpty { return 0 }
        // The rows that this adds are of accounts that were not used before; the changes set the period.
        for (account, usage) in try lock(accounts, since: Date(timeIntervalSince1970: 0)) { set(usage, of: account) }
        return waiting.count
    }

    /// Locks the rows of accounts until the transaction ends, and takes their changes.
    ///
    /// - Parameters:
    ///   - accounts: Sorted.
    ///   - start: The beginning of the quota period, for accounts without a row.
    /// - Returns: Their usage with these changes; it must be set.
    /// - Throws: The error of the server.
    private func lock(_ accounts: [Account], since start: Date) throws -> [Account: Usage] {
        // Insert all rows first, then lock all. If each were locked as it is inserted, two transactions could deadlock.
        send(
            """
            INSERT INTO account (kind, name, period_start)
            SELECT kind, name, $3::bigint
            FROM unnest($1::text[], $2::text[]) AS wanted (kind, name)
            ORDER BY kind COLLATE "C", name COLLATE "C"
            ON CONFLICT (kind, name) DO NOTHING
            """,
            Self.names(accounts) + [Milliseconds(start)]
        )
        let known = send(
            "SELECT \(PostgresState.columns), policy FROM account WHERE \(Self.isNamed) ORDER BY kind, name FOR UPDATE",
            Self.names(accounts)
        )
        // Only the transaction that has locked the account takes its changes. This statement begins after the lock was
        // granted, so it finds all that were committed.
        let changes = try rows(
            """
            WITH taken AS (DELETE FROM account_change WHERE \(Self.isNamed) RETURNING *)
            SELECT * FROM taken ORDER BY position
            """,
            Self.names(accounts)
        )
        var usages: [Account: Usage] = [:]
        for row in known.rows { usages[try Account(row: row)] = try AccountRecord(row: row).usage }
        for row in changes {
            let account = try Account(row: row)
            usages[account] = try usages[account].map { try CountedChange(row).added(to: $0) }
        }
        return usages
    }

    private func set(_ usage: Usage, of account: Account) {
        send(
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

    /// Adds a change of an account without limits as a row of its own, which locks nothing.
    private func append(_ change: UsageChange, to account: Account, createdAt creation: Date, _ start: Date?) {
        if change == UsageChange() { return }
        // If the account comes near the end of 64 bits, the transaction is run again, and changes its row.
        send(
            """
            INSERT INTO account_change (kind, name, period_start, created_at, stored_bytes, reserved_bytes, open_uploads,
                period_bytes, period_uploads)
            SELECT $1::text, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::bigint
            WHERE \(Self.demand("""
                NOT EXISTS (SELECT FROM account WHERE kind = $1::text AND name = $2::text
                    AND greatest(stored_bytes, reserved_bytes, period_bytes) > 1::bigint << 61)
                """))
            """,
            [
                account.kind.rawValue, account.name, start.map(Milliseconds.init), Milliseconds(creation),
                change.storedBytes, change.reservedBytes, change.openUploads, change.periodBytes, change.periodUploads,
            ]
        )
        hasBacklog = true
    }

    fileprivate static let isNamed = "(kind, name) IN (SELECT * FROM unnest($1::text[], $2::text[]))"

    fileprivate static func names(_ accounts: [Account]) -> [(any Parameter)?] {
        [TextArray(accounts.map(\.kind.rawValue)), TextArray(accounts.map(\.name))]
    }
}

extension Account {
    fileprivate init(row: StoredRow) throws {
        guard let kind = Account.Kind(rawValue: try row.value("kind", of: "account")) else {
            throw UnreadableRecord(table: "account", column: "kind")
        }
        self.init(kind, try row.value("name", of: "account"))
    }
}

extension Set<Account> {
    /// By kind and name, the order in which all transactions lock accounts.
    fileprivate func sorted() -> [Account] {
        sorted { ($0.kind.rawValue, $0.name) < ($1.kind.rawValue, $1.name) }
    }
}

extension Policy {
    /// Whether it limits what an account uses, not only what an upload is.
    fileprivate var limitsUsage: Bool {
        storedBytes != nil || openUploads != nil || periodBytes != nil || periodUploads != nil
    }
}

extension UsageChange {
    /// The sum of two changes, each of which is small.
    fileprivate func adding(_ other: UsageChange) -> UsageChange {
        var sum = self
        sum.storedBytes += other.storedBytes
        sum.reservedBytes += other.reservedBytes
        sum.openUploads += other.openUploads
        sum.periodBytes += other.periodBytes
        sum.periodUploads += other.periodUploads
        return sum
    }

    /// Whether it cannot overflow a counter even if a million times as much follows.
    fileprivate var isSmall: Bool {
        [storedBytes, reservedBytes, periodBytes].allSatisfy { $0.magnitude < 1 << 43 }
    }
}
