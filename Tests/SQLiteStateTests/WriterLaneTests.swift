import Foundation
import GRDB
import SluiceTesting
import Synchronization
import SystemIO
import Testing
import UploadModel

@testable import SQLiteState

@Suite("Writer lane", .timeLimit(.minutes(10)))
struct WriterLaneTests {
    /// Counts commits; rollbacks are no commits.
    fileprivate final class CommitCounter: TransactionObserver, Sendable {
        private let contents = Mutex(0)

        var count: Int { contents.withLock { $0 } }

        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseDidCommit(_ db: Database) { contents.withLock { $0 += 1 } }
        func databaseDidRollback(_ db: Database) {}
    }

    /// A lane whose database has, besides the tables of the state, a table of numbers; each number is there once.
    struct Bench {
        let directory: TemporaryDirectory
        let database: DatabasePool
        let lane: WriterLane
        let usages = PendingUsages()
        fileprivate let commits = CommitCounter()
        private let gate = DispatchSemaphore(value: 0)

        init() async throws {
            directory = try TemporaryDirectory()
            database = try DatabasePool(path: directory.path("numbers.sqlite"))
            try DatabaseFile.migrator.migrate(database)
            try await database.write { database in
                try database.execute(
                    sql: """
                        CREATE TABLE number (value INTEGER PRIMARY KEY,
                            double INTEGER REFERENCES number (value) DEFERRABLE INITIALLY DEFERRED)
                        """
                )
            }
            try await database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = NORMAL") }
            database.add(transactionObserver: commits, extent: .databaseLifetime)
            lane = WriterLane(database, pool: BlockingPool(threads: 2, label: "test-lane"), usages: usages)
        }

        func insert(_ value: Int) async throws(UploadError) {
            try await lane.write { try $0.execute(sql: "INSERT INTO number (value) VALUES (?)", arguments: [value]) }
        }

        var values: [Int] {
            get async throws {
                try await database.read { try Int.fetchAll($0, sql: "SELECT value FROM number ORDER BY value") }
            }
        }

        /// Runs `work` for each number while the lane is busy, so that all of it waits for the same transaction.
        ///
        /// - Returns: The codes of the errors, by number.
        func together(
            _ numbers: Range<Int>,
            _ work: @escaping @Sendable (Int) async throws(UploadError) -> Void
        ) async throws -> [Int: UploadError.Code] {
            let begun = DispatchSemaphore(value: 0)
            async let first: Void = lane.write { [gate] _ in
                begun.signal()
                gate.wait()
            }
            await withCheckedContinuation { continuation in
                DispatchQueue.global().async {
                    begun.wait()
                    continuation.resume()
                }
            }
            let codes = try await withThrowingTaskGroup(of: (Int, UploadError.Code?).self) { group in
                for (index, number) in numbers.enumerated() {
                    group.addTask {
                        (number, await errorCode { () async throws(UploadError) in try await work(number) })
                    }
                    while lane.waiting <= index { await Task.yield() }
                }
                gate.signal()
                var codes: [Int: UploadError.Code] = [:]
                for try await (number, code) in group { codes[number] = code }
                return codes
            }
            try await first
            return codes
        }
    }

    @Test("work that waits shares one transaction")
    func shared() async throws {
        let bench = try await Bench()
        #expect(
            try await bench.together(0..<20) { number throws(UploadError) in try await bench.insert(number) } == [:]
        )
        #expect(try await bench.values == Array(0..<20))
        // The first one changes nothing.
        #expect(bench.commits.count <= 2)
    }

    @Test("work that throws leaves nothing, and its neighbours stay")
    func savepoints() async throws {
        let bench = try await Bench()
        let codes = try await bench.together(0..<9) { number throws(UploadError) in
            try await bench.lane.write { database in
                try database.execute(sql: "INSERT INTO number (value) VALUES (?)", arguments: [number])
                if number % 3 == 1 { throw UploadError(.rejected, "No.") }
            }
        }
        #expect(codes == [1: .rejected, 4: .rejected, 7: .rejected])
        #expect(try await bench.values == [0, 2, 3, 5, 6, 8])
        #expect(bench.commits.count <= 2)
    }

    @Test("a transaction that cannot be committed fails only for the work that is to blame")
    func commitFails() async throws {
        let bench = try await Bench()
        let codes = try await bench.together(0..<5) { number throws(UploadError) in
            try await bench.lane.write { database in
                let double = number == 2 ? 99 : nil
                try database.execute(sql: "INSERT INTO number VALUES (?, ?)", arguments: [number, double])
            }
        }
        #expect(codes == [2: .storageFailure])
        #expect(try await bench.values == [0, 1, 3, 4])
    }

    @Test("work that ends the transaction for all does not take the others with it")
    func transactionEnds() async throws {
        let bench = try await Bench()
        let codes = try await bench.together(0..<5) { number throws(UploadError) in
            try await bench.lane.write { database in
                try database.execute(sql: "INSERT INTO number (value) VALUES (?)", arguments: [number])
                guard number == 3 else { return }
                // As SQLite does for a full disk.
                try database.execute(sql: "ROLLBACK")
                throw DatabaseError(resultCode: .SQLITE_FULL)
            }
        }
        #expect(codes == [3: .storageFull])
        #expect(try await bench.values == [0, 1, 2, 4])
    }

    @Test("work that must run once does so, whatever becomes of its neighbours")
    func once() async throws {
        let bench = try await Bench()
        let runs = Mutex<[Int: Int]>([:])
        let codes = try await bench.together(0..<5) { number throws(UploadError) in
            try await bench.lane.write(isAlone: number == 2) { database in
                runs.withLock { $0[number, default: 0] += 1 }
                let double = number == 1 ? 99 : nil
                try database.execute(sql: "INSERT INTO number VALUES (?, ?)", arguments: [number, double])
            }
        }
        #expect(codes == [1: .storageFailure])
        #expect(runs.withLock { $0 } == [0: 2, 1: 2, 2: 1, 3: 1, 4: 1])
        #expect(try await bench.values == [0, 2, 3, 4])
    }

    @Test("durable work is synced whatever the settings, and other work is not")
    func durable() async throws {
        let bench = try await Bench()
        let levels = Mutex<[Int: Int]>([:])
        _ = try await bench.together(0..<5) { number throws(UploadError) in
            try await bench.lane.write(isDurable: number == 2) { database in
                let level = try Int.fetchOne(database, sql: "PRAGMA synchronous")
                levels.withLock { $0[number] = level }
            }
        }
        #expect(levels.withLock { $0 } == [0: 1, 1: 1, 2: 2, 3: 1, 4: 1])
    }

    @Test("a closed database refuses everything that waits")
    func closed() async throws {
        let bench = try await Bench()
        try await bench.insert(1)
        try bench.database.close()
        for number in 2..<4 {
            #expect(
                await errorCode { () async throws(UploadError) in try await bench.insert(number) } == .storageFailure
            )
        }
    }
}
