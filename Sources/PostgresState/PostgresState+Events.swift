package import Foundation
internal import StateRecords
internal import Synchronization
package import UploadModel

extension PostgresState {
    private static let columns = """
        sequence, id, kind, upload_id, subject, occurred_at, content, delivery, attempts, next_attempt_at, settled_at,
        last_error
        """

    /// The condition for an event that is selected by its sequence number.
    ///
    /// Written so that the planner cannot use an index of pending events. Usually there are few, so the planner would
    /// read them all, and would keep doing so when an app is down and there are many.
    private static let isPending = "delivery || '' = 'pending'"
    private static let claimEnd = "coalesce(next_attempt_at, 0)"

    package func record(_ event: EventRecord) async throws(UploadError) {
        guard event.kind == .progress else { return try await write { try $0.insert([event]) } }
        try await numberEvents()
        try await write { connection in
            connection.lockEvents(of: [event.upload.id.text])
            let replaced = try connection.run(
                """
                UPDATE event SET content = $2, occurred_at = $3
                WHERE sequence = (SELECT max(sequence) FROM event WHERE upload_id = $1)
                    AND kind = 'progress' AND \(Self.isPending) AND attempts = 0
                    -- An event that is being delivered is not replaced.
                    AND (next_attempt_at IS NULL OR next_attempt_at <= \(Connection.now))
                    AND NOT EXISTS (SELECT FROM unnumbered_event WHERE upload_id = $1)
                """,
                [event.upload.id.text, try StoredEvent.json(event), Milliseconds(event.occurredAt)]
            )
            if replaced == 0 { try connection.insert([event]) }
        }
    }

    package func events(_ query: EventQuery) async throws(UploadError) -> [EventRecord] {
        try await readNumbered { connection in
            let (sql, values) = Self.statement(of: query)
            return try connection.rows(sql, values).map(EventRecord.init(row:))
        }
    }

    static func statement(of query: EventQuery) -> (sql: String, values: [(any Parameter)?]) {
        var conditions = ["sequence > $1"]
        var values: [(any Parameter)?] = [query.after]
        func require(_ condition: String, _ value: (any Parameter)?) {
            guard let value else { return }
            values.append(value)
            conditions.append("\(condition.replacing("?", with: "$\(values.count)"))")
        }
        require("sequence <= ?", query.through)
        require("upload_id = ?", query.upload?.text)
        require("subject = ?", query.subject)
        require("kind = ANY (?::text[])", query.kinds.map { TextArray($0.map(\.rawValue).sorted()) })
        values.append(query.limit)
        return (
            """
            SELECT \(columns) FROM event WHERE \(conditions.joined(separator: " AND "))
            ORDER BY sequence LIMIT $\(values.count)
            """,
            values
        )
    }

    package func lastEvent() async throws(UploadError) -> Int64 {
        try await readNumbered { connection in
            // Also correct if the newest events were removed: sequence numbers are never reused.
            try connection.row("SELECT last FROM event_counter")?.value("last", of: "event_counter") ?? 0
        }
    }

    package func claimDeliveries(limit: Int, for duration: TimeInterval) async throws(UploadError) -> [EventRecord] {
        // Most calls find nothing; this avoids a transaction that writes to the log.
        while try await nextDelivery().map({ $0 <= 0 }) ?? false {
            let first = lastDeliveryTurn.withLock { $0 }
            let (claimed, last, hasUnreadable) = try await write { [unreadable] connection in
                let (chosen, last) = try connection.chosenDeliveries(limit, after: first)
                let rows = try connection.rows(
                    """
                    UPDATE event SET next_attempt_at = \(Connection.now) + $2::bigint
                    WHERE sequence = ANY (ARRAY(
                        SELECT sequence FROM event WHERE sequence = ANY ($1::bigint[]) AND next_attempt_at <= \(Connection.now)
                        FOR UPDATE SKIP LOCKED
                    ))
                    RETURNING \(Self.columns)
                    """,
                    [IntegerArray(chosen), Self.milliseconds(duration)]
                )
                let found = unreadable.read(rows, of: "event", by: "sequence", EventRecord.init(row:))
                if !found.unreadable.isEmpty {
                    connection.send(
                        """
                        UPDATE event SET next_attempt_at = \(Connection.now) + bad.pause
                        FROM unnest($1::text[], $2::bigint[]) AS bad (key, pause) WHERE sequence = bad.key::bigint
                        """,
                        [TextArray(found.unreadable), IntegerArray(found.pauses)]
                    )
                }
                return (found.values, last, !found.unreadable.isEmpty)
            }
            lastDeliveryTurn.withLock { $0 = last }
            // Others may be due behind those that cannot be read.
            if !claimed.isEmpty || !hasUnreadable { return claimed.sorted { $0.sequence < $1.sequence } }
        }
        return []
    }

