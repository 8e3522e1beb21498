import Foundation
import SluiceTesting
import Synchronization
import Testing
import UploadCore
import UploadModel

@testable import VODKit

@Suite("An outbox of events", .timeLimit(.minutes(10)))
struct MediaOutboxTests {
    private struct Note: MediaEvent {
        static let recordKind = "note"
        static let unit: Int64 = 100

        var tenant: String?
        var subject: String?
        var sequence: String?
        var attempts = 0
        var dueAt: Int64 = 0
    }

    private struct Receiver: EventDetails {
        var host: String?
    }

    private typealias Claimed = ClaimedEvent<Note, Receiver>

    private struct Bench {
        let clock = ManualClock()
        let memory: InMemoryState
        let state: FaultyState
        let outbox: MediaOutbox<Note>

        init() {
            memory = InMemoryState(clock: clock)
            state = FaultyState(memory)
            outbox = MediaOutbox(state, clock: clock)
        }

        func record(_ key: String, _ note: Note = Note()) async throws {
            #expect(try await state.apply([outbox.recording(note, as: key)]))
        }

        /// Records events in the order of their keys.
        func record(_ keys: [String]) async throws {
            for (place, key) in keys.enumerated() { try await record(key, Note(dueAt: Int64(place))) }
        }

        func look(
            of tenant: String? = nil,
            after start: DialectPlace? = nil,
            _ limit: Int = 16,
            beside running: [String: Int] = [:],
            failing: FailingRecords = FailingRecords(),
            _ host: (DialectRecord) throws(UploadError) -> Receiver? = { _ in Receiver() }
        ) async throws(UploadError) -> ClaimedRecords<Claimed> {
            try await outbox.claim(of: tenant, after: start, limit: limit, beside: running, failing: failing) {
                (found) throws(UploadError) in
                try host(found.record)
            }
        }

        func claim(of tenant: String? = nil, _ limit: Int = 16) async throws -> [String] {
            try await look(of: tenant, limit).claimed.map(\.record.record.key)
        }

        func spoil(_ key: String) async throws {
            var record = try #require(try await state.record(Note.recordKind, key))
            record.text = "[]"
            #expect(try await state.replace(record))
        }

        /// All that can be read.
        func notes() async throws -> [Note] {
            let records = try await state.records(Note.recordKind, prefix: "", after: nil, limit: 1000)
            return records.compactMap { try? CodedRecord<Note>($0).content }
        }
    }

    private static let failure = UploadError(.storageFailure, "It cannot be done.")

    // MARK: Claiming

    @Test("an event that is recorded again is the same one")
    func repeated() async throws {
        let bench = Bench()
        try await bench.record("a")
        #expect(try await bench.claim() == ["a"])
        try await bench.record("a")
        #expect(try await bench.claim().isEmpty)
    }

    @Test("two claimers get each event once")
    func claimersAtOnce() async throws {
        let bench = Bench()
        try await bench.record(["a", "b", "c"])
        let second = Box<[String]>()
        bench.state.plan.before(.replaceRecord) { await recorded { second.set(try await bench.claim()) } }
        let first = try await bench.claim()
        #expect(first.isEmpty)
        #expect(try second.content() == ["a", "b", "c"])
    }

    @Test("a claim that has ended makes its event due again, the oldest first")
    func claimsEnd() async throws {
        let bench = Bench()
        for key in ["b", "a", "c"] {
            try await bench.record(key, Note(dueAt: bench.clock.now.unixMilliseconds / 100))
            bench.clock.advance(by: 1)
        }
        #expect(try await bench.claim(2) == ["b", "a"])
        #expect(try await bench.claim() == ["c"])
        bench.clock.advance(by: 19.9)
        #expect(try await bench.claim().isEmpty)
        bench.clock.advance(by: 0.1)
        let again = try await bench.look().claimed
        #expect(again.map(\.record.record.key) == ["a", "b", "c"] && again.allSatisfy { $0.event.attempts == 2 })
    }

    @Test("an attempt that failed is repeated at its time, unless another node has claimed its event since")
    func postponing() async throws {
        let bench = Bench()
        try await bench.record("a")
        let old = try #require(try await bench.look().claimed.first).record
        try await bench.outbox.postpone(old, by: 5)
        bench.clock.advance(by: 4.9)
        #expect(try await bench.claim().isEmpty)
        bench.clock.advance(by: 0.1)
        #expect(try await bench.claim() == ["a"])
        try await bench.outbox.postpone(old, by: 0)
        #expect(try await bench.claim().isEmpty)
        bench.clock.advance(by: 20)
        #expect(try await bench.claim() == ["a"])
    }

