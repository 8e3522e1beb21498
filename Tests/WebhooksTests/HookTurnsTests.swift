import Foundation
import SluiceTesting
import Synchronization
import Testing
import UploadModel

@testable import Webhooks

@Suite("Turns of blocking hooks", .timeLimit(.minutes(10)))
struct HookTurnsTests {
    /// Notes who has a turn, and holds it until it is told to end.
    private final class Calls: Sendable {
        let turns: UserTurns
        private let state = Mutex((running: [String](), begun: [String](), ended: Set<String>()))

        init(_ turns: UserTurns) { self.turns = turns }

        var running: [String] { state.withLock { $0.running } }
        /// In the order of their turns.
        var begun: [String] { state.withLock { $0.begun } }

        func end(_ name: String) { state.withLock { _ = $0.ended.insert(name) } }

        /// - Returns: Why it has no turn.
        func call(_ name: String, of subject: String?, within limit: Duration = .seconds(600)) -> Task<
            UserTurns.Refusal?, Never
        > {
            Task {
                do throws(UserTurns.Refusal) { try await turns.begin(subject, within: limit) } catch { return error }
                state.withLock { state in
                    state.running.append(name)
                    state.begun.append(name)
                }
                while !state.withLock({ $0.ended.contains(name) }) { await Task.yield() }
                state.withLock { $0.running.removeAll { $0 == name } }
                turns.end(subject)
                return nil
            }
        }

        func wait(until isSo: (Calls) -> Bool) async { while !isSo(self) { await Task.yield() } }
    }

