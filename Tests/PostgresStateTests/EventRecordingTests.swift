import Foundation
import SluiceTesting
import StateRecords
import Synchronization
import SystemIO
import Testing
import UploadModel

@testable import PostgresState

@Suite(
    "Events that nothing wants in PostgreSQL",
    .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.missing)"),
    .timeLimit(.minutes(10))
)
struct EventRecordingTests {
    private let week: TimeInterval = 7 * 24 * 3600

    /// An event that no hook receives.
    private func event(_ kind: EventRecord.Kind = .created, of upload: Upload = Samples.upload()) -> EventRecord {
        var event = EventRecord.sample(kind, of: upload)
        event.delivery = nil
        return event
    }

    /// Lets time pass, as far as it decides which events are recorded.
    private func pass(_ seconds: TimeInterval, _ database: Database) throws {
        try database.connection().run(
            "UPDATE event_recording SET kept_until = kept_until - $1::bigint, agreed_until = agreed_until - $1::bigint",
            [PostgresState.milliseconds(seconds)]
        )
    }

    @Test("meet the contract", arguments: EventRecordingContract.all)
    func contract(_ contract: Contract<RecordingBench>) async throws {
        let database = try Database()
        let nodes = [try await database.open(), try await database.open()]
        defer { nodes.forEach { $0.close() } }
        let bench = RecordingBench(nodes[0], clock: ManualClock()) {
            nodes[1]
        } pass: {
            try pass($0, database)
        }
        try await contract.check(bench)
    }

    @Test("of a version that recorded all events are kept for a week more")
    func upgrade() async throws {
        let database = try Database()
        let old = try await database.open()
        try await old.record(.sample(.created, of: Samples.upload()))
        #expect(try await old.lastEvent() == 1)
        old.close()
        try database.connection().execute(
            """
            DROP TABLE event_recording, dialect_term, dialect_record;
            DROP INDEX event_due_by_user;
            ALTER TABLE api_key DROP COLUMN previous_digest, DROP COLUMN previous_until, DROP COLUMN last_used_at;
            DELETE FROM sluice_migration WHERE number >= \(Schema.eventRecording.number)
            """
        )
        let state = try await database.open()
        defer { state.close() }
        try pass(week - 3600, database)
        try await state.record(event())
        try pass(7200, database)
        try await state.record(event())
        #expect(try await state.lastEvent() == 2)
    }

    @Test("are not numbered, and need no other round trip")
    func noBacklog() async throws {
        let state = try await Database().open(connections: 1)
        defer { state.close() }
        let before = try await state.read { $0.roundTrips }
        try await state.record(event())
        #expect(try await state.read { $0.roundTrips } == before + 1)
        #expect(!state.isClearing.withLock { $0 })
    }

    @Test("who asks for them waits for transactions of other nodes that left some out")
    func waits() async throws {
        let database = try Database()
        var settings = database.settings()
        // Long enough for a slow machine.
        settings.lockTimeout = .seconds(600)
        let state = try await PostgresState.open(settings)
        defer { state.close() }
        let holder = try database.connection()
        // It only reads, as a backup does.
        let reader = try database.connection()
        // On a slow machine the server would end what is idle for a minute.
        for connection in [holder, reader] { try connection.run("SET idle_in_transaction_session_timeout = 0") }
        try reader.begin()
        _ = try reader.row("SELECT count(*) FROM unnumbered_event, event_recording")
        try holder.begin()
        try holder.insert([event()])
        try holder.run("INSERT INTO used_grant (id, upload_id, expires_at) VALUES ('late', '', 1)")
        try await state.record(event(of: Samples.upload(1)))
        let isCommitted = Mutex(false)
        async let asking: Bool = {
            try await state.keepEvents(until: Date(timeIntervalSinceNow: 3600), at: Date())
            return isCommitted.withLock { $0 }
        }()
        // Those that begin now do record theirs.
        let later = Samples.upload(2)
        for _ in 0..<1000 where try await state.events(EventQuery(after: 0)).isEmpty {
            try await state.record(event(of: later))
        }
        #expect(try await state.events(EventQuery(after: 0)).map(\.upload.id) == [later.id])
        // Who asks for less waits, too, unless nobody needs it any more.
        let code = await errorCode { () async throws(UploadError) in
            let other = Task { () async -> UploadError? in
                do throws(UploadError) {
                    try await state.keepEvents(until: Date(timeIntervalSinceNow: 60), at: Date())
                    return nil
                } catch {
                    return error
                }
            }
            other.cancel()
            if let error = await other.value { throw error }
        }
        #expect(code == .unavailable)
        isCommitted.withLock { $0 = true }
        try holder.commit()
        #expect(try await asking)
        let last = try await state.lastEvent()
        #expect(try await state.eventsKeptSince() == last)
        #expect(try await state.events(EventQuery(after: last)) == [])
    }

