internal import StateRecords
package import UploadModel

extension PostgresState: LeaseAuthority {
    package func acquire(
        _ id: UploadID,
        _ claim: LeaseClaim,
        until deadline: ContinuousClock.Instant
    ) async throws(UploadError) {
        node.beginAsking(for: id, claim)
        do throws(UploadError) {
            let (epoch, isWanted) = try await granted(id, claim, until: deadline)
            node.endAsking(for: id, epoch)
            if isWanted { node.preempt(id) }
        } catch {
            await withdraw(id)
            node.endAsking(for: id, nil)
            throw error
        }
    }

    private func granted(
        _ id: UploadID,
        _ claim: LeaseClaim,
        until deadline: ContinuousClock.Instant
    ) async throws(UploadError) -> (epoch: Int64, isWanted: Bool) {
        var seen: Int64?
        while true {
            let response = try await read { [node = node.id, seen] in try $0.askForLease(of: id, for: node, seen) }
            if response.node == node.id { return (response.epoch, response.isWanted) }
            seen = response.epoch
            switch await claim.wait(for: min(Self.look, max(.zero, deadline - .now))) {
            case .granted(let epoch): return (epoch, false)
            case .withdrawn(let error): throw error
            case .look, nil:
                if Task.isCancelled { throw Self.cancelled }
                if ContinuousClock.now >= deadline { throw Self.busy }
            }
        }
    }

    package func acquireIfFree(_ id: UploadID) async throws(UploadError) -> Bool {
        node.beginAsking(for: id, LeaseClaim())
        do throws(UploadError) {
            let response = try await read { [node = node.id] in try $0.takeFreeLease(of: id, for: node) }
            node.endAsking(for: id, response?.epoch)
            if response?.isWanted == true { node.preempt(id) }
            return response != nil
        } catch {
            node.endAsking(for: id, nil)
            throw error
        }
    }

    package func release(_ id: UploadID) async {
        guard let lease = node.lease(of: id) else { return }
        // If this fails, the row stays until another node wants the lease or this node reconnects: see `Node`.
        try? await read { try $0.release(id, of: lease.node, lease.epoch) }
        node.forget(id)
    }

    package func attach(isWanted: @escaping @Sendable (UploadID) -> Void) { node.onWanted(isWanted) }

    /// Ends a wait; if the lease has just been granted, passes it on.
    private func withdraw(_ id: UploadID) async {
        try? await read { [node = node.id] connection in
            if try connection.leaveLine(for: id, node) { return }
            try connection.release(id, of: node, nil)
        }
    }

    /// Interval at which a waiter checks whether the holder's node is alive.
    private static let look = Duration.milliseconds(250)

    private static let busy = UploadError(.busy, "The upload is in use; try again in a few seconds.")
    private static let cancelled = UploadError(.unavailable, "The request was given up while it waited for its turn.")
}

extension PostgresState {
    /// Whether a node that uses uploads is alive.
    ///
    /// - Throws: `.unavailable`, `.storageFailure`.
    package func hasNodes() async throws(UploadError) -> Bool {
        try await read { connection in
            let row = try connection.row(
                """
                SELECT EXISTS (
                    SELECT FROM node WHERE heartbeat_at > clock_timestamp() - interval '8 seconds'
                    AND NOT pg_try_advisory_xact_lock(id)
                ) AS has_nodes
                """
            )
            return row?.flag("has_nodes") == true
        }
    }
}

extension Connection {
    /// The response to a node's request for a lease.
    struct LeaseResponse: Sendable {
        /// The node that holds it.
        let node: Int64
        let epoch: Int64
        /// Whether others wait for it.
        let isWanted: Bool

        fileprivate init(_ row: StoredRow) throws {
            node = try row.value("node", of: "upload_lease")
            epoch = try row.value("epoch", of: "upload_lease")
            isWanted = row.flag("is_wanted") == true
        }
    }

    /// Whether the node that holds the lease is dead: it has no connection, or its heartbeat is overdue.
    private static let isDead = """
        (pg_try_advisory_xact_lock(lease.node) OR NOT EXISTS (
            SELECT FROM node WHERE node.id = lease.node AND heartbeat_at > clock_timestamp() - interval '8 seconds'
        ))
        """

