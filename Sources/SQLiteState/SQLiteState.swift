package import Foundation
internal import GRDB
package import MetricsKit
package import StateRecords
internal import Synchronization
package import SystemIO
package import UploadModel

/// State in one SQLite file in WAL mode.
///
/// What a call recorded survives the end of the process and, unless synchronous writes are turned off, a power cut.
///
/// Other processes may use the same file at the same time (`sluice keys`), but only one may process deliveries and
/// pulls. Calls run on the blocking pool and are not cancelled with the calling task: once started, they are recorded.
package final class SQLiteState: StateStore {
    private let database: DatabasePool
    private let pool: BlockingPool
    private let lane: WriterLane
    private let operations: StateOperations
    /// Changed only in write transactions.
    let usages = PendingUsages()
    let recording: EventRecording
    /// Decides what is due.
    let clock: any WallClock
    /// Claims of deliveries by sequence number; changed only in write transactions, so that no settled delivery is
    /// claimed again.
    let deliveryClaims = Mutex(ProcessClaims<Int64>())
    /// The user whose events were claimed last.
    let lastDeliveryTurn = Mutex(DeliveryTurns.noUser)
    /// Claims of pulls by upload, under the same rule.
    let pullClaims = Mutex(ProcessClaims<String>())
    /// Claimed for nobody.
    let unreadable: UnreadableRows
    private let turns = Mutex<[PeriodicJob: Date]>([:])

    /// Opens the file, creates it if it is missing, and migrates its schema.
    ///
    /// - Parameters:
    ///   - path: The database file; `-wal` and `-shm` files exist beside it while it is open.
    ///   - isSynchronous: Whether each transaction is on disk before its call returns. Without it, a power cut loses
    ///     the latest transactions, in order, and does no other harm
    ///     (https://www.sqlite.org/pragma.html#pragma_synchronous).
    ///   - pool: Runs the calls: one thread writes, the others read.
    ///   - busyTimeout: How long a call waits while another process writes; beyond it `.unavailable`.
    ///   - clock: Decides what is due.
    ///   - metrics: Takes the durations of operations.
    ///   - reserve: Space on the disk of the file for work that frees space.
    /// - Throws: An error if the file cannot be opened, is not a database, or was created by a newer version.
    package init(
        path: String,
        isSynchronous: Bool = true,
        pool: BlockingPool,
        busyTimeout: Duration = .seconds(5),
        clock: any WallClock = SystemClock(),
        metrics: MetricsRegistry = MetricsRegistry(),
        reserve: SpaceReserve? = nil
    ) throws(SQLiteStateError) {
        operations = StateOperations(.sqlite, metrics)
        unreadable = UnreadableRows(metrics)
        do {
            // Even opening needs space, for the shared memory.
            let opened = { () -> Result<DatabasePool, any Error> in
                Result {
                    try DatabaseFile.secure(path)
                    return try DatabaseFile.open(path, isSynchronous: isSynchronous, busyTimeout: busyTimeout)
                }
            }
            let lent = reserve?.lend(BlockingIO.onCallingThread, isFull: DatabaseFile.mayBeFull, to: opened)
            database = try (lent ?? opened()).get()
            recording = try database.unsafeRead(EventRecording.init)
        } catch let error as SQLiteStateError {
            throw error
        } catch {
            throw SQLiteStateError(path: path, reason: (error as? SystemError)?.reason ?? "\(error)")
        }
        self.pool = pool
        lane = WriterLane(database, pool: pool, usages: usages, reserve: reserve)
        self.clock = clock
    }

    /// How the tables of an existing file compare with those of this version; nothing is changed.
    ///
    /// - Throws: An error if the file cannot be read, or is not a database.
    package static func age(of path: String) throws(SQLiteStateError) -> SchemaAge {
        do {
            return try DatabaseFile.age(path)
        } catch {
            throw SQLiteStateError(path: path, reason: "\(error)")
        }
    }

    /// The version of the SQLite library, such as `3.40.1`; `nil` if it cannot be used.
    package static var libraryVersion: String? { try? DatabaseFile.libraryVersion() }

    /// The oldest version that has STRICT tables (https://www.sqlite.org/stricttables.html).
    package static let oldestLibrary = "3.37.0"

    /// Moves everything into the main file, which is then a complete copy of the state, and closes it; later calls
    /// fail.
    package func close() {
        // Closing does this on its own only if no other process has the file open. If it fails, the data remains in the
        // file beside it.
        _ = try? database.writeWithoutTransaction { try $0.checkpoint(.truncate) }
        try? database.close()
    }

    package func check() async throws(UploadError) {
        _ = try await read { database in try Int.fetchOne(database, sql: "SELECT count(*) FROM api_key") }
    }

    /// Claims end with the process: the next one runs every job again.
    package func claimJob(at job: PeriodicJob, every interval: TimeInterval) async throws(UploadError) -> Bool {
        let now = clock.now
        return turns.withLock { turns in
            if let last = turns[job], now.timeIntervalSince(last) < interval { return false }
            turns[job] = now
            return true
        }
    }

    // MARK: Running

    /// Runs `work`, whose statements need not see the same moment: each is a transaction of its own.
    func read<Value: Sendable>(
        _ work: @escaping @Sendable (Database) throws -> Value
    ) async throws(UploadError) -> Value {
        try await operations.measured(.read) { () async throws(UploadError) in
            try await pool.run { [database] () throws(UploadError) -> Value in
                do { return try database.unsafeRead(work) } catch { throw UploadError(database: error) }
            }
        }
    }

    /// Runs `work`, whose statements see the same moment.
    func readTogether<Value: Sendable>(
        _ work: @escaping @Sendable (Database) throws -> Value
    ) async throws(UploadError) -> Value {
        try await operations.measured(.read) { () async throws(UploadError) in
            try await pool.run { [database] () throws(UploadError) -> Value in
                do { return try database.read(work) } catch { throw UploadError(database: error) }
            }
        }
    }

    /// Runs `work` outside of a transaction, on the connection that writes.
    func outside(_ work: @escaping @Sendable (Database) throws -> Void) async throws(UploadError) {
        try await pool.run { [database] () throws(UploadError) in
            do { try database.writeWithoutTransaction(work) } catch { throw UploadError(database: error) }
        }
    }

    /// Runs `work` in one transaction, which is durable when this returns and rolled back when it throws; see `WriterLane`.
    ///
    /// - Parameters:
    ///   - room: What it does on a disk without room; within `FreeingWork` it may always use the reserve, or its half.
    ///   - work: Its changes.
    /// - Returns: The result of `work`.
    /// - Throws: What `work` throws, or why the transaction failed.
    func write<Value: Sendable>(
        _ room: WriterLane.Room = .needed,
        _ work: @escaping @Sendable (Database) throws -> Value
    ) async throws(UploadError) -> Value {
        let room =
            switch (room, FreeingWork.isRunning) {
            case (.reserve, _), (_, true): FreeingWork.onlyAdds ? WriterLane.Room.half : .reserve
            default: room
            }
        return try await operations.measured(.write) { () async throws(UploadError) in
            try await lane.write(room: room, work)
        }
    }

    /// Like `write`, for work with an effect outside the database: it runs once.
    ///
    /// It only reads, in the order of the transactions.
    func writeOnce<Value: Sendable>(
        _ work: @escaping @Sendable (Database) throws -> Value
    ) async throws(UploadError) -> Value {
        try await operations.measured(.write) { () async throws(UploadError) in
            try await lane.write(isAlone: true, room: .little, work)
        }
    }

    /// Like `write`, but everything recorded up to now is forced to disk, whatever the settings.
    ///
    /// For the mark of the store, which changes with deletions, too.
    func writeDurably<Value: Sendable>(
        _ work: @escaping @Sendable (Database) throws -> Value
    ) async throws(UploadError) -> Value {
        try await operations.measured(.write) { () async throws(UploadError) in
            try await lane.write(isDurable: true, room: .little, work)
        }
    }
}

extension Database {
    /// Runs a statement that is compiled once per connection.
    func run(_ sql: String, _ arguments: SQLiteArguments = SQLiteArguments()) throws {
        try cachedStatement(sql: sql).execute(arguments: arguments.bound)
    }

    func rows(_ sql: String, _ arguments: SQLiteArguments = SQLiteArguments()) throws -> [StoredRow] {
        try StoredRow.all(self, sql, arguments)
    }

    func row(_ sql: String, _ arguments: SQLiteArguments = SQLiteArguments()) throws -> StoredRow? {
        // The statements name one row, or have a limit.
        try StoredRow.all(self, sql, arguments).first
    }
}
