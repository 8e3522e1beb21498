import Foundation
import SluiceTesting
import Synchronization
import Testing
import UploadCore
import UploadModel

@testable import VODKit

@Suite("Background work on records", .timeLimit(.minutes(10)))
struct BackgroundWorkTests {
    private let clock = ManualClock()
    private let failure = UploadError(.storageFailure, "It cannot be done.")

    private func state(_ keys: [String]) async throws -> InMemoryState {
        let state = InMemoryState(clock: clock)
        for (position, key) in keys.enumerated() {
            var record = record(key)
            record.terms = [DialectTerm("t", at: Int64(position))]
            #expect(try await state.insert(record, at: clock.now))
        }
        return state
    }

    private func record(_ key: String) -> DialectRecord {
        DialectRecord(kind: "k", key: key, text: "{}", createdAt: clock.now)
    }

    /// A list that closures add to.
    private final class Story: Sendable {
        private let parts = Mutex<[String]>([])
        var told: [String] { parts.withLock { $0 } }

        func tell(_ part: String) { parts.withLock { $0.append(part) } }
    }

    // MARK: What is put off

    @Test("what fails is tried again after 2, 4, 8 seconds, up to an hour, until it succeeds")
    func pauses() async throws {
        let counted = Story()
        let failing = FailingRecords(clock: clock) { counted.tell($0) }
        let (record, failure) = (record("a"), failure)
        var pauses: [TimeInterval] = []
        for _ in 0..<14 {
            let first = await failing.attempt(record) { _ throws(UploadError) in throw failure }
            #expect(first != nil && failing.count == 1)
            var pause: TimeInterval = 0
            while !failing.isDue(record) {
                let put = await failing.attempt(record) { _ throws(UploadError) in throw failure }
                #expect(put == nil)
                clock.advance(by: 1)
                pause += 1
            }
            pauses.append(pause)
        }
        #expect(pauses == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600])
        #expect(counted.told == Array(repeating: "k", count: 14))
        #expect(await failing.attempt(record) { _ throws(UploadError) in } == nil)
        #expect(failing.count == 0)
        _ = await failing.attempt(record) { _ throws(UploadError) in throw failure }
        clock.advance(by: 2)
        #expect(failing.isDue(record))
    }

    @Test("a bounded number is remembered")
    func bounded() async throws {
        let failing = FailingRecords(clock: clock, most: 3) { _ in }
        for key in ["a", "b", "c"] { failing.note(record(key)) }
        clock.advance(by: 2)
        failing.note(record("c"))
        // Two are due, and forgotten.
        failing.note(record("d"))
        #expect(failing.count == 2 && !failing.isDue(record("c")) && !failing.isDue(record("d")))
        failing.note(record("e"))
        failing.note(record("f"))
        #expect(failing.count == 1 && !failing.isDue(record("f")))
    }

    @Test("keys that only look alike are not put off together")
    func alike() {
        let failing = FailingRecords(clock: clock) { _ in }
        failing.note(record("\u{E9}"))
        #expect(failing.isDue(record("e\u{301}")) && !failing.isDue(record("\u{E9}")))
    }

    // MARK: Looking at all

    @Test("one that fails keeps no other one waiting, in this look or in the next ones")
    func each() async throws {
        let keys = (100..<350).map { "\($0)" }
        let state = try await state(keys)
        let failing = FailingRecords(clock: clock) { _ in }
        let failure = failure
        func look(_ failing: FailingRecords) async -> (seen: [String], error: UploadError?) {
            let story = Story()
            do throws(UploadError) {
                let hasAny = try await state.each("k", failing: failing) { record throws(UploadError) in
                    story.tell(record.key)
                    if record.key.hasPrefix("10") { throw failure }
                }
                #expect(hasAny)
                return (story.told, nil)
            } catch {
                return (story.told, error)
            }
        }
        for _ in 0..<2 {
            let first = await look(FailingRecords())
            #expect(first.seen == keys && first.error != nil)
        }
        #expect(await look(failing).seen == keys)
        let second = await look(failing)
        #expect(second.seen == Array(keys.dropFirst(10)) && second.error == nil)
        clock.advance(by: 2)
        #expect(await look(failing).seen == keys)
    }