    @Test("who asks for them gives up if such a transaction does not end, and settles it the next time")
    func givesUp() async throws {
        let database = try Database()
        var settings = database.settings()
        settings.lockTimeout = .milliseconds(500)
        let state = try await PostgresState.open(settings)
        defer { state.close() }
        state.leaveBacklog()
        let holder = try database.connection()
        try holder.begin()
        try holder.run("INSERT INTO used_grant (id, upload_id, expires_at) VALUES ('g', '', 1)")
        try holder.insert([event()])
        try holder.flush()
        try await state.insert(Samples.upload())
        func keep() async throws(UploadError) {
            try await state.keepEvents(until: Date(timeIntervalSinceNow: 3600), at: Date())
        }
        #expect(await errorCode(keep) == .unavailable)
        #expect(try await state.eventsKeptSince() == 0)
        holder.rollback()
        try await keep()
        // 1 is the event of the hook.
        #expect(try await state.eventsKeptSince() == 2)
    }

    @Test("two nodes that ask at the same time agree on one number for what was left out")
    func together() async throws {
        let database = try Database()
        let nodes = [try await database.open(), try await database.open()]
        defer { nodes.forEach { $0.close() } }
        try await nodes[0].insert(Samples.upload())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let end = Date(timeIntervalSinceNow: 3600 + Double(number))
                    try await nodes[number % 2].keepEvents(until: end, at: Date())
                }
            }
            try await group.waitForAll()
        }
        // 1 is the event of the hook.
        #expect(try await nodes[1].lastEvent() == 2)
        #expect(try await nodes[1].eventsKeptSince() == 2)
        let row = try database.connection().row("SELECT kept_until - agreed_until AS open FROM event_recording")
        #expect(row?.integer("open") == 0)
    }

    @Test("none is missed from the position on at which a stream begins, while another node writes")
    func noneMissed() async throws {
        let database = try Database()
        let writing = try await database.open(connections: 4)
        let reading = try await database.open()
        defer { [writing, reading].forEach { $0.close() } }
        // A database without uploads has left out nothing.
        try await writing.insert(Samples.upload())
        /// The changes that are visible now; each has an event.
        func changes() async throws -> Set<String> {
            try await reading.read { connection in
                Set(try connection.rows("SELECT id FROM used_grant").compactMap { $0.text("id") })
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<4 {
                group.addTask {
                    while !Task.isCancelled {
                        let event = event(of: Samples.upload(TimeInterval(writer)))
                        try await writing.write { connection in
                            try connection.insert([event])
                            try connection.run(
                                "INSERT INTO used_grant (id, upload_id, expires_at) VALUES ($1, '', 1)",
                                [event.id]
                            )
                            // Such a transaction is often under way when the other node asks.
                            _ = try connection.row("SELECT pg_sleep(0.002) IS NULL")
                        }
                    }
                }
            }
            for _ in 0..<10 {
                try pass(2 * week, database)
                try await Task.sleep(for: .milliseconds(50))
                let before = try await reading.lastEvent()
                try await reading.keepEvents(until: Date(timeIntervalSinceNow: week), at: Date())
                let old = try await changes()
                let position = try await reading.lastEvent()
                let known = try await changes()
                try await Task.sleep(for: .milliseconds(50))
                let new = try await changes()
                let events = try await reading.events(EventQuery(after: before, limit: 100_000))
                let recorded = Set(events.map(\.id))
                let followed = Set(events.filter { $0.sequence > position }.map(\.id))
                #expect(new.count > known.count)
                #expect(new.subtracting(old).subtracting(recorded) == [])
                #expect(new.subtracting(known).subtracting(followed) == [])
                // Something was left out before, so an earlier position is not good for a stream.
                let since = try await reading.eventsKeptSince()
                #expect(since > before && since <= position)
            }
            group.cancelAll()
            try await group.waitForAll()
        }
    }
}
