internal import Transport
package import UploadCore

/// State in PostgreSQL 12 or newer, for any number of nodes.
///
/// A call is one transaction, committed when it returns. Calls run on threads of their own, as many as there are connections,
/// and are not cancelled with the task that makes them: what was begun is recorded.
///
/// All transactions lock in the same order, so that none waits for another in a circle: a used grant, uploads by their id,
/// accounts by kind and name, the events of an upload, the counter of events. See docs/decisions/0015-postgres-state.md.
package final class PostgresState: StateStore {
    private let pool: ConnectionPool
    private let threads: BlockingPool

    /// Connects, and brings the schema up to date.
    ///
    /// - Throws: When the database can not be reached or changed, or was made by a newer version.
    package static func open(_ settings: PostgresSettings) async throws(PostgresStateError) -> PostgresState {
        let target = try Target(settings)
        let state = PostgresState(target)
        do {
            try await state.threads.run { [pool = state.pool] in
                Result { try pool.run { try Schema.migrate($0) } }
            }.get()
        } catch {
            state.close()
            switch error {
            case is NewerSchema:
                throw PostgresStateError(location: target.location, reason: "it was made by a newer version of Sluice.")
            case let failure as DatabaseFailure:
                throw PostgresStateError(location: target.location, reason: failure.message)
            default:
                throw PostgresStateError(location: target.location, reason: "\(error)")
            }
        }
        return state
    }

    private init(_ target: Target) {
        pool = ConnectionPool(target)
        threads = BlockingPool(threads: target.settings.connections, label: "sluice.postgres")
    }

    /// Closes the connections; later calls fail.
    package func close() { pool.close() }

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
    }

    // MARK: Running

    /// Runs `work`, which is one statement that changes nothing; so it may run twice, when a connection turns out to be broken.
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
    @discardableResult
    func write<Value: Sendable>(
        _ work: @escaping @Sendable (Connection) throws -> Value
    ) async throws(UploadError) -> Value {
        try await run { connection in
            var attempt = 1
            while true {
                do {
                    return try Self.transaction(on: connection, work)
                } catch let failure as DatabaseFailure where failure.isConflict && attempt < 3 {
                    // The server undid it, so nothing of it is there.
                    attempt += 1
                }
            }
        }
    }

    private static func transaction<Value>(
        on connection: Connection,
        _ work: (Connection) throws -> Value
    ) throws -> Value {
        do throws(DatabaseFailure) {
            try connection.begin()
        } catch {
            var failure = error
            failure.isRepeatable = true
            throw failure
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
        try await threads.run { [pool] () throws(UploadError) -> Value in
            do { return try pool.run(work) } catch { throw UploadError(database: error) }
        }
    }
}
