internal import StateRecords
internal import Synchronization
internal import UploadModel

/// What transactions leave to be done after their commit, in batches: events get their sequence numbers, and changes of
/// accounts move into the rows of the accounts. Both would otherwise be rows that each transaction locks until its
/// commit. See docs/decisions/0045-postgres-round-trips.md.
extension PostgresState {
    /// Does what is left, soon; calls in between are served together.
    ///
    /// If it fails, or the process dies before, the next reader, or a node at its next heartbeat, does it.
    func clearBacklogSoon() {
        let isFirst = isClearing.withLock { isClearing in
            defer { isClearing = true }
            return !isClearing
        }
        guard isFirst else { return }
        // Ends by itself.
        Task.detached { [weak self] in
            try? await Task.sleep(for: Self.pause)
            self?.isClearing.withLock { $0 = false }
            try? await self?.clearBacklog()
        }
    }

    /// Does all that was left by transactions that were committed before.
    func clearBacklog() async throws(UploadError) {
        try await numberEvents()
        try await countChanges()
    }

    private static let pause = Duration.milliseconds(50)
    /// Number of rows that one transaction moves.
    ///
    /// An advisory lock for each upload must fit the server's lock table.
    private static let batch = 500

    // MARK: Events

    /// A call that only reads events, after all events that were committed before it have their sequence numbers.
    func readNumbered<Value: Sendable>(
        _ work: @escaping @Sendable (Connection) throws -> Value
    ) async throws(UploadError) -> Value {
        let found = try await read { connection -> Value? in
            let backlog = connection.send("SELECT \(Connection.hasUnnumberedEvents) AS has_some")
            let value = try work(connection)
            return backlog.row?.flag("has_some") == false ? .some(value) : .none
        }
        if let found { return found }
        try await numberEvents()
        return try await read(work)
    }

    /// Gives sequence numbers to all events that were committed before this call.
    ///
    /// - Throws: `.unavailable`, `.storageFull`, `.storageFailure`.
    func numberEvents() async throws(UploadError) {
        while true {
            let waiting = try await read { try $0.unnumberedEvents(limit: Self.batch) }
            if waiting.isEmpty { return }
            try await write { $0.number(waiting) }
            if waiting.count < Self.batch { return }
        }
    }

    // MARK: Accounts

    /// Moves changes of accounts into the rows of the accounts, unless another node is doing that.
    ///
    /// - Throws: `.unavailable`, `.storageFull`, `.storageFailure`.
    func countChanges() async throws(UploadError) {
        while try await write({ try $0.countChanges(limit: Self.batch) }) == Self.batch {}
    }
}

extension Connection {
    /// An event without a sequence number.
    struct UnnumberedEvent: Sendable {
        let position: Int64
        /// The node that recorded it.
        let node: Int64
        let upload: String
        let hasDelivery: Bool
    }

    /// Read by the index, because removed rows may fill many pages of the table.
    static let hasUnnumberedEvents = "(SELECT position FROM unnumbered_event ORDER BY position LIMIT 1) IS NOT NULL"

    func unnumberedEvents(limit: Int) throws -> [UnnumberedEvent] {
        try rows(
            """
            SELECT position, node, upload_id, delivery IS NOT NULL AS has_delivery FROM unnumbered_event
            ORDER BY position LIMIT $1
            """,
            [limit]
        ).map { row in
            UnnumberedEvent(
                position: try row.value("position", of: "unnumbered_event"),
                node: try row.value("node", of: "unnumbered_event"),
                upload: try row.value("upload_id", of: "unnumbered_event"),
                hasDelivery: row.flag("has_delivery") == true
            )
        }
    }

    /// Gives sequence numbers to those of the events that have none yet, and tells the other nodes.
    ///
    /// The counter stays locked until the commit, so events become visible in the order of their sequence numbers,
    /// without gaps: a reader that continues after the last event it saw misses none. An event that is committed later
    /// than others gets a later number, whatever its position is.
    func number(_ events: [UnnumberedEvent]) {
        lockEvents(of: events.filter(\.hasDelivery).map(\.upload))
        send("SELECT last FROM event_counter FOR UPDATE")
        // The first pending event of an upload becomes due, unless an earlier one is pending. It is not due later than
        // now: the clock of the node that recorded it may be ahead.
        send(
            """
            WITH taken AS (
                DELETE FROM unnumbered_event WHERE position = ANY ($1::bigint[]) RETURNING *
            ), counter AS (
                UPDATE event_counter SET last = last + (SELECT count(*) FROM taken) RETURNING last
            ), numbered AS (
                SELECT *, (SELECT last FROM counter) - count(*) OVER () + row_number() OVER (ORDER BY position) AS number,
                    position = min(position) FILTER (WHERE delivery = 'pending') OVER (PARTITION BY upload_id) AS is_first
                FROM taken
            )
            INSERT INTO event (sequence, id, kind, upload_id, subject, occurred_at, content, delivery, next_attempt_at)
            SELECT number, id, kind, upload_id, subject, occurred_at, content, delivery,
                CASE
                    WHEN delivery = 'pending' AND due_at IS NOT NULL AND is_first AND NOT EXISTS (
                        SELECT FROM event AS earlier
                        WHERE earlier.upload_id = numbered.upload_id AND earlier.delivery = 'pending'
                    ) THEN least(due_at, \(Self.now))
                END
            FROM numbered ORDER BY number
            -- One event that cannot be added must not stop all others.
            ON CONFLICT (id) DO NOTHING
            """,
            [IntegerArray(events.map(\.position))]
        )
        // A node does not need to hear of its own.
        let nodes = Set(events.map(\.node))
        let origin = nodes.count == 1 ? nodes.first : nil
        send("SELECT pg_notify('sluice_events_' || md5(current_schema()), $1) IS NULL", ["\(origin ?? 0)"])
    }
}
