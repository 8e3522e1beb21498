package import Foundation
internal import GRDB
internal import Synchronization
package import Transport
package import UploadCore

/// State in one SQLite file, in WAL mode: what a call recorded survives the end of the process, and a power cut unless
/// that is not asked for.
///
/// Other processes may use the same file at the same time (`sluice keys`), but only one works on deliveries and pulls. All calls run on the blocking pool, and are not
/// cancelled with the task that makes them: what was begun is recorded.
package final class SQLiteState: StateStore {
    private let database: DatabasePool
    private let pool: BlockingPool
    /// Tells what is due.
    let clock: any WallClock
    /// Of deliveries by their sequence; taken and dropped in write transactions, so that none is given away after it was settled.
    let deliveryClaims = Mutex(ProcessClaims<Int64>())
    /// As above.
    let pullClaims = Mutex(ProcessClaims<UploadID>())
    private let turns = Mutex<[Duty: Date]>([:])

    /// Opens the file, makes it if it is missing, and brings its schema up to date.
    ///
    /// - Parameters:
    ///   - path: The database file; `-wal` and `-shm` files stand beside it while it is open.
    ///   - isSynchronous: Each transaction is forced to disk before its call returns. Without it a power cut takes back the
    ///     last ones, in their order, and harms nothing else (https://www.sqlite.org/pragma.html#pragma_synchronous).
    ///   - pool: Where calls run; more than a handful of threads bring nothing, because writes are one at a time.
    ///   - busyTimeout: How long a call waits while another process writes; longer is `.unavailable`.
    ///   - clock: Tells what is due.
    /// - Throws: When the file can not be opened, is no database, or was made by a newer version.
    package init(
        path: String,
        isSynchronous: Bool = true,
        pool: BlockingPool,
        busyTimeout: Duration = .seconds(5),
        clock: any WallClock = SystemClock()
    ) throws(SQLiteStateError) {
        do {
            try DatabaseFile.secure(path)
            self.database = try DatabaseFile.open(path, isSynchronous: isSynchronous, busyTimeout: busyTimeout)
        } catch let error as SQLiteStateError {
            throw error
        } catch {
            throw SQLiteStateError(path: path, reason: "\(error)")
        }
        self.pool = pool
        self.clock = clock
    }

    /// Moves everything into the main file, which is a complete copy of the state then, and closes it; later calls fail.
    package func close() {
        // What closing does by itself only if no other process has the file open. What fails is still in the file beside it.
        _ = try? database.writeWithoutTransaction { try $0.checkpoint(.truncate) }
        try? database.close()
    }

    package func check() async throws(UploadError) {
        _ = try await read { database in try Int.fetchOne(database, sql: "SELECT count(*) FROM api_key") }
    }

    /// Turns are forgotten with the process: the next one does everything anew.
    package func takeTurn(at duty: Duty, every interval: TimeInterval) async throws(UploadError) -> Bool {
        let now = clock.now
        return turns.withLock { turns in
            if let last = turns[duty], now.timeIntervalSince(last) < interval { return false }
            turns[duty] = now
            return true
        }
    }

    // MARK: Running

    func read<Value: Sendable>(
        _ work: @escaping @Sendable (Database) throws -> Value
    ) async throws(UploadError) -> Value {
        try await pool.run { [database] () throws(UploadError) -> Value in
            do { return try database.read(work) } catch { throw UploadError(database: error) }
        }
    }

    /// Runs `work` in one transaction, which is durable when this returns and undone when it throws.
    func write<Value: Sendable>(
        _ work: @escaping @Sendable (Database) throws -> Value
    ) async throws(UploadError) -> Value {
        try await pool.run { [database] () throws(UploadError) -> Value in
            do { return try database.write(work) } catch { throw UploadError(database: error) }
        }
    }

    /// As `write`, and what was recorded is forced to disk with all before it, whatever the settings.
    func writeDurably<Value: Sendable>(
        _ work: @escaping @Sendable (Database) throws -> Value
    ) async throws(UploadError) -> Value {
        try await pool.run { [database] () throws(UploadError) -> Value in
            do {
                return try database.writeWithoutTransaction { database in
                    let level = try Int.fetchOne(database, sql: "PRAGMA synchronous") ?? 2
                    try database.execute(sql: "PRAGMA synchronous = FULL")
                    defer { try? database.execute(sql: "PRAGMA synchronous = \(level)") }
                    var value: Value?
                    try database.inTransaction(.immediate) {
                        value = try work(database)
                        return .commit
                    }
                    guard let value else { throw UploadError(.storageFailure, "The transaction did not run.") }
                    return value
                }
            } catch {
                throw UploadError(database: error)
            }
        }
    }
}

extension Database {
    /// Runs a statement that is compiled once for each connection.
    func run(_ sql: String, _ arguments: StatementArguments = StatementArguments()) throws {
        try cachedStatement(sql: sql).execute(arguments: arguments)
    }

    func rows(_ sql: String, _ arguments: StatementArguments = StatementArguments()) throws -> [Row] {
        try Row.fetchAll(cachedStatement(sql: sql), arguments: arguments)
    }

    func row(_ sql: String, _ arguments: StatementArguments = StatementArguments()) throws -> Row? {
        try Row.fetchOne(cachedStatement(sql: sql), arguments: arguments)
    }
}
