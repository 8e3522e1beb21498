import Foundation
import GRDB
import GRDBSQLite
import SluiceTesting
import StateRecords
import Synchronization
import SystemIO
import Testing
import UploadCore

@testable import SQLiteState

@Suite("Costs of SQLite state")
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
}
