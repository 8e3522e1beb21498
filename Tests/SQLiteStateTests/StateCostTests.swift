import Bytes
import Foundation
import GRDB
import GRDBSQLite
import SluiceTesting
import StateRecords
import Synchronization
import SystemIO
import Testing
import UploadCore
import UploadModel

@testable import SQLiteState

@Suite("Costs of SQLite state", .timeLimit(.minutes(10)))
struct StateCostTests {
    /// Number of instructions of SQLite's virtual machine in all statements of a state.
    ///
    /// It does not depend on the machine or its load. A search in an index is one instruction, however deep the tree
    /// is, so no growth needs to be allowed for.
    private final class Counter: Sendable {
        let steps = Atomic<Int>(0)

        func watch(_ database: Database) {
            let context = Unmanaged.passUnretained(self).toOpaque()
            sqlite3_trace_v2(
                database.sqliteConnection,
                UInt32(SQLITE_TRACE_PROFILE),
                { _, context, statement, _ in
                    guard let context, let statement else { return 0 }
                    let steps = sqlite3_stmt_status(OpaquePointer(statement), SQLITE_STMTSTATUS_VM_STEP, 1)
                    Unmanaged<Counter>.fromOpaque(context).takeUnretainedValue().steps.add(
                        Int(steps),
                        ordering: .relaxed
                    )
                    return 0
                },
                context
            )
        }
    }

    private func costs(rows: Int) async throws -> [(name: String, steps: Int)] {
        let directory = try TemporaryDirectory()
        // One thread uses one connection for reading, and the one for writing.
        let pool = BlockingPool(threads: 1, label: "test-state")
        let state = try SQLiteState(path: directory.path("state.db"), isSynchronous: false, pool: pool)
        defer { state.close() }
        let upload = Upload(
            id: .generate(at: Date()),
            dialect: "tus",
            subject: nil,
            principal: "key",
            length: 5,
            createdAt: Date()
        )
        let content = try StoredEvent.json(.sample(.created, of: upload)).text
        for statement in StateCosts.filling(rows: rows, eventContent: content, digest: "zeroblob(16)") {
            try await state.write { try $0.execute(sql: statement) }
        }
        let counter = Counter()
        try await state.write { counter.watch($0) }
        try await state.read { counter.watch($0) }
        var costs: [(String, Int)] = []
        try await StateCosts.run(on: state, rows: rows) { name, call in
            counter.steps.store(0, ordering: .relaxed)
            try await call()
            costs.append((name, counter.steps.load(ordering: .relaxed)))
        }
        return costs
    }

    @Test("the cost of a call does not depend on the number of uploads")
    func costs() async throws {
        let rows = ProcessInfo.processInfo.environment["SLUICE_STATE_ROWS"].flatMap { Int($0) } ?? 100_000
        let few = try await costs(rows: 100)
        let many = try await costs(rows: rows)
        var lines = ["SQLite, steps of its machine, 100 and \(rows) uploads:"]
        for (few, many) in zip(few, many) {
            lines.append("\(few.name): \(few.steps) \(many.steps)")
            // Returning an event writes nothing.
            #expect(few.steps > 0 || few.name == "an event is released")
            #expect(Double(many.steps) <= 1.5 * Double(few.steps), "\(few.name): \(few.steps), then \(many.steps)")
        }
        if rows != 100_000 { print(lines.joined(separator: "\n")) }
    }

    @Test("a part costs the same whatever the number of parts, with a quota, too")
    func parts() async throws {
        let few = try await costOfParts(after: 20)
        let many = try await costOfParts(after: 9_000)
        // The policies are read again after a second.
        #expect(few > 0 && many < few * 2, "\(few) steps after 20 parts, \(many) after 9,000")
    }

    /// Steps for ten parts of an upload that has some, in a process that has checked its limit before.
    private func costOfParts(after count: Int) async throws -> Int {
        let directory = try TemporaryDirectory()
        let pool = BlockingPool(threads: 1, label: "test-state")
        let state = try SQLiteState(path: directory.path("state.db"), isSynchronous: false, pool: pool)
        defer { state.close() }
        let services = UploadServices(
            state: state,
            storage: InMemoryStorage(),
            clock: SystemClock(),
            limits: UploadLimits(maximumBytes: 1 << 40),
            observer: RecordingObserver()
        )
        var policy = Policy()
        policy.storedBytes = 1 << 40
        try await services.quota.setPolicy(policy, of: Account(.subject, "alice"))
        _ = try await services.objects.createBucket("b")
        var new = NewUpload(dialect: "s3", length: nil, completesWhenFull: false)
        new.object = NewObject(ObjectName(bucket: "b", key: "k"), attributes: ObjectAttributes(), takesParts: true)
        let grant = Grant(id: "key_1", subject: "alice", expiresAt: Date().addingTimeInterval(600))
        let id = try await services.uploads.create(new, under: grant).id
        try await state.write { database in
            try database.execute(
                sql: """
                    INSERT INTO object_part (upload_id, number, size, md5, crc64, location, stored_at)
                    WITH RECURSIVE part (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM part WHERE i < ?)
                    SELECT ?, i, 5, zeroblob(16), 0, 'l', 0 FROM part
                    """,
                arguments: [count, id.text]
            )
        }
        func put(_ number: Int) async throws {
            let (upload, part) = try await services.parts.recorded(id, withPart: number)
            let content = ObjectContent(ArraySource([1, 2, 3]), size: 3) { () async throws(UploadError) in
                ContentDigests(md5: [UInt8](repeating: 1, count: 16), crc64: 1)
            }
            _ = try await services.parts.putPart(number, of: upload, replacing: part, content, minimumSize: 0)
        }
        try await put(9_500)
        let counter = Counter()
        try await state.write { counter.watch($0) }
        try await state.read { counter.watch($0) }
        counter.steps.store(0, ordering: .relaxed)
        for number in 9_501...9_510 { try await put(number) }
        #expect(try await state.upload(id)?.reservedBytes == Int64(count) * 5 + 33)
        return counter.steps.load(ordering: .relaxed)
    }
}
