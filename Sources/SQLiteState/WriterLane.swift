internal import GRDB
internal import Synchronization
internal import SystemIO
internal import UploadModel

/// Writes to one database, one transaction at a time; all work that waits shares the next transaction and its sync.
///
/// While one transaction is synced, new work collects for the next one. So a single caller waits for one sync as before, and
/// under load many callers share one sync. No timer is involved.
///
/// Each piece of work runs in a savepoint: if it throws, its changes are undone, and those of its neighbours are kept. If the
/// whole transaction fails, each piece runs again in a transaction of its own. So work can run twice, unless it asks for a
/// transaction of its own because it has an effect outside the database.
final class WriterLane: Sendable {
    /// What work does on a disk without room.
    enum Room: Sendable {
        /// It is refused while the reserve is not whole.
        case needed
        /// It makes do with what there is: it writes next to nothing, and goes on while the reserve is in use.
        case little
        /// It frees space, and may use the reserve for that.
        case reserve
        /// It only adds a record, although its caller may do so on a full disk: it may use half of the reserve.
        case half

        var mayUseReserve: Bool { self == .reserve || self == .half }
    }

    private struct Job: Sendable {
        let run: @Sendable (Database) throws -> Void
        /// Called exactly once, after the transaction ended; `nil` if the changes are recorded.
        let end: @Sendable ((any Error)?) -> Void
        /// Whether the work has a transaction of its own, and runs once.
        let isAlone: Bool
        /// Whether the transaction is synced whatever the settings; such work is alone, too.
        let isDurable: Bool
        let room: Room

        var needsRoom: Bool { room == .needed }
    }

    private struct Queue {
        var jobs: [Job] = []
        var isRunning = false
    }

    private let database: DatabasePool
    private let pool: BlockingPool
    private let usages: PendingUsages
    private let reserve: SpaceReserve?
    private let queue = Mutex(Queue())

    /// - Parameters:
    ///   - database: Nothing else writes to it while the lane runs.
    ///   - pool: Lends one thread while there is work.
    ///   - usages: Written before each commit.
    ///   - reserve: Space for work that frees space.
    init(_ database: DatabasePool, pool: BlockingPool, usages: PendingUsages, reserve: SpaceReserve? = nil) {
        self.database = database
        self.pool = pool
        self.usages = usages
        self.reserve = reserve
    }

    /// Runs `work` in a transaction; returns when the transaction is recorded.
    ///
    /// - Parameters:
    ///   - isAlone: Whether `work` has a transaction of its own, and runs once.
    ///   - isDurable: Whether to sync it, and all earlier transactions, whatever the settings; it is then alone, too.
    ///   - room: What it does on a disk without room.
    ///   - work: Its changes are undone if it throws.
    /// - Returns: The result of the last run of `work`.
    /// - Throws: What `work` throws, or why the transaction failed.
    func write<Value: Sendable>(
        isAlone: Bool = false,
        isDurable: Bool = false,
        room: Room = .needed,
        _ work: @escaping @Sendable (Database) throws -> Value
    ) async throws(UploadError) -> Value {
        let result = WriteResult<Value>()
        let error: UploadError? = await withUnsafeContinuation { continuation in
            append(
                Job(
                    run: { database in result.value = try work(database) },
                    end: { error in continuation.resume(returning: error.map(UploadError.init(database:))) },
                    isAlone: isAlone || isDurable,
                    isDurable: isDurable,
                    room: room
                )
            )
        }
        if let error { throw error }
        guard let value = result.value else { throw UploadError(.storageFailure, "The transaction did not run.") }
        return value
    }

    /// The number of pieces of work that wait for a transaction.
    var waiting: Int { queue.withLock { $0.jobs.count } }

    private func append(_ job: Job) {
        let starts = queue.withLock { queue in
            queue.jobs.append(job)
            defer { queue.isRunning = true }
            return !queue.isRunning
        }
        if starts { pool.submit { [self] io in drain(io) } }
    }

