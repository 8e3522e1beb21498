import Foundation
import SluiceTesting
import StateRecords
import Synchronization
import Testing
import UploadModel

@testable import PostgresState

/// Events without sequence numbers, and changes of accounts outside of their rows.
@Suite(
    "Backlog of PostgreSQL state",
    .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.missing)"),
    .timeLimit(.minutes(10))
)
struct BacklogTests {
    /// Waits until `condition` holds; fails after many attempts.
    private func wait(until condition: () async throws -> Bool) async throws {
        for _ in 0..<10_000 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        Issue.record("what was waited for did not happen")
    }

    private func count(_ table: String, _ database: Database) throws -> Int64? {
        try database.connection().row("SELECT count(*) AS n FROM \(table)")?.integer("n")
    }

    // MARK: Events

    @Test("an event waits for no other transaction; one that is committed later gets a later number")
    func eventOrder() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        let (first, second) = (Samples.upload(), Samples.upload(1))
        let holder = try database.connection()
        try holder.begin()
        try holder.insert([.sample(.updated, of: first)])
        try holder.flush()
        try await state.record(.sample(.updated, of: second))
        #expect(try await state.events(EventQuery(after: 0)).map(\.upload.id) == [second.id])
        #expect(try await state.lastEvent() == 1)
        try holder.commit()
        #expect(try await state.events(EventQuery(after: 1)).map(\.upload.id) == [first.id])
        #expect(try await state.lastEvent() == 2)
    }

    @Test("events get their numbers in the order in which they were recorded")
    func order() async throws {
        let state = try await Database().open(connections: 1)
        defer { state.close() }
        state.leaveBacklog()
        // More than one batch.
        let uploads = (0..<600).map { Samples.upload(TimeInterval($0)) }
        for upload in uploads { try await state.record(.sample(.updated, of: upload)) }
        let found = try await state.events(EventQuery(after: 0, limit: 1000))
        #expect(found.map(\.upload.id) == uploads.map(\.id))
        #expect(found.map(\.sequence) == Array(1...600))
    }

    @Test("events of a process that died before it numbered them are read and delivered by another")
    func leftEvents() async throws {
        let database = try Database()
        let doomed = try await database.open()
        doomed.leaveBacklog()
        let upload = Samples.upload()
        try await doomed.record(.sample(.created, of: upload))
        try await doomed.record(.sample(.completed, of: upload))
        doomed.close()
        #expect(try count("unnumbered_event", database) == 2)
        let state = try await database.open()
        defer { state.close() }
        #expect(try await state.claimDeliveries(limit: 5, for: 60).map(\.kind) == [.created])
        #expect(try await state.events(EventQuery(after: 0)).map(\.kind) == [.created, .completed])
    }

    @Test("a node hears of events that another one left without numbers, although no node reads events")
    func leftEventsAreAnnounced() async throws {
        let database = try Database()
        let doomed = try await database.open()
        let state = try await database.open()
        defer { state.close() }
        let rings = Mutex(0)
        state.onEventsElsewhere { rings.withLock { $0 += 1 } }
        doomed.leaveBacklog()
        try await doomed.record(.sample(.created, of: Samples.upload()))
        doomed.close()
        try await wait { rings.withLock { $0 } > 0 }
        #expect(try count("unnumbered_event", database) == 0)
        #expect(try count("event", database) == 1)
    }

    @Test("nodes that number events at the same time give each event one number, and leave no gap")
    func numberedTogether() async throws {
        let database = try Database()
        let nodes = [try await database.open(), try await database.open()]
        defer { nodes.forEach { $0.close() } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<100 {
                group.addTask {
                    let upload = Samples.upload(TimeInterval(number))
                    try await nodes[number % 2].record(.sample(.created, of: upload))
                    try await nodes[number % 2].record(.sample(.completed, of: upload))
                }
                group.addTask { try await nodes[(number + 1) % 2].numberEvents() }
            }
            try await group.waitForAll()
        }
        let found = try await nodes[0].events(EventQuery(after: 0, limit: 1000))
        #expect(found.map(\.sequence) == Array(1...200))
        var seen: [UploadID: [EventRecord.Kind]] = [:]
        for event in found { seen[event.upload.id, default: []].append(event.kind) }
        #expect(seen.values.allSatisfy { $0 == [.created, .completed] })
    }

    @Test("an event with the id of another one does not stop those after it")
    func sameID() async throws {
        let state = try await Database().open()
        defer { state.close() }
        let event = EventRecord.sample(.created, of: Samples.upload())
        try await state.record(event)
        #expect(try await state.events(EventQuery(after: 0)).count == 1)
        try await state.record(event)
        try await state.record(.sample(.completed, of: event.upload))
        #expect(try await state.events(EventQuery(after: 0)).map(\.kind) == [.created, .completed])
    }

    /// What a node of the version before does in a transaction that adds an event.
    private func recordAsBefore(_ event: EventRecord, _ connection: Connection) throws {
        connection.lockEvents(of: [event.upload.id.text])
        let last = try connection.row("UPDATE event_counter SET last = last + 1 RETURNING last")?.integer("last")
        try connection.insert([event])
        try connection.run(
            """
            WITH taken AS (DELETE FROM unnumbered_event WHERE id = $1 RETURNING *)
            INSERT INTO event (sequence, id, kind, upload_id, subject, occurred_at, content)
            SELECT $2::bigint, id, kind, upload_id, subject, occurred_at, content FROM taken
            """,
            [event.id, last]
        )
    }

    @Test("a node of the version before can add events at the same time, and none is missed")
    func besidesOldNode() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        let (first, second) = (Samples.upload(), Samples.upload(1))
        try await database.interleave { connection in
            try recordAsBefore(.sample(.created, of: first), connection)
        } _: { other in
            try await other.record(.sample(.created, of: second))
            #expect(try await other.events(EventQuery(after: 0)).map(\.sequence) == [1, 2])
        }
        #expect(try await state.events(EventQuery(after: 0)).map(\.upload.id) == [first.id, second.id])
    }

    // MARK: Accounts

    @Test("uploads of an account without limits do not wait for each other, and are all counted")
    func noHotRow() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        let (first, second) = (Samples.upload(), Samples.upload(1))
        let holder = try database.connection()
        holder.mayAppendChanges = true
        try holder.begin()
        try holder.charge(Accounting.creating(first), createdAt: first.createdAt, under: Samples.limits())
        try holder.flush()
        try await state.insert(second)
        for account in [Samples.alice, Samples.key] {
            #expect(try await state.accounts([account])[account]?.usage.reservedBytes == 5)
        }
        try holder.commit()
        for account in [Samples.alice, Samples.key] {
            #expect(try await state.accounts([account])[account]?.usage.reservedBytes == 10)
        }
    }

    @Test("a limit counts changes that are not in the account's row yet")
    func limitCountsAll() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        state.leaveBacklog()
        for number in 0..<3 { try await state.insert(Samples.upload(TimeInterval(number))) }
        #expect(try count("account_change", database) == 6)
        let next = Samples.upload(9)
        let code = await errorCode { () async throws(UploadError) in
            try await state.insert(next, Samples.limits(storedBytes: 19))
        }
        #expect(code?.name == "quota_exceeded")
        try await state.insert(next, Samples.limits(storedBytes: 20))
        #expect(try await state.accounts([Samples.alice])[Samples.alice]?.usage.reservedBytes == 20)
        #expect(try await state.accounts([Samples.key])[Samples.key]?.usage.reservedBytes == 20)
    }

    @Test("usage is exact while changes move into the rows of accounts")
    func countedTogether() async throws {
        let database = try Database()
        let nodes = [try await database.open(), try await database.open()]
        defer { nodes.forEach { $0.close() } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<60 {
                group.addTask {
                    let upload = Samples.upload(TimeInterval(number))
                    // Some with a limit, which is never reached.
                    let limits = Samples.limits(storedBytes: number % 3 == 0 ? 10_000 : nil)
                    try await nodes[number % 2].insert(upload, limits)
                    guard number % 2 == 0 else { return }
                    #expect(try await nodes[1].end(upload.id, as: .terminated, at: Samples.start))
                }
                group.addTask { try await nodes[number % 2].countChanges() }
            }
            try await group.waitForAll()
        }
        for isCounted in [false, true] {
            if isCounted { try await nodes[0].clearBacklog() }
            for account in [Samples.alice, Samples.key] {
                let usage = try await nodes[0].accounts([account])[account]?.usage
                #expect(usage?.reservedBytes == 150 && usage?.openUploads == 30 && usage?.periodUploads == 60)
            }
        }
        // A node may just be moving the last ones.
        try await wait { try count("account_change", database) == 0 }
    }

    @Test("changes of a process that died before it counted them are counted at another's heartbeat")
    func leftChanges() async throws {
        let database = try Database()
        let doomed = try await database.open()
        let state = try await database.open()
        defer { state.close() }
        doomed.leaveBacklog()
        try await doomed.insert(Samples.upload())
        doomed.close()
        try await wait { try count("account_change", database) == 0 }
        #expect(try await state.accounts([Samples.alice])[Samples.alice]?.usage.reservedBytes == 5)
    }

    @Test("while a node of the version before runs, usage is in the rows that it reads")
    func accountsBesidesOldNode() async throws {
        let database = try Database()
        try await database.open().close()
        try database.connection().execute("INSERT INTO node (id, heartbeat_at) VALUES (1, clock_timestamp())")
        let state = try await database.open()
        defer { state.close() }
        state.leaveBacklog()
        try await state.insert(Samples.upload())
        #expect(try count("account_change", database) == 0)
        #expect(try count("account", database) == 2)
        try database.connection().execute("DELETE FROM node WHERE id = 1")
        try await wait { state.node.appendsChanges }
    }
}
