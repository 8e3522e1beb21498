package import Foundation
package import MetricsKit
internal import StateRecords
internal import Synchronization
package import SystemIO
package import UploadModel

/// State in PostgreSQL 12 or newer, for any number of nodes.
///
/// Each call is one transaction, committed when it returns. Statements whose results decide nothing are sent together,
/// the COMMIT with the last of them, so most calls are one or two round trips. Calls run on their own threads, one per connection, and are
/// not cancelled with the calling task: once started, they are recorded.
///
/// To avoid deadlocks, all transactions lock in the same order: the lease of an upload, a used grant, a bucket, uploads
/// by id, the name of an object, accounts by kind and name, the events of an upload, which events are recorded, the
/// counter of events. See docs/decisions/0015-postgres-state.md, 0017-leases.md and 0045-postgres-round-trips.md.
package final class PostgresState: StateStore {
    let node: Node
    private let pool: ConnectionPool
    private let threads: BlockingPool
    private let operations: StateOperations
    /// How long a call waits for transactions of others; beyond it `.unavailable`.
    let lockTimeout: Duration
    /// Whether the backlog will soon be cleared.
    let isClearing = Mutex(false)
    /// Number of events that this process has left out because nothing wants them.
    let omittedEvents = Atomic<Int64>(0)
    /// Put off.
    let unreadable: UnreadableRows
    /// The user whose events this process claimed last.
    let lastDeliveryTurn = Mutex(DeliveryTurns.noUser)
    /// For decisions that depend on the time: the clocks of nodes may differ.
    package let clock = DatabaseClock()

    /// Connects, migrates the schema, and joins the other nodes.
    ///
    /// - Parameters:
    ///   - settings: The connection settings.
    ///   - isNode: Whether it uses uploads; otherwise it takes no leases and receives no events.
    ///   - pool: Runs the calls, one thread for each connection; `nil` for one of its own.
    ///   - metrics: Takes the durations of operations.
    /// - Returns: The state, which must be closed.
    /// - Throws: An error if the database cannot be reached or changed, was created by a newer version, or contains an
    ///   unfinished copy.
    package static func open(
        _ settings: PostgresSettings,
        asNode isNode: Bool = true,
        pool: BlockingPool? = nil,
        metrics: MetricsRegistry = MetricsRegistry()
    ) async throws(PostgresStateError) -> PostgresState {
        try await open(settings, asNode: isNode, amidImport: false, pool: pool, metrics: metrics)
    }

    static func open(
        _ settings: PostgresSettings,
        asNode isNode: Bool,
        amidImport isImporting: Bool,
        pool: BlockingPool? = nil,
        metrics: MetricsRegistry = MetricsRegistry()
    ) async throws(PostgresStateError) -> PostgresState {
        let target = try Target(settings)
        let state = PostgresState(target, pool, metrics)
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
                throw PostgresStateError(
                    location: target.location,
                    reason: "it was created by a newer version of Sluice."
                )
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

    private init(_ target: Target, _ threads: BlockingPool?, _ metrics: MetricsRegistry) {
        operations = StateOperations(.postgres, metrics)
        unreadable = UnreadableRows(metrics)
        pool = ConnectionPool(target)
        self.threads = threads ?? BlockingPool(threads: target.settings.connections, label: "sluice.postgres")
        lockTimeout = target.settings.lockTimeout
        node = Node(target)
        node.onBacklog { [weak self] in self?.clearBacklogSoon() }
    }

    deinit { node.close() }

    /// Closes the connections; later calls fail.
    package func close() {
        node.close()
        pool.close()
    }

    /// Registers `ring`, called on any thread when another node has, or may have, recorded events.
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
            throw UploadError(.unavailable, "The other servers cannot reach this one; try again later.")
        }
    }

    package func claimJob(at job: PeriodicJob, every interval: TimeInterval) async throws(UploadError) -> Bool {
        try await write { connection in
            try connection.run(
                """
                INSERT INTO duty (name, done_at) VALUES ($1, \(Connection.now))
                ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at
                WHERE duty.done_at <= excluded.done_at - $2::bigint
                """,
                [job.rawValue, Self.milliseconds(interval)]
            ) == 1
        }
    }

    // MARK: Running

    /// Runs `work`, which must be a single statement that is safe to repeat: it runs twice if a connection turns out to
    /// be broken.
    func read<Value: Sendable>(
        _ work: @escaping @Sendable (Connection) throws -> Value
    ) async throws(UploadError) -> Value {
        try await run(.read) { connection in
            do {
                return try work(connection)
            } catch var failure as DatabaseFailure where failure.isConnectionLost {
                failure.isRepeatable = true
                throw failure
            }
        }
    }

    /// Runs `work` in one transaction, which is durable when this returns and rolled back when it throws.
    ///
    /// If the connection breaks during the transaction, nothing is repeated, because it may have been committed.
    ///
    /// - Parameters:
    ///   - id: An upload. If this node holds its lease when this is called, it must keep it: no other node gets the
    ///     lease until the transaction ends. Without a lease, nothing is checked.
    ///   - work: The transaction.
    /// - Returns: What `work` returns.
    /// - Throws: `.interrupted`, with nothing changed, if another node has taken the lease; the errors of `work`.
    @discardableResult
    func write<Value: Sendable>(
        holding id: UploadID? = nil,
        _ work: @escaping @Sendable (Connection) throws -> Value
    ) async throws(UploadError) -> Value {
        let lease = id.flatMap(node.lease(of:))
        return try await run(.write) { [weak self] connection in
            var attempt = 1
            while true {
                do {
                    connection.attempt = attempt
                    connection.mayAppendChanges = attempt == 1 && self?.node.appendsChanges == true
                    let value = try Self.transaction(on: connection, holding: lease, work)
                    let omitted = connection.events.count { $0.count == 0 }
                    if omitted > 0 { self?.omittedEvents.add(Int64(omitted), ordering: .relaxed) }
                    if connection.hasBacklog || omitted < connection.events.count { self?.clearBacklogSoon() }
                    return value
                } catch let failure as DatabaseFailure where failure.isConflict && attempt < 3 {
                    // The server rolled it back, so it left no trace.
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
        do throws(DatabaseFailure) {
            try connection.begin(holding: lease)
        } catch {
            var failure = error
            failure.isRepeatable = true
            throw failure
        }
        do {
            let value = try work(connection)
            try connection.commit()
            return value
        } catch {
            connection.rollback()
            throw error
        }
    }

    private func run<Value: Sendable>(
        _ kind: StateOperations.Kind,
        _ work: @escaping @Sendable (Connection) throws -> Value
    ) async throws(UploadError) -> Value {
        try await operations.measured(kind) { () async throws(UploadError) in try await onThread(work) }
    }

    private func onThread<Value: Sendable>(
        _ work: @escaping @Sendable (Connection) throws -> Value
    ) async throws(UploadError) -> Value {
        try await threads.run { [pool, clock] () throws(UploadError) -> Value in
            do {
                return try pool.run { connection in
                    do throws(DatabaseFailure) {
                        try clock.set(by: connection)
                    } catch {
                        // Nothing was started.
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
