import Foundation
import GRDB
import SluiceTesting
import StateRecords
import SystemIO
import Testing
import UploadModel

@testable import SQLiteState

@Suite("Events that nothing wants", .timeLimit(.minutes(10)))
struct EventRecordingTests {
    private let start = Date(timeIntervalSince1970: 1_750_000_000)
    private let week: TimeInterval = 7 * 24 * 3600

    private func open(_ directory: TemporaryDirectory) throws -> SQLiteState {
        try SQLiteState(path: directory.path("state.sqlite"), pool: BlockingPool(threads: 2, label: "test-state"))
    }

    /// Records an event of an upload.
    private func record(_ state: SQLiteState, at date: Date, isDelivered: Bool = false) async throws {
        let upload = Upload(
            id: UploadID.generate(at: date),
            dialect: "tus",
            subject: "alice",
            principal: "key_1",
            length: 5,
            createdAt: date
        )
        var event = EventRecord.sample(.created, of: upload)
        event.delivery = isDelivered ? event.delivery : nil
        try await state.record(event)
    }

    @Test("meet the contract", arguments: EventRecordingContract.all)
    func contract(_ contract: Contract<RecordingBench>) async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory)
        defer { state.close() }
        // The states share the file.
        let bench = RecordingBench(state, clock: ManualClock(start)) { try open(directory) }
        try await contract.check(bench)
    }

    @Test("of a version that recorded all events are kept for a week more")
    func upgrade() async throws {
        let directory = try TemporaryDirectory()
        var state = try open(directory)
        try await record(state, at: start, isDelivered: true)
        state.close()
        let queue = try DatabaseQueue(path: directory.path("state.sqlite"))
        try await queue.write { database in
            try database.execute(sql: "DROP TABLE event_recording")
            try database.execute(sql: "DELETE FROM grdb_migrations WHERE identifier LIKE '0011%'")
        }
        try queue.close()
        state = try open(directory)
        try await record(state, at: Date(timeIntervalSinceNow: week - 3600))
        try await record(state, at: Date(timeIntervalSinceNow: week + 3600))
        #expect(try await state.events(EventQuery(after: 0)).count == 2)
        state.close()
    }

    @Test("and those that were kept are known to a copy")
    func history() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory)
        #expect(try await state.eventHistory() == EventHistory(lastEvent: 0, keptUntil: Date(timeIntervalSince1970: 0)))
        try await record(state, at: start, isDelivered: true)
        let end = start.addingTimeInterval(10)
        try await state.keepEvents(until: end, at: start)
        #expect(try await state.eventHistory() == EventHistory(lastEvent: 2, completeAfter: 2, keptUntil: end))
        state.close()
    }
}