    @Test("a user has half of the places, those who wait have turns, and the app's own uploads take all")
    func shares() async {
        let calls = Calls(UserTurns(4))
        var tasks: [Task<UserTurns.Refusal?, Never>] = []
        for number in 0..<6 {
            tasks.append(calls.call("m\(number)", of: "mallory"))
            await calls.wait { $0.begun.count + $0.turns.waiting == number + 1 }
        }
        #expect(calls.running == ["m0", "m1"])
        tasks.append(calls.call("b0", of: "bob"))
        await calls.wait { $0.running.count == 3 }
        tasks.append(calls.call("t0", of: "trudy"))
        await calls.wait { $0.running.count == 4 }
        for name in ["b1", "b2"] {
            tasks.append(calls.call(name, of: "bob"))
            await calls.wait { $0.turns.waiting == (name == "b1" ? 5 : 6) }
        }
        // Mallory asked for four more before, and has one turn before bob's.
        for name in ["m0", "m1", "m2"] {
            let count = calls.begun.count
            calls.end(name)
            await calls.wait { $0.begun.count == count + 1 }
        }
        #expect(calls.begun == ["m0", "m1", "b0", "t0", "m2", "b1", "m3"])
        for name in ["b0", "t0", "b1", "b2", "m3", "m4", "m5"] { calls.end(name) }
        for task in tasks { #expect(await task.value == nil) }
        tasks = (0..<4).map { calls.call("own\($0)", of: nil) }
        await calls.wait { $0.running.count == 4 }
        for number in 0..<4 { calls.end("own\(number)") }
        for task in tasks { #expect(await task.value == nil) }
        #expect(calls.turns.waiting == 0)
    }

    @Test("who waits too long, ends or comes with too many others has no turn, and keeps nobody waiting")
    func refusals() async {
        let calls = Calls(UserTurns(1, mostWaiting: 2))
        let first = calls.call("a", of: "alice")
        await calls.wait { $0.running == ["a"] }
        #expect(await calls.call("late", of: "bob", within: .milliseconds(1)).value == .tooLate)
        let cancelled = calls.call("cancelled", of: "bob")
        await calls.wait { $0.turns.waiting == 1 }
        cancelled.cancel()
        #expect(await cancelled.value == .tooLate)
        #expect(calls.turns.waiting == 0)
        let waiting = ["w1", "w2"].map { calls.call($0, of: "bob") }
        await calls.wait { $0.turns.waiting == 2 }
        #expect(await calls.call("w3", of: "bob").value == .tooMany)
        for name in ["a", "w1", "w2"] { calls.end(name) }
        for task in [first] + waiting { #expect(await task.value == nil) }
        #expect(calls.running.isEmpty)
    }

    /// An app that answers when it is told to.
    private final class App: HookTransport {
        private let answers = Mutex((calls: 0, isAnswering: false, isAway: false))

        var calls: Int { answers.withLock { $0.calls } }

        func answer() { answers.withLock { $0.isAnswering = true } }

        func goAway() { answers.withLock { $0.isAway = true } }

        func send(_ message: HookMessage, within timeout: Duration) async throws(HookFailure) -> [UInt8] {
            answers.withLock { $0.calls += 1 }
            while !answers.withLock({ $0.isAnswering || $0.isAway }) { await Task.yield() }
            if answers.withLock({ $0.isAway }) { throw HookFailure("away", isOutage: true) }
            return Array(#"{"RejectUpload":true}"#.utf8)
        }
    }

    private func upload(of subject: String) throws -> Upload {
        Upload(
            id: try #require(UploadID("01jd3v0m5xq4n8e2r7t9w6y1zk")),
            dialect: "tus",
            subject: subject,
            principal: "key_1",
            length: 5,
            metadata: UploadMetadata(values: [:]),
            createdAt: Date(timeIntervalSince1970: 1)
        )
    }

    private func code(_ body: () async throws(UploadError) -> Void) async -> UploadError.Code? {
        do throws(UploadError) {
            try await body()
            return nil
        } catch {
            return error.code
        }
    }

    @Test(
        "an upload without a turn does not pass without the app, whatever hooks.onFailure says",
        arguments: [false, true]
    )
    func failOpen(_ isFailOpen: Bool) async throws {
        let app = App()
        let settings = HookSettings(events: [.preCreate], timeout: .milliseconds(1), isFailOpen: isFailOpen)
        let hooks = BlockingHooks(HookCaller(settings, app, blockingCalls: 1), clock: ManualClock()) { _, _, _ in }
        let upload = try upload(of: "alice")
        let first = Task { await code { () async throws(UploadError) in _ = try await hooks.willCreate(upload) } }
        while app.calls == 0 { await Task.yield() }
        let other = try self.upload(of: "bob")
        #expect(await code { () async throws(UploadError) in _ = try await hooks.willCreate(other) } == .unavailable)
        #expect(app.calls == 1)
        app.answer()
        #expect(await first.value == .rejected)
        // A failure of the app itself is what the setting is for.
        app.goAway()
        let away = await code { () async throws(UploadError) in _ = try await hooks.willCreate(other) }
        #expect(away == (isFailOpen ? nil : .unavailable))
    }

    /// An app that fails in this way, one after the other, and in the last one from then on.
    private final class FailingApp: HookTransport {
        private let failures: Mutex<[HookFailure]>

        init(_ failures: [HookFailure]) { self.failures = Mutex(failures) }

        func send(_ message: HookMessage, within timeout: Duration) async throws(HookFailure) -> [UInt8] {
            let failure = failures.withLock { $0.count > 1 ? $0.removeFirst() : $0.first }
            throw failure ?? HookFailure("none")
        }
    }

    @Test("with hooks.onFailure=allow only an outage lets pass, and none that follows an answer")
    func answers() async throws {
        let away = HookFailure("away", isOutage: true)
        let busy = HookFailure("429", isTransient: true)
        let cases: [(failures: [HookFailure], code: UploadError.Code?)] = [
            ([away], nil), ([HookFailure("no JSON")], .unavailable), ([busy, away], .unavailable),
            ([HookFailure("restarts", isTransient: true, isOutage: true), away], nil),
            ([HookFailure("restarts", isTransient: true, isOutage: true), HookFailure("no JSON")], .unavailable),
        ]
        for (failures, expected) in cases {
            let settings = HookSettings(events: [.preCreate], timeout: .seconds(600), isFailOpen: true)
            let caller = HookCaller(settings, FailingApp(failures))
            let hooks = BlockingHooks(caller, clock: ManualClock()) { _, _, _ in }
            let upload = try upload(of: "alice")
            let found = await code { () async throws(UploadError) in _ = try await hooks.willCreate(upload) }
            #expect(found == expected, "\(failures)")
        }
    }
}
