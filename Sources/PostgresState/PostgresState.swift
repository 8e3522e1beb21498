package import Foundation
internal import Transport
package import UploadCore

/// State in PostgreSQL 12 or newer, for any number of nodes.
///
/// A call is one transaction, committed when it returns. Calls run on threads of their own, as many as there are connections,
/// and are not cancelled with the task that makes them: what was begun is recorded.
///
/// All transactions lock in the same order, so that none waits for another in a circle: the lease of an upload, a used grant,
/// a bucket, uploads by their id, the name of an object, accounts by kind and name, the events of an upload, the counter of
/// events. See docs/decisions/0015-postgres-state.md and docs/decisions/0017-leases.md.
package final class PostgresState: StateStore {
    let node: Node
    private let pool: ConnectionPool
    private let threads: BlockingPool
    /// For whoever decides by the time what becomes of uploads: the clocks of nodes may differ.
    package let clock = DatabaseClock()

    /// Connects, brings the schema up to date, and joins the other nodes.
    ///
    /// - Parameters:
    ///   - settings: Where the database is.
    ///   - isNode: Whether it uses uploads; else it takes no leases and hears of no events.
    /// - Returns: To be closed.
    /// - Throws: When the database can not be reached or changed, was made by a newer version, or a copy into it is not finished.
    package static func open(
        _ settings: PostgresSettings,
        asNode isNode: Bool = true
    ) async throws(PostgresStateError) -> PostgresState {
        try await open(settings, asNode: isNode, amidImport: false)
    }

    static func open(
        _ settings: PostgresSettings,
        asNode isNode: Bool,
        amidImport isImporting: Bool
    ) async throws(PostgresStateError) -> PostgresState {
        let target = try Target(settings)
        let state = PostgresState(target)
        do {
            try await state.threads.run { [pool = state.pool, node = state.node, clock = state.clock] in
                Result {
                    try pool.run { connection in
                        try Schema.migrate(connection)
                        if !isImporting, try connection.isAmidImport() { throw UnfinishedImport() }
                        try clock.set(by: connection)
                    }
                    if isNode { node.start() }
                }
            }.get()
        } catch {
            state.close()
            switch error {
            case is NewerSchema:
                throw PostgresStateError(location: target.location, reason: "it was made by a newer version of Sluice.")
            case is UnfinishedImport:
                throw PostgresStateError(
                    location: target.location,
                    reason: "a migration into it is not finished: run `sluice migrate` again."
                )
            case let failure as DatabaseFailure:
                throw PostgresStateError(
                    location: target.location,
                    reason: failure.message,
                    isUnreachable: failure.isConnectionLost
                )
            default:
                throw PostgresStateError(location: target.location, reason: "\(error)")
            }
        }
        return state
    }

    private init(_ target: Target) {
        pool = ConnectionPool(target)
        threads = BlockingPool(threads: target.settings.connections, label: "sluice.postgres")
        node = Node(target)
    }

    deinit { node.close() }

    /// Closes the connections; later calls fail.
    package func close() {
        node.close()
        pool.close()
    }

    /// Has `ring` called, on any thread, when another node has recorded events, or may have.
    package func onEventsElsewhere(_ ring: @escaping @Sendable () -> Void) { node.onEvents(ring) }

    package func check() async throws(UploadError) {
        try await read { connection in
            let row = try connection.row(
                """
                SELECT current_setting('transaction_read_only') = 'on' AS is_read_only
                FROM event_counter
                """
            )
            guard row?.flag("is_read_only") == false else {
                throw DatabaseFailure(state: "25006", message: "the database is read-only", isConnectionLost: false)
            }
        }
        guard node.isJoined else {
            throw UploadError(.unavailable, "The other servers can not reach this one; try again later.")
        }
    }

    package func takeTurn(at duty: Duty, every interval: TimeInterval) async throws(UploadError) -> Bool {
        try await write { connection in
            try connection.run(
                """
                INSERT INTO duty (name, done_at) VALUES ($1, \(Connection.now))
                ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at
                WHERE duty.done_at <= excluded.done_at - $2::bigint
                """,
                [duty.rawValue, Self.milliseconds(interval)]
            ) == 1
        }
    }

    // MARK: Running

    /// Runs `work`, one statement that changes nothing, or nothing more when it runs twice: that it does when a connection turns
    /// out to be broken.
    func read<Value: Sendable>(
        _ work: @escaping @Sendable (Connection) throws -> Value
    ) async throws(UploadError) -> Value {
        try await run { connection in
            do {
                return try work(connection)
            } catch var failure as DatabaseFailure where failure.isConnectionLost {
                failure.isRepeatable = true
                throw failure
            }
        }
    }

    /// Runs `work` in one transaction, which is durable when this returns and undone when it throws.
    ///
    /// When the connection breaks after the transaction began, nothing is repeated: it may have been committed.
    ///
    /// - Parameters:
    ///   - id: An upload whose lease this node must still have if it had it when this was called: until the end of the
    ///     transaction no other node gets it. What is called without a lease is not checked.
    ///   - work: The transaction.
    /// - Returns: What `work` returns.
    /// - Throws: `.interrupted`, with nothing changed, when another node has taken the lease; what `work` throws.
    @discardableResult
    func write<Value: Sendable>(
        holding id: UploadID? = nil,
        _ work: @escaping @Sendable (Connection) throws -> Value
    ) async throws(UploadError) -> Value {
        let lease = id.flatMap(node.lease(of:))
        return try await run { connection in
            var attempt = 1
            while true {
                do {
                    return try Self.transaction(on: connection, holding: lease, work)
                } catch let failure as DatabaseFailure where failure.isConflict && attempt < 3 {
                    // The server undid it, so nothing of it is there.
                    attempt += 1
                }
            }
        }
    }

    private static func transaction<Value>(
        on connection: Connection,
        holding lease: HeldLease?,
        _ work: (Connection) throws -> Value
    ) throws -> Value {
        let isHeld: Bool
        do throws(DatabaseFailure) {
            isHeld = try connection.begin(holding: lease)
        } catch {
            connection.rollback()
            var failure = error
            failure.isRepeatable = true
            throw failure
        }
        guard isHeld else {
            connection.rollback()
            throw UploadError.leaseLost
        }
        let value: Value
        do {
            value = try work(connection)
        } catch {
            connection.rollback()
            throw error
        }
        try connection.commit()
        return value
    }

    private func run<Value: Sendable>(
        _ work: @escaping @Sendable (Connection) throws -> Value
    ) async throws(UploadError) -> Value {
        try await threads.run { [pool, clock] () throws(UploadError) -> Value in
            do {
                return try pool.run { connection in
                    do throws(DatabaseFailure) {
                        try clock.set(by: connection)
                    } catch {
                        // Nothing was begun.
                        var failure = error
                        failure.isRepeatable = true
                        throw failure
                    }
                    return try work(connection)
                }
            } catch {
                throw UploadError(database: error)
            }
        }
    }
}