    package func nextDelivery() async throws(UploadError) -> TimeInterval? {
        try await readNumbered { connection in
            try connection.row(
                """
                SELECT next_attempt_at - \(Connection.now) AS wait FROM event
                WHERE next_attempt_at IS NOT NULL ORDER BY next_attempt_at, sequence LIMIT 1
                """
            )?.integer("wait").map { Double($0) / 1000 }
        }
    }

    package func pendingDeliveries() async throws(UploadError) -> PendingDeliveries {
        try await readNumbered { connection in
            let row = try connection.row(
                """
                SELECT pending.number, \(Connection.now) - event.occurred_at AS age
                FROM (SELECT count(*) AS number, min(sequence) AS first FROM event WHERE delivery = 'pending') AS pending
                LEFT JOIN event ON event.sequence = pending.first
                """
            )
            return PendingDeliveries(
                count: row?.integer("number") ?? 0,
                age: max(0, Double(row?.integer("age") ?? 0) / 1000)
            )
        }
    }

    package func settle(_ event: EventRecord, as outcome: DeliveryOutcome) async throws(UploadError) {
        let upload = event.upload.id.text
        let claim = event.delivery?.nextAttemptAt.map(Milliseconds.init)
        try await write { connection in
            connection.lockEvents(of: [upload])
            switch outcome {
            case .delivered:
                connection.send(
                    """
                    UPDATE event SET delivery = 'delivered', attempts = attempts + 1, next_attempt_at = NULL,
                        settled_at = \(Connection.now), last_error = NULL
                    WHERE sequence = $1 AND \(Self.isPending)
                    """,
                    [event.sequence]
                )
            case .retry(let seconds, let error):
                connection.send(
                    """
                    UPDATE event SET attempts = attempts + 1, next_attempt_at = \(Connection.now) + $3::bigint,
                        last_error = $4
                    WHERE sequence = $1 AND \(Self.isPending) AND \(Self.claimEnd) = $2
                    """,
                    [event.sequence, claim, Self.milliseconds(seconds), error]
                )
            case .dead(let error):
                connection.send(
                    """
                    UPDATE event SET delivery = 'dead', attempts = attempts + 1, next_attempt_at = NULL,
                        settled_at = \(Connection.now), last_error = $3
                    WHERE sequence = $1 AND \(Self.isPending) AND \(Self.claimEnd) = $2
                    """,
                    [event.sequence, claim, error]
                )
            }
            if case .retry = outcome { return }
            connection.schedule(upload)
        }
    }

    package func release(_ event: EventRecord) async throws(UploadError) {
        try await write { connection in
            _ = connection.send(
                """
                UPDATE event SET next_attempt_at = \(Connection.now)
                WHERE sequence = $1 AND \(Self.isPending) AND \(Self.claimEnd) = $2
                """,
                [event.sequence, event.delivery?.nextAttemptAt.map(Milliseconds.init)]
            )
        }
    }

    static func milliseconds(_ seconds: TimeInterval) -> Int64 {
        Int64(max(0, min(seconds, 1e9)) * 1000)
    }

    package func deliveries(_ query: DeliveryQuery) async throws(UploadError) -> [EventRecord] {
        try await readNumbered { connection in
            try connection.rows(
                """
                SELECT \(Self.columns) FROM event
                WHERE \(query.state.map { "delivery || '' = '\($0.rawValue)'" } ?? "delivery IS NOT NULL")
                    AND delivery IS NOT NULL AND sequence < $1
                ORDER BY sequence DESC LIMIT $2
                """,
                [query.before ?? Int64.max, query.limit]
            ).map(EventRecord.init(row:))
        }
    }

