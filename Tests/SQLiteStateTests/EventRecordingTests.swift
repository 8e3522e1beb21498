import Foundation
import GRDB
import SluiceTesting
import SystemIO
import Testing
import UploadCore

@testable import SQLiteState

@Suite("Events that nothing wants")
struct EventRecordingTests {
    private let start = Date(timeIntervalSince1970: 1_750_000_000)
    private let week: TimeInterval = 7 * 24 * 3600

    private func open(_ directory: TemporaryDirectory) throws -> SQLiteState {
        try SQLiteState(path: directory.path("state.sqlite"), pool: BlockingPool(threads: 2, label: "test-state"))
    }

    /// An event of an upload, which is recorded too.
    @discardableResult
    private func create(_ state: SQLiteState, at time: TimeInterval, isDelivered: Bool = false) async throws -> Upload {
        let date = start.addingTimeInterval(time)
        let upload = Upload(
            id: UploadID.generate(at: date),
            dialect: "tus",
            subject: "alice",
            principal: "key_1",
            length: 5,
            createdAt: date
        )
        var event = EventRecord.sample(.created, of: upload)
        event.occurredAt = date
        event.delivery = isDelivered ? EventRecord.Delivery(nextAttemptAt: date) : nil
        let limits = EffectiveLimits(policies: [:], period: QuotaPeriod(around: date, length: 86400))
        try await state.insert(upload, consuming: nil, under: limits, recording: event)
        return upload
    }

    private func recorded(_ state: SQLiteState) async throws -> [UploadID] {
        try await state.events(EventQuery(after: 0)).map(\.upload.id)
    }

    @Test("are left out and counted; those of hooks are recorded")
    func leftOut() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory)
        try await create(state, at: 0)
        #expect(try await recorded(state) == [])
        #expect(try await state.lastEvent() == 0)
        // The mark of the storage is renewed if this number has changed.
        #expect(try await state.eventCount() == 1)
        let wanted = try await create(state, at: 1, isDelivered: true)
        #expect(try await recorded(state) == [wanted.id])
        #expect(try await state.eventCount() == 2)
        state.close()
    }

    @Test("are recorded until the time that was asked for, also by the next process")
    func kept() async throws {
        let directory = try TemporaryDirectory()
        var state = try open(directory)
        try await state.keepEvents(until: start.addingTimeInterval(10), at: start)
        let first = try await create(state, at: 1)
        // An earlier end changes nothing.
        try await state.keepEvents(until: start.addingTimeInterval(5), at: start.addingTimeInterval(2))
        let second = try await create(state, at: 7)
        state.close()
        state = try open(directory)
        let third = try await create(state, at: 9)
        try await create(state, at: 10)
        #expect(try await recorded(state) == [first.id, second.id, third.id])
        // Nothing happened before the first call.
        #expect(try await state.eventsKeptSince() == 0)
        state.close()
    }

    @Test("have a number of their own once events are wanted again")
    func gap() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory)
        try await state.keepEvents(until: start.addingTimeInterval(10), at: start)
        try await create(state, at: 1)
        #expect(try await state.lastEvent() == 1)
        // While they are wanted, asking for more changes no number.
        try await state.keepEvents(until: start.addingTimeInterval(20), at: start.addingTimeInterval(5))
        #expect(try await state.lastEvent() == 1)
        #expect(try await state.eventsKeptSince() == 0)

        try await create(state, at: 30)
        try await create(state, at: 31, isDelivered: true)
        try await state.keepEvents(until: start.addingTimeInterval(100), at: start.addingTimeInterval(40))
        // 2 is the event of the hook, 3 stands for the one before it.
        #expect(try await state.lastEvent() == 3)
        #expect(try await state.eventsKeptSince() == 3)
        try await create(state, at: 41)
        #expect(try await state.events(EventQuery(after: 0)).map(\.sequence) == [1, 2, 4])
        state.close()
    }

    @Test("make an id from before them unknown, also if no event had a number yet")
    func unknownID() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory)
        try await create(state, at: 0)
        let clock = ManualClock(start.addingTimeInterval(1))
        let events = UploadServices(
            state: state,
            storage: InMemoryStorage(),
            clock: clock,
            limits: UploadLimits(),
            observer: RecordingObserver()
        ).events
        try await events.keepEvents()
        #expect(try await events.lastEvent() == 1)
        #expect(try await events.keepsEvents(after: 0) == false)
        #expect(try await events.keepsEvents(after: 1))

        try await create(state, at: 2)
        #expect(try await events.keepsEvents(after: 1))
        clock.advance(by: week + 2)
        try await create(state, at: week + 3, isDelivered: true)
        // 3 follows 2, but what happened between them was left out.
        #expect(try await events.lastEvent() == 3)
        try await events.keepEvents()
        #expect(try await events.keepsEvents(after: 2) == false)
        #expect(try await events.keepsEvents(after: 3) == false)
        #expect(try await events.keepsEvents(after: 4))
        state.close()
    }

    @Test("of a version that recorded all events are kept for a week more")
    func upgrade() async throws {
        let directory = try TemporaryDirectory()
        var state = try open(directory)
        try await create(state, at: 0, isDelivered: true)
        state.close()
        let queue = try DatabaseQueue(path: directory.path("state.sqlite"))
        try await queue.write { database in
            try database.execute(sql: "DROP TABLE event_recording")
            try database.execute(sql: "DELETE FROM grdb_migrations WHERE identifier LIKE '0011%'")
        }
        try queue.close()
        state = try open(directory)
        let now = Date().timeIntervalSince(start)
        try await create(state, at: now + week - 3600)
        try await create(state, at: now + week + 3600)
        #expect(try await recorded(state).count == 2)
        state.close()
    }
}