    @Test("a look at what is due ends with its position, and leaves out what is put off")
    func due() async throws {
        let keys = (100..<350).map { "\($0)" }
        let state = try await state(keys)
        let failure = failure
        for end in [-1, 0, 1, 198, 199, 200, 248, 249, 1000] as [Int64] {
            let wanted = Array(keys.prefix(Int(end) + 1))
            let failing = FailingRecords(clock: clock) { _ in }
            var seen: [[String]] = []
            for isFailing in [true, false] {
                let story = Story()
                do throws(UploadError) {
                    let hasAny = try await state.each("k", "t", upTo: end, failing: failing) {
                        record throws(UploadError) in
                        story.tell(record.key)
                        if isFailing, record.key.hasPrefix("10") { throw failure }
                    }
                    #expect(hasAny == !wanted.isEmpty && (wanted.isEmpty || !isFailing))
                } catch {
                    #expect(isFailing && !wanted.isEmpty)
                }
                seen.append(story.told)
            }
            #expect(seen == [wanted, Array(wanted.dropFirst(10))], "\(end)")
        }
    }

    @Test("a step that fails keeps the next one from nothing, and is reported once with the number that is put off")
    func steps() async {
        let story = Story()
        let failing = FailingRecords(clock: clock) { _ in }
        let (record, failure) = (record("a"), failure)
        let work = BackgroundWork(failing: failing) { error, count in story.tell("\(error.message) \(count)") }
        let fails: BackgroundWork.Step = { failing throws(UploadError) in
            failing.note(record)
            throw failure
        }
        let idle: BackgroundWork.Step = { _ throws(UploadError) in
            story.tell("idle")
            return false
        }
        #expect(await work.look([fails, idle]))
        #expect(story.told == ["It cannot be done. 1", "idle"])
        #expect(await !work.look([idle]))
    }

    // MARK: Posting

    /// Events with these names, of which some are due again at once.
    private final class Outbox: Sendable {
        private let waiting: Mutex<[String]>
        let bell = EventBell()

        init(_ names: [String]) { waiting = Mutex(names) }

        func claim(_ limit: Int) -> ClaimedRecords<String> {
            let names = waiting.withLock { waiting in
                defer { waiting.removeFirst(min(limit, waiting.count)) }
                return Array(waiting.prefix(limit))
            }
            return ClaimedRecords(claimed: names, last: names.last.map { DialectPlace(0, $0) })
        }
    }

    @Test("a receiver that does not answer, and an outcome that cannot be recorded, keep no other event waiting")
    func posting() async throws {
        let names = ["hangs"] + (1...50).map { "\($0)" }
        let outbox = Outbox(names)
        let (story, reported) = (Story(), Story())
        let failure = failure
        let posting = EventPosting<String>(places: 2, bell: outbox.bell) { reported.tell($0.message) }
        // Ends: when all others have been posted; the one that hangs ends with the task.
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await posting.run { (limit, _, _) throws(UploadError) in
                    outbox.claim(limit)
                } send: { (name) throws(UploadError) in
                    if name == "hangs" { await EventBell().wait(after: 0, timeout: .seconds(3600)) }
                    story.tell(name)
                    if name == "3" { throw failure }
                }
            }
            while story.told.count < 50 { await Task.yield() }
            #expect(!story.told.contains("hangs"))
            group.cancelAll()
        }
        #expect(story.told.prefix(50) == names.dropFirst())
        #expect(reported.told == ["It cannot be done."])
    }

    @Test("each look goes on where the last one has ended, and knows what is being posted to whom")
    func positions() async throws {
        let looks = Story()
        let bell = EventBell()
        let posting = EventPosting<String>(places: 3, bell: bell, host: { String($0.prefix(1)) }) { _ in }
        // Ends: after three looks.
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await posting.run { (limit, last, running) throws(UploadError) in
                    looks.tell(
                        "\(limit) \(last?.key ?? "-") \(running.sorted { $0.key < $1.key }.map { "\($0)\($1)" })"
                    )
                    switch looks.told.count {
                    case 1: return ClaimedRecords(claimed: ["a1", "b1"], last: DialectPlace(0, "b1"))
                    case 2: return ClaimedRecords(last: nil)
                    default: return ClaimedRecords(claimed: ["a2"], last: nil)
                    }
                } send: { _ throws(UploadError) in
                    await EventBell().wait(after: 0, timeout: .seconds(3600))
                }
            }
            while looks.told.count < 3 { await Task.yield() }
            group.cancelAll()
        }
        #expect(looks.told == ["3 - []", "1 b1 [\"a1\", \"b1\"]", "1 - [\"a1\", \"b1\"]"])
    }
}