    package func redeliver(_ ids: [String]?) async throws(UploadError) -> Int {
        try await numberEvents()
        return try await write { connection in
            let filter =
                ids == nil
                ? "delivery || '' = 'dead' AND delivery IS NOT NULL" : "id = ANY ($1::text[]) AND delivery IS NOT NULL"
            let values: [(any Parameter)?] = ids.map { [TextArray($0)] } ?? []
            let wanted = try connection.rows("SELECT DISTINCT upload_id FROM event WHERE \(filter)", values)
            let uploads: [String] = try wanted.map { try $0.value("upload_id", of: "event") }
            connection.lockEvents(of: uploads)
            // Only for those uploads: another one may have got a dead delivery meanwhile.
            let count = try connection.run(
                """
                UPDATE event SET delivery = 'pending', attempts = 0, next_attempt_at = NULL, settled_at = NULL,
                    last_error = NULL
                WHERE \(filter) AND upload_id = ANY ($\(values.count + 1)::text[])
                """,
                values + [TextArray(uploads)]
            )
            for upload in uploads { connection.schedule(upload) }
            return count
        }
    }
}

extension Connection {
    /// The start of the transaction in Unix milliseconds, by the server's clock, which is the same for all nodes.
    static let now = "(extract(epoch FROM now()) * 1000)::bigint"

    /// Adds events that something wants; `PostgresState.numberEvents` gives them their sequence numbers after the commit.
    ///
    /// The positions of events of one upload are in the order of its transactions, because each holds its row.
    func insert(_ records: [EventRecord]) throws {
        for event in records {
            let reply = send(
                """
                INSERT INTO unnumbered_event (id, kind, upload_id, subject, occurred_at, content, delivery, due_at, node)
                SELECT $1, $2, $3, $4, $5, $6, $7::text, $8, $9
                WHERE $7::text IS NOT NULL OR \(Self.now) < (SELECT kept_until FROM event_recording)
                """,
                [
                    event.id, event.kind.rawValue, event.upload.id.text, event.upload.subject,
                    Milliseconds(event.occurredAt), try StoredEvent.json(event), event.delivery?.state.rawValue,
                    event.delivery?.nextAttemptAt.map(Milliseconds.init), target.node,
                ]
            )
            events.append(reply)
        }
    }

    /// Prevents other transactions from numbering, replacing or settling events of these uploads until this one ends.
    ///
    /// Which event of an upload is due depends on its other events; two transactions that do not see each other's
    /// changes would leave none due. The upload's row is not locked instead, because deliveries outlive it.
    func lockEvents(of uploads: [String]) {
        let keys = Set(uploads.map(Self.lockKey)).sorted()
        if keys.isEmpty { return }
        send("SELECT pg_advisory_xact_lock(key) IS NULL FROM unnest($1::bigint[]) AS key", [IntegerArray(keys)])
    }