    /// Removes the work of the next transaction from the queue.
    ///
    /// - Returns: `nil` if no work waits; the next call of `append` then starts a new drain.
    private func next() -> [Job]? {
        queue.withLock { queue in
            guard let first = queue.jobs.first else {
                queue.isRunning = false
                return nil
            }
            let count =
                first.isAlone ? 1 : queue.jobs.prefix(Self.maximumBatch).prefix(while: { !$0.isAlone }).count
            defer { queue.jobs.removeFirst(count) }
            return Array(queue.jobs.prefix(count))
        }
    }

    private func drain(_ io: BlockingIO) {
        while var jobs = next() {
            if let reserve, jobs.contains(where: \.needsRoom), !reserve.hasRoom(io) {
                for job in jobs where job.needsRoom { job.end(UploadError.noRoom) }
                jobs.removeAll(where: \.needsRoom)
            }
            if !jobs.isEmpty { database.writeWithoutTransaction { database in run(jobs, on: database, io) } }
        }
    }

    private func run(_ jobs: [Job], on database: Database, _ io: BlockingIO) {
        if let job = jobs.first, jobs.count == 1 { return job.end(alone(job, on: database, io)) }
        var errors: [(any Error)?] = []
        do {
            try database.run("BEGIN IMMEDIATE")
        } catch {
            // Alone, each would wait as long for the other process.
            for job in jobs { job.end(error) }
            return
        }
        do {
            for job in jobs { errors.append(try inSavepoint(job, on: database)) }
            try usages.write(to: database)
            try database.run("COMMIT")
        } catch {
            usages.discard()
            if database.isInsideTransaction { try? database.run("ROLLBACK") }
            for job in jobs { job.end(alone(job, on: database, io)) }
            return
        }
        for (job, error) in zip(jobs, errors) { job.end(error) }
    }

    /// Runs work within the shared transaction.
    ///
    /// - Returns: What it threw.
    /// - Throws: If the shared transaction is over; SQLite ends it for some errors, such as a full disk. Also if work that frees
    ///   space has none; alone it can use the reserve.
    private func inSavepoint(_ job: Job, on database: Database) throws -> (any Error)? {
        try database.run("SAVEPOINT work")
        let mark = usages.mark
        do {
            try job.run(database)
            try database.run("RELEASE work")
            return nil
        } catch {
            let needsReserve = job.room.mayUseReserve && DatabaseFile.isFull(error)
            guard database.isInsideTransaction, !needsReserve else { throw error }
            try database.run("ROLLBACK TO work")
            try database.run("RELEASE work")
            usages.roll(back: mark)
            return error
        }
    }

    /// Runs work in a transaction of its own, with the reserve if it frees space.
    ///
    /// - Returns: Why it failed.
    private func alone(_ job: Job, on database: Database, _ io: BlockingIO) -> (any Error)? {
        guard let reserve, job.room.mayUseReserve else { return tried(job, on: database) }
        let keepsHalf = job.room == .half
        let result: Result<Void, any Error> = reserve.lend(io, keepsHalf: keepsHalf, isFull: DatabaseFile.isFull) {
            tried(job, on: database).map { .failure($0) } ?? .success(())
        } returnSpace: {
            DatabaseFile.shortenLog(database)
        }
        guard case .failure(let error) = result else { return nil }
        return error
    }

    /// - Returns: Why it failed.
    private func tried(_ job: Job, on database: Database) -> (any Error)? {
        do {
            if job.isDurable {
                let level = try Int.fetchOne(database, sql: "PRAGMA synchronous") ?? 2
                try database.execute(sql: "PRAGMA synchronous = FULL")
                defer { try? database.execute(sql: "PRAGMA synchronous = \(level)") }
                try commit(job, on: database)
            } else {
                try commit(job, on: database)
            }
            return nil
        } catch {
            return error
        }
    }

    private func commit(_ job: Job, on database: Database) throws {
        try database.run("BEGIN IMMEDIATE")
        do {
            try job.run(database)
            try usages.write(to: database)
            try database.run("COMMIT")
        } catch {
            usages.discard()
            if database.isInsideTransaction { try? database.run("ROLLBACK") }
            throw error
        }
    }

    /// Bounds how long a call waits for the work of others.
    private static let maximumBatch = 128
}

/// The result of work.
///
/// Invariant: only the lane's thread writes `value`, and the caller reads it after the lane has resumed it.
private final class WriteResult<Value>: @unchecked Sendable {
    var value: Value?
}