    /// For statements about leases, which do not wait for the disk.
    ///
    /// If a crash of the server rolls a lease back, its holder notices at the next write.
    private static let withoutDelay = "set_config('synchronous_commit', 'off', true) IS NULL"

    /// Takes a lease, or queues for it and notifies the holder and waiting writers of the newcomer.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - node: The requesting node.
    ///   - seen: The epoch of the holder that was already notified; `nil` for none.
    /// - Returns: The current holder.
    /// - Throws: The error of the server.
    func askForLease(of id: UploadID, for node: Int64, _ seen: Int64?) throws -> LeaseResponse {
        let row = try row(
            """
            INSERT INTO upload_lease AS lease (upload_id, node, epoch, waiters)
            VALUES ($1, $2, nextval('lease_epoch'), '{}')
            ON CONFLICT (upload_id) DO UPDATE SET (node, epoch, waiters) = (
                SELECT
                    CASE WHEN is_own OR is_dead THEN $2 ELSE lease.node END,
                    CASE WHEN is_own OR is_dead THEN nextval('lease_epoch') ELSE lease.epoch END,
                    CASE
                        WHEN is_own THEN array_remove(lease.waiters, $2)
                        WHEN is_dead THEN '{}'
                        WHEN $2 = ANY (lease.waiters) THEN lease.waiters
                        ELSE lease.waiters || $2
                    END
                FROM (SELECT lease.node = $2 AS is_own, \(Self.isDead) AS is_dead OFFSET 0) AS owner
            )
            RETURNING node, epoch, waiters <> '{}' AS is_wanted, \(Self.withoutDelay),
                CASE WHEN node <> $2 AND epoch IS DISTINCT FROM $3 THEN (
                    SELECT count(pg_notify('sluice_node_' || other, 'want ' || lease.upload_id || ' ' || lease.epoch))
                    FROM unnest(lease.node || lease.waiters) AS other WHERE other <> $2
                ) END
            """,
            [id.text, node, seen]
        )
        guard let row else { throw UnreadableRecord(table: "upload_lease", column: "node") }
        return try LeaseResponse(row)
    }

    /// - Returns: `nil` if a living node holds the lease.
    func takeFreeLease(of id: UploadID, for node: Int64) throws -> LeaseResponse? {
        try row(
            """
            INSERT INTO upload_lease AS lease (upload_id, node, epoch, waiters)
            VALUES ($1, $2, nextval('lease_epoch'), '{}')
            ON CONFLICT (upload_id) DO UPDATE SET node = $2, epoch = nextval('lease_epoch')
            WHERE lease.node = $2 OR \(Self.isDead)
            RETURNING node, epoch, waiters <> '{}' AS is_wanted, \(Self.withoutDelay)
            """,
            [id.text, node]
        ).map { try LeaseResponse($0) }
    }

    /// Releases a lease if `node` still holds it and, unless `nil`, with this epoch; the first node in the queue gets
    /// it.
    func release(_ id: UploadID, of node: Int64, _ epoch: Int64?) throws(DatabaseFailure) {
        let isOwn = "upload_id = $1 AND node = $2 AND ($3::bigint IS NULL OR epoch = $3)"
        let values: [(any Parameter)?] = [id.text, node, epoch]
        // Another node may join or leave the queue between the two statements.
        for _ in 1...3 {
            let ended = try run(
                "DELETE FROM upload_lease WHERE \(isOwn) AND waiters = '{}' RETURNING \(Self.withoutDelay)",
                values
            )
            if ended == 1 { return }
            let passedOn = try run(
                """
                UPDATE upload_lease SET node = waiters[1], waiters = waiters[2:], epoch = nextval('lease_epoch')
                WHERE \(isOwn) AND waiters <> '{}'
                RETURNING pg_notify('sluice_node_' || node, 'yours ' || upload_id || ' ' || epoch), \(Self.withoutDelay)
                """,
                values
            )
            if passedOn == 1 { return }
        }
    }

    /// - Returns: Whether the node was in the queue.
    func leaveLine(for id: UploadID, _ node: Int64) throws(DatabaseFailure) -> Bool {
        try run(
            """
            UPDATE upload_lease SET waiters = array_remove(waiters, $2) WHERE upload_id = $1 AND $2 = ANY (waiters)
            RETURNING \(Self.withoutDelay)
            """,
            [id.text, node]
        ) == 1
    }
}