    /// FNV-1a, 64 bits.
    ///
    /// Uploads with the same key merely wait for each other.
    private static func lockKey(_ upload: String) -> Int64 {
        Int64(bitPattern: upload.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01B3 })
    }

    /// The due deliveries of the users whose turn it is.
    ///
    /// - Parameters:
    ///   - limit: Maximum number of deliveries.
    ///   - first: The user who had the last turn.
    /// - Returns: Their sequence numbers, and the user who has the last turn now.
    /// - Throws: `DatabaseFailure`.
    fileprivate func chosenDeliveries(_ limit: Int, after first: String) throws -> (sequences: [Int64], last: String) {
        let oldest = try oldestDeliveries(limit: limit + 1)
        if oldest.count <= limit { return (oldest, first) }
        // Without locks: other nodes may take some of them first.
        var (users, last) = ([String](), first)
        for (position, end) in [(first, nil), (nil, first)] as [(String?, String?)] where users.count < limit {
            let next = try usersOfDeliveries(after: position, through: end, limit: limit - users.count)
            users += next.due
            last = next.last ?? last
        }
        let queues = try dueDeliveries(of: users, limit: limit)
        return (DeliveryTurns.choose(limit, of: queues, else: oldest), last)
    }

    fileprivate func oldestDeliveries(limit: Int) throws -> [Int64] {
        try rows(
            """
            SELECT sequence FROM event WHERE next_attempt_at <= \(Self.now)
            ORDER BY next_attempt_at, sequence LIMIT $1 FOR UPDATE SKIP LOCKED
            """,
            [limit]
        ).map { try $0.value("sequence", of: "event") }
    }

    /// The next users who have deliveries due, in the order of their names.
    ///
    /// - Parameters:
    ///   - last: The one before; `nil` to begin with those without a user.
    ///   - end: Where to stop.
    ///   - limit: Maximum number of users.
    /// - Returns: Users, also `DeliveryTurns.noUser`, and the last one that was looked at.
    /// - Throws: `DatabaseFailure`.
    fileprivate func usersOfDeliveries(
        after last: String?,
        through end: String?,
        limit: Int
    ) throws -> (due: [String], last: String?) {
        // One entry of the index for each user; some of them have no delivery due now.
        let found = try rows(
            """
            WITH RECURSIVE turn AS (
                (
                    SELECT coalesce(subject, '') AS name, 1 AS number FROM event
                    WHERE next_attempt_at IS NOT NULL AND coalesce(subject, '') \(last == nil ? ">=" : ">") $1
                    ORDER BY coalesce(subject, '') LIMIT 1
                )
                UNION ALL
                SELECT (
                    SELECT coalesce(subject, '') FROM event
                    WHERE next_attempt_at IS NOT NULL AND coalesce(subject, '') > turn.name
                    ORDER BY coalesce(subject, '') LIMIT 1
                ), number + 1
                FROM turn WHERE turn.name IS NOT NULL AND number < $3
            )
            SELECT name, EXISTS (
                SELECT FROM event WHERE coalesce(subject, '') = turn.name AND next_attempt_at <= \(Self.now)
            ) AS is_due
            FROM turn WHERE name IS NOT NULL AND ($2::text IS NULL OR name <= $2 COLLATE "C") ORDER BY number
            """,
            [last ?? DeliveryTurns.noUser, end, DeliveryTurns.mostUsers(for: limit)]
        )
        var users: (due: [String], last: String?) = ([], nil)
        for row in found where users.due.count < limit {
            let name: String = try row.value("name", of: "event")
            users.last = name
            if row.flag("is_due") == true { users.due.append(name) }
        }
        return users
    }

    /// - Returns: The due deliveries of each of some users, oldest first.
    fileprivate func dueDeliveries(of users: [String], limit: Int) throws -> [[Int64]] {
        var queues: [Int64: [Int64]] = [:]
        let found = try rows(
            """
            SELECT wanted.number, due.sequence FROM unnest($1::text[]) WITH ORDINALITY AS wanted (name, number)
            CROSS JOIN LATERAL (
                SELECT sequence, next_attempt_at FROM event
                WHERE coalesce(subject, '') = wanted.name AND next_attempt_at <= \(Self.now)
                ORDER BY next_attempt_at, sequence LIMIT $2
            ) AS due
            ORDER BY wanted.number, due.next_attempt_at, due.sequence
            """,
            [TextArray(users), limit]
        )
        for row in found {
            let (number, sequence): (Int64, Int64) = (
                try row.value("number", of: "event"), try row.value("sequence", of: "event")
            )
            queues[number, default: []].append(sequence)
        }
        return queues.sorted { $0.key < $1.key }.map(\.value)
    }

    /// Makes the first pending event of an upload due, unless it already is; later events wait for it.
    fileprivate func schedule(_ upload: String) {
        send(
            """
            UPDATE event SET next_attempt_at = CASE WHEN sequence = earliest.first THEN \(Self.now) END
            FROM (SELECT min(sequence) AS first FROM event WHERE upload_id = $1 AND delivery = 'pending') AS earliest
            WHERE upload_id = $1 AND delivery = 'pending'
                AND (sequence = earliest.first) = (next_attempt_at IS NULL)
            """,
            [upload]
        )
    }
}