    @Test("an event is kept for four days, however often it is tried")
    func retention() async throws {
        let bench = Bench()
        try await bench.record("a")
        bench.clock.advance(by: 4 * 86_400 - 1)
        for pause in [0.9, 0.1] {
            let claimed = try #require(try await bench.look().claimed.first).record
            try await bench.outbox.postpone(claimed, by: 0)
            bench.clock.advance(by: pause)
        }
        #expect(try await bench.claim().isEmpty)
        try await bench.state.forgetRecords(expiredBefore: bench.clock.now + 0.1)
        #expect(try await bench.notes().isEmpty)
    }

    @Test("events of other tenants, and those that are not to be delivered, are left")
    func others() async throws {
        let bench = Bench()
        for (key, tenant) in [("a", "1"), ("b", "12"), ("c", nil)] { try await bench.record(key, Note(tenant: tenant)) }
        #expect(
            try await bench.look { $0.key == "a" ? nil : Receiver() }.claimed.map(\.record.record.key) == ["b", "c"]
        )
        #expect(try await bench.claim(of: "12").isEmpty)
        #expect(try await bench.claim(of: "1") == ["a"])
    }

    @Test("what cannot be claimed keeps no other one waiting, is reported once, and what is not due is not read")
    func failing() async throws {
        let bench = Bench()
        try await bench.record((100..<350).map(String.init))
        try await bench.spoil("100")
        let failing = FailingRecords(clock: bench.clock) { _ in }
        func look(_ limit: Int, after start: DialectPlace? = nil) async throws -> ClaimedRecords<Claimed> {
            try await bench.look(after: start, limit, failing: failing) { (record) throws(UploadError) in
                if record.key == "101" { throw Self.failure }
                return record.key.hasSuffix("9") ? nil : Receiver()
            }
        }
        let first = try await look(3)
        #expect(first.claimed.map(\.record.record.key) == ["102", "103", "104"] && first.failure != nil)
        #expect(failing.count == 2)
        #expect(try await look(3).failure == nil)
        let rest = try await look(1000, after: first.last)
        #expect(rest.claimed.count == 250 - 2 - 25 - 6 && rest.last == nil)
        let before = bench.state.plan.calls(of: .dialectRecords)
        #expect(try await look(1000).claimed.isEmpty)
        // Those of earlier versions, and a page with those that are left.
        #expect(bench.state.plan.calls(of: .dialectRecords) - before == 2)
    }

    @Test("what is claimed is never lost by a failure behind it")
    func faults() async throws {
        let bench = Bench()
        try await bench.record((100..<350).map(String.init))
        // Behind the looks at those without terms, at all and at users, and the first page of a user.
        bench.state.plan.fail(.dialectRecords, onCall: 8)
        let some = try await bench.look(1000)
        #expect(!some.claimed.isEmpty && some.failure != nil)
        #expect(try await bench.notes().filter { $0.attempts == 1 }.count == some.claimed.count)
        bench.state.plan.fail(.dialectRecords, onCall: 2)
        await #expect(throws: UploadError.self) { try await bench.look(1000) }
    }

    @Test("an event that an earlier version recorded without terms is found")
    func withoutTerms() async throws {
        let bench = Bench()
        try await bench.record("a")
        bench.memory.writeAsBeforeTerms(Note.recordKind, "a", isNew: true)
        #expect(try await bench.claim() == ["a"])
        try await bench.spoil("a")
        bench.memory.writeAsBeforeTerms(Note.recordKind, "a", isNew: true)
        #expect(try await bench.look().failure != nil)
    }

    // MARK: Turns

    // The list of all has the records of earlier versions, which have no term of a user.
    @Test(
        "if there are more than are wanted, users have turns, and so has the list of all",
        arguments: [nil, "t"] as [String?]
    )
    func turns(tenant: String?) async throws {
        let bench = Bench()
        func insert(_ key: String, _ user: String?, at position: Int64) async throws {
            try await bench.record(key, Note(tenant: tenant, subject: user, dueAt: position))
        }
        for number in 100..<400 { try await insert("a\(number)", "anna", at: 0) }
        try await insert("bert", "bert", at: 1)
        try await insert("none", nil, at: 1)
        // Not due.
        try await insert("carl", "carl", at: .max)
        for (key, position) in [("old", -1), ("old2", 1)] as [(String, Int64)] {
            var old = CodedRecord(Note.recordKind, key, Note(dueAt: position), at: bench.clock.now, until: nil).record
            old.terms = [DialectTerm(tenant == nil ? "due" : "due/t", at: position)]
            #expect(try await bench.state.insert(old, at: bench.clock.now))
        }
        // One at a time: those without a user, anna, bert, all, and again.
        var claimed: [String] = []
        for _ in 0..<6 { claimed += try await bench.claim(of: tenant, 1) }
        #expect(claimed == ["none", "a100", "bert", "old", "a101", "a102"])
        // The list of all goes on behind the last place.
        let later = try await bench.look(of: tenant, after: DialectPlace(0, "a399"), 3)
        #expect(later.claimed.map(\.record.record.key) == ["old2"] && later.last == nil)
        for name in ["dora", "erin"] { for number in 0..<2 { try await insert("\(name)\(number)", name, at: 5) } }
        #expect(Set(try await bench.claim(of: tenant, 4).map { $0.prefix(1) }) == ["a", "d", "e"])
        #expect(try await bench.claim(of: tenant, 1000).count == 297)
    }

    @Test("a user whose first records cannot be claimed keeps nobody waiting, and gets the others claimed")
    func turnsOfOthers() async throws {
        let bench = Bench()
        for (user, count) in [("anna", 300), ("bert", 2)] {
            for number in 100..<(100 + count) { try await bench.record("\(user)\(number)", Note(subject: user)) }
        }
        var asked: [String] = []
        let found = try await bench.look(3) { record in
            asked.append(record.key)
            return record.key.hasPrefix("anna") && record.key < "anna250" ? nil : Receiver()
        }
        // Each is in the queue of its user, and in that of all.
        #expect(Set(asked).count == asked.count)
        #expect(Set(found.claimed.map(\.record.record.key)) == ["bert100", "bert101", "anna250"])
    }

    @Test("users who have nothing that is due keep nobody behind them waiting")
    func turnsOfLateUsers() async throws {
        let bench = Bench()
        for number in 100..<200 { try await bench.record("anna\(number)", Note(subject: "anna")) }
        for number in 100..<400 { try await bench.record("late\(number)", Note(subject: "b\(number)", dueAt: .max)) }
        try await bench.record("zoe", Note(subject: "zoe", dueAt: 1))
        var claimed: [String] = []
        for _ in 0..<30 where !claimed.contains("zoe") { claimed += try await bench.claim(1) }
        #expect(claimed.last == "zoe")
    }

    // MARK: Order

    @Test("events of a sequence are claimed one after another, and those of others beside them")
    func sequences() async throws {
        let bench = Bench()
        // A later one is due earlier.
        for (place, key) in ["m/1", "n/2", "n/1", "m/2", "m/3"].enumerated() {
            try await bench.record(key, Note(sequence: String(key.prefix(2)), dueAt: Int64(place)))
        }
        try await bench.record("other", Note(dueAt: 9))
        let before = bench.state.plan.calls(of: .dialectRecords)
        let claimed = try await bench.look().claimed
        // Those of earlier versions, all, and each sequence once.
        #expect(bench.state.plan.calls(of: .dialectRecords) - before == 4)
        #expect(claimed.map(\.record.record.key) == ["m/1", "n/1", "other"])
        #expect(try await bench.claim().isEmpty)
        // Refused: it delays the later ones of its sequence.
        try await bench.outbox.postpone(claimed[0].record, by: 3600)
        try await bench.outbox.remove("n/1")
        bench.clock.advance(by: 60)
        #expect(try await bench.claim() == ["n/2", "other"])
        bench.clock.advance(by: 3600)
        #expect(try await bench.claim().first == "m/1")
    }

    @Test("the order of a sequence stays where a look goes on behind its first event")
    func orderBehind() async throws {
        let bench = Bench()
        for key in ["m/1", "m/2"] { try await bench.record(key, Note(sequence: "m/")) }
        let found = try await bench.look(1)
        #expect(found.claimed.map(\.record.record.key) == ["m/1"])
        #expect(try await bench.look(after: DialectPlace(0, "m/1"), 1).claimed.isEmpty)
    }

    @Test("events that cannot be read, and expired ones, delay nothing of their sequence")
    func passedOver() async throws {
        let bench = Bench()
        try await bench.record("m/00", Note(sequence: "m/"))
        bench.clock.advance(by: 4 * 86_400)
        for number in 10..<30 { try await bench.record("m/\(number)", Note(sequence: "m/")) }
        for number in 10..<25 { try await bench.spoil("m/\(number)") }
        #expect(try await bench.claim() == ["m/25"])
    }

    @Test("half of the places are for one host, also of what is being posted already", arguments: [0, 6, 8])
    func hosts(running: Int) async throws {
        let bench = Bench()
        try await bench.record((10..<40).map { "a\($0)" } + ["b1", "b2"])
        let found = try await bench.look(16, beside: ["a": running]) { Receiver(host: String($0.key.prefix(1))) }
        let keys = found.claimed.map(\.record.record.key)
        #expect(keys == (10..<40).prefix(8 - running).map { "a\($0)" } + ["b1", "b2"])
        // All go to one receiver.
        #expect(try await bench.claim(16).count == 16)
    }

    // MARK: Delivering

    private final class Counts: Sendable {
        private let attempts = Mutex<[Bool]>([])
        var all: [Bool] { attempts.withLock { $0 } }

        func add(_ isDelivered: Bool) { attempts.withLock { $0.append(isDelivered) } }
    }

    /// Delivers until a condition holds.
    private func delivering(
        _ bench: Bench,
        _ counts: Counts = Counts(),
        until isOver: @escaping @Sendable () async throws -> Bool,
        post: @escaping @Sendable (Claimed) async throws(DeliveryFailure) -> Void
    ) async throws {
        let delivery = EventDelivery<Note, Receiver>(
            outbox: bench.outbox,
            failing: FailingRecords(),
            count: counts.add,
            report: { _ in },
            details: { Receiver(host: String($0.record.key.prefix(1))) },
            post: post
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await delivery.run() }
            while try await !isOver() { await Task.yield() }
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    @Test("what is posted is removed, and a host that does not answer keeps no other event waiting")
    func silent() async throws {
        let bench = Bench()
        let counts = Counts()
        try await bench.record((10..<30).map { "silent\($0)" } + (10..<50).map { "app\($0)" })
        try await delivering(bench, counts) {
            try await bench.notes().count == 20
        } post: { (claimed) throws(DeliveryFailure) in
            if claimed.record.record.key.hasPrefix("silent") {
                await EventBell().wait(after: 0, timeout: .seconds(3600))
                throw DeliveryFailure("It was cancelled.")
            }
        }
        // Those that were under way when it stopped are not attempts.
        #expect(counts.all == Array(repeating: true, count: 40))
        let end = bench.clock.now.unixMilliseconds / Note.unit + 200
        #expect(try await bench.notes().filter { $0.attempts == 1 && $0.dueAt == end }.count == 8)
    }

    @Test(
        "what failed is due after the pause, or when its receiver wants it",
        arguments: [(nil, 1), (0.5, 1), (-1, 1), (60, 60), (1e9, 3600)] as [(Double?, Int64)]
    )
    func refused(_ retryAfter: Double?, _ pause: Int64) async throws {
        let bench = Bench()
        let counts = Counts()
        try await bench.record("a")
        let due = (bench.clock.now.unixMilliseconds + pause * 1000) / Note.unit
        try await delivering(bench, counts) {
            let record = try #require(try await bench.state.record(Note.recordKind, "a"))
            return try CodedRecord<Note>(record).content.dueAt == due
        } post: { _ throws(DeliveryFailure) in
            throw DeliveryFailure("It is not wanted.", retryAfter: retryAfter)
        }
        #expect(counts.all == [false])
    }

    @Test("an attempt that is to be repeated soon does not wait for the next look")
    func ringing() async throws {
        let bench = Bench()
        try await bench.record("a")
        // Its end rings, and so does the end of the pause.
        try await delivering(bench) {
            bench.outbox.bell.count == 2
        } post: { _ throws(DeliveryFailure) in
            throw DeliveryFailure("It is not wanted.")
        }
    }

    @Test("pauses are a second each between the first three attempts, and then double up to an hour")
    func pauses() {
        typealias Delivery = EventDelivery<Note, Receiver>
        let pauses = (1...15).map(Delivery.pause)
        #expect(pauses == [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600])
        for attempts in [Int.min, -1, 0] { #expect(Delivery.pause(after: attempts) == 1) }
        for attempts in [63, 64, 65, 1 << 40, .max] { #expect(Delivery.pause(after: attempts) == 3600) }
    }
}
