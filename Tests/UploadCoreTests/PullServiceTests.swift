import Bytes
import Foundation
import Signing
import SluiceTesting
import Synchronization
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Pulling", .timeLimit(.minutes(10)))
struct PullServiceTests {
    private static let bytes = [UInt8](1...100)

    private let sealer: PullSealer
    private let bench: ServiceBench
    private let events = Recorder()

    private final class Recorder: Sendable {
        private let story = Mutex<[String]>([])

        var all: [String] { story.withLock { $0 } }

        func observe(_ event: PullEvent) {
            let text: String? =
                switch event {
                case .completed: "completed"
                case .interrupted(_, let reason): "interrupted \(reason.code)"
                case .failed(_, let reason): "failed \(reason.code)"
                case .progressed, .ended: nil
                }
            if let text { story.withLock { $0.append(text) } }
        }
    }

    init() throws {
        try self.init(ServiceBench(limits: UploadLimits(maximumBytes: 1000, lifetime: 24 * 3600)))
    }

    private init(_ bench: ServiceBench) throws {
        self.bench = bench
        sealer = PullSealer(master: try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32))))
    }

    private func pulls(
        _ origin: ScriptedOrigin,
        _ services: UploadServices? = nil,
        limits: PullLimits = PullLimits(attempts: 3, retryDelay: 0.001),
        endsWithKey: Bool = false
    ) -> PullService {
        PullService(
            uploads: (services ?? bench.services).uploads,
            pulls: bench.state,
            origin: origin,
            sealer: sealer,
            limits: limits,
            revoked: RevocationList(state: bench.state, clock: bench.clock),
            endsWithKey: endsWithKey,
            observe: events.observe
        )
    }

    private func begin(
        _ pulls: PullService,
        metadata: [String: String] = [:],
        contentTypes: [String] = [],
        maximumBytes: Int64? = nil,
        reach: PullReach? = nil,
        for subject: String? = "alice"
    ) async throws -> UploadID {
        var request = PullRequest(
            url: "https://example.com/file?key=secret",
            shown: "https://example.com/file",
            headers: [.init(name: "Authorization", value: "secret")],
            metadata: metadata,
            reach: reach
        )
        let sealed = sealer.seal(request)
        request.keepsMetadata = true
        let new = NewUpload(
            dialect: "pull",
            length: nil,
            metadata: UploadMetadata(describing: metadata),
            completesWhenFull: false,
            pull: NewPull(
                url: "https://example.com/file",
                sealed: sealed,
                sealedWhenDecided: sealer.seal(request),
                contentTypes: contentTypes
            )
        )
        var grant = bench.grant(maximumBytes: maximumBytes)
        grant.subject = subject
        return try await pulls.begin(new, under: grant).id
    }

    /// Claims a due job, if there is one, and makes an attempt.
    private func attempt(_ pulls: PullService) async {
        for job in (try? await bench.state.claimPulls(limit: 1, for: 30)) ?? [] { await pulls.attempt(job) }
    }

    /// Makes each attempt when it is due until the job is over; waits for claims of a dead process to expire.
    private func finish(_ id: UploadID, _ pulls: PullService) async throws -> PullJob {
        for _ in 0..<100 {
            let job = try #require(try await pulls.job(of: id))
            guard let next = job.nextAttemptAt else { return job }
            let claimEnd = job.isClaimed ? bench.clock.now.addingTimeInterval(30) : next
            if claimEnd > bench.clock.now { bench.clock.set(to: claimEnd) }
            await attempt(pulls)
        }
        Issue.record("does not end")
        throw CancellationError()
    }

    // MARK: Revocation

    private func revokeAlice() async throws {
        let now = bench.clock.now
        let end = now.addingTimeInterval(1)
        try await bench.state.insert(Revocation(subject: "alice", issuedBefore: end, createdAt: now))
        bench.clock.advance(by: RevocationList.lifetime)
    }

    @Test("a pull of a user that is revoked reaches only public addresses", arguments: [PullReach.allowedRanges, nil])
    func revoked(_ reach: PullReach?) async throws {
        let origin = ScriptedOrigin(.init(bytes: Self.bytes, failures: [PullFailure("unreachable", "later")]))
        let pulls = pulls(origin)
        let id = try await begin(pulls, reach: reach)
        await attempt(pulls)
        try await revokeAlice()
        #expect(try await !finish(id, pulls).isFailed)
        #expect(origin.reaches == [reach, .publicOnly])
        // What is asked for later is not concerned.
        bench.clock.advance(by: 2)
        _ = try await finish(begin(pulls, reach: reach), pulls)
        #expect(origin.reaches.last == .some(reach))
    }

    @Test("a pull that a revocation keeps from its address fails as revoked, and so does every one if they end with it")
    func endsRevoked() async throws {
        let refusal = PullFailure(PullFailure.refusedAddress, "not public", .final)
        for endsWithKey in [false, true] {
            let origin = ScriptedOrigin(.init(bytes: Self.bytes, failures: [refusal]))
            let pulls = pulls(origin, endsWithKey: endsWithKey)
            let id = try await begin(pulls, reach: .allowedRanges)
            try await revokeAlice()
            let job = try await finish(id, pulls)
            #expect(job.isFailed && job.lastError?.code == "revoked" && job.sealed.isEmpty)
            #expect(try await bench.services.uploads.inspect(id).state == .terminated)
            #expect(origin.requests.count == (endsWithKey ? 0 : 1))
        }
        let pulls = pulls(ScriptedOrigin(.init(failures: [refusal])))
        bench.clock.advance(by: 2)
        #expect(try await finish(begin(pulls), pulls).lastError?.code == PullFailure.refusedAddress)
    }

    @Test("a pull waits while the state does not say what is revoked")
    func revocationsUnknown() async throws {
        let origin = ScriptedOrigin(.init(bytes: Self.bytes))
        let pulls = pulls(origin)
        let id = try await begin(pulls)
        bench.state.plan.fail(.key)
        await attempt(pulls)
        #expect(origin.requests.isEmpty)
        #expect(try await pulls.job(of: id)?.lastError?.code == "storage_failure")
        _ = try await finish(id, pulls)
        #expect(origin.requests.count == 1)
    }

    // MARK: What comes

    @Test("content is stored whole, and its secrets are removed", arguments: [true, false])
    func whole(_ isTotalKnown: Bool) async throws {
        let origin = ScriptedOrigin(.init(bytes: Self.bytes, isTotalKnown: isTotalKnown))
        let pulls = pulls(origin)
        let id = try await begin(pulls)
        let before = try #require(try await pulls.job(of: id))
        #expect(!before.sealed.isEmpty && !before.sealed.contains("secret"))
        #expect(before.url == "https://example.com/file")
        let job = try await finish(id, pulls)
        #expect(job.attempts == 1 && job.sealed.isEmpty && !job.isFailed && job.lastError == nil)
        #expect(try await bench.services.uploads.inspect(id).state == .completed)
        #expect(try await bench.contents(of: id) == Self.bytes)
        #expect(events.all == ["completed"])
    }

    @Test("empty content makes a complete upload")
    func empty() async throws {
        let pulls = pulls(ScriptedOrigin(.init()))
        let id = try await begin(pulls)
        _ = try await finish(id, pulls)
        #expect(try await bench.services.media.media(id).size == 0)
    }

    @Test("name and type come from the origin unless the app set them")
    func metadata() async throws {
        let origin = ScriptedOrigin(.init(bytes: [1], filename: "theirs", contentType: "video/mp4"))
        let pulls = pulls(origin)
        let taken = try await begin(pulls, metadata: ["note": "n"])
        _ = try await finish(taken, pulls)
        let media = try await bench.services.media.media(taken)
        #expect(media.metadata == ["note": "n", "filename": "theirs", "filetype": "video/mp4"])
        let explicit = try await begin(pulls, metadata: ["name": "mine", "type": "text/plain"])
        _ = try await finish(explicit, pulls)
        #expect(try await bench.services.media.media(explicit).metadata == ["name": "mine", "type": "text/plain"])
    }

    /// Decides the metadata of each upload.
    private struct DecidingHooks: UploadHooks {
        let metadata: [String: String]

        var decidesUploads: Bool { true }

        func wants(_ kind: EventRecord.Kind) -> Bool { false }
        func willCreate(_ upload: Upload) async throws(UploadError) -> CreationChanges {
            CreationChanges(metadata: metadata)
        }
        func willFinish(_ upload: Upload) async throws(UploadError) {}
        func willTerminate(_ upload: Upload) async throws(UploadError) {}
    }

    @Test(
        "what a hook has decided about name and type stays, also what it has left out",
        arguments: [["owner": "7", "filename": "hook.png", "filetype": "image/png"], ["owner": "7"], [:]]
    )
    func decided(_ metadata: [String: String]) async throws {
        let origin = ScriptedOrigin(.init(bytes: [1], filename: "theirs", contentType: "video/mp4"))
        let services = UploadServices(
            state: bench.state,
            storage: bench.storage,
            clock: bench.clock,
            limits: bench.limits,
            observer: bench.observer,
            hooks: DecidingHooks(metadata: metadata)
        )
        let pulls = pulls(origin, services)
        let id = try await begin(pulls, metadata: ["note": "n"])
        _ = try await finish(id, pulls)
        #expect(try await bench.services.media.media(id).metadata == metadata)
        // The type that counts is that of the app, or else that of the origin.
        let limited = try await begin(pulls, metadata: ["filetype": "image/gif"], contentTypes: ["image/*"])
        #expect(try await finish(limited, pulls).isFailed == (metadata["filetype"] == nil))
    }

    // MARK: What breaks

    @Test("after a cut connection the rest is requested, and progress resets the failures")
    func resumes() async throws {
        let origin = ScriptedOrigin(.init(bytes: Self.bytes, cuts: [10, 10, 10, 10, 10, 10]))
        let pulls = pulls(origin)
        let id = try await begin(pulls)
        let job = try await finish(id, pulls)
        #expect(job.attempts == 7)
        #expect(origin.requests.map { $0?.offset } == [nil, 10, 20, 30, 40, 50, 60])
        #expect(try await bench.contents(of: id) == Self.bytes)
    }

    @Test("without a validator or ranges, the fetch starts again", arguments: [true, false])
    func beginsAnew(_ hasRanges: Bool) async throws {
        let script = ScriptedOrigin.Script(
            bytes: Self.bytes,
            validator: hasRanges ? nil : "\"one\"",
            hasRanges: hasRanges,
            cuts: [60, 30]
        )
        let pulls = pulls(ScriptedOrigin(script))
        let id = try await begin(pulls)
        #expect(try await finish(id, pulls).attempts == 3)
        #expect(try await bench.contents(of: id) == Self.bytes)
    }

    @Test("no byte of changed content remains", arguments: [5, 100, 300])
    func changes(_ size: Int) async throws {
        let other = [UInt8](repeating: 9, count: size)
        let origin = ScriptedOrigin(
            .init(bytes: Self.bytes, cuts: [60]) { number, script in
                if number == 2 { (script.bytes, script.validator) = (other, "\"two\"") }
            }
        )
        let pulls = pulls(origin)
        let id = try await begin(pulls)
        _ = try await finish(id, pulls)
        #expect(try await bench.contents(of: id) == other)
        #expect(origin.requests.count == 2)
    }

    @Test("a part of other content is detected by its total and refused")
    func foreignPart() async throws {
        let other = [UInt8](repeating: 9, count: 120)
        let origin = ScriptedOrigin(
            // The validator stays: the origin ignores it.
            .init(bytes: Self.bytes, cuts: [60]) { number, script in if number == 2 { script.bytes = other } }
        )
        let pulls = pulls(origin)
        let id = try await begin(pulls)
        _ = try await finish(id, pulls)
        #expect(try await bench.contents(of: id) == other)
        #expect(origin.requests.map { $0?.offset } == [nil, 60, nil])
        #expect(events.all == ["interrupted disconnected", "interrupted content_changed", "completed"])
    }

    @Test("parts shorter than requested are put together")
    func shortParts() async throws {
        let origin = ScriptedOrigin(.init(bytes: Self.bytes, cuts: [10], largestPart: 25))
        let pulls = pulls(origin)
        let id = try await begin(pulls)
        _ = try await finish(id, pulls)
        #expect(origin.requests.map { $0?.offset } == [nil, 10, 35, 60, 85])
        #expect(try await bench.contents(of: id) == Self.bytes)
    }

    @Test(
        "with all bytes stored it is completed without a request, or by one that brings nothing",
        arguments: [true, false]
    )
    func allBytesThere(_ isTotalKnown: Bool) async throws {
        let origin = ScriptedOrigin(.init(bytes: Self.bytes, isTotalKnown: isTotalKnown))
        let pulls = pulls(origin)
        let id = try await begin(pulls)
        bench.state.plan.fail(.complete)
        _ = try await finish(id, pulls)
        #expect(try await bench.services.media.media(id).size == 100)
        #expect(origin.requests.map { $0?.offset } == (isTotalKnown ? [nil] : [nil, 100]))
    }

    // MARK: What is given up

    @Test("a final failure ends the upload at once, other failures after some attempts")
    func givenUp() async throws {
        let gone = PullFailure("origin_status", "404", .final)
        let busy = PullFailure("origin_status", "503")
        for (failures, attempts) in [([gone], 1), ([busy, busy, busy, busy], 3), ([busy, gone], 2)] {
            let pulls = pulls(ScriptedOrigin(.init(bytes: [1], failures: failures)))
            let id = try await begin(pulls)
            let job = try await finish(id, pulls)
            #expect(job.isFailed && job.attempts == attempts && job.sealed.isEmpty)
            #expect(job.lastError == failures[attempts - 1].reason)
            #expect(try await bench.services.uploads.inspect(id).state == .terminated)
        }
        #expect(try await bench.storage.list(after: nil, limit: 10) == [])
    }

    @Test("a failure that is not the origin's counts as no attempt, and its reason is recorded")
    func waiting() async throws {
        let away = PullFailure("unavailable", "away", .wait)
        let origin = ScriptedOrigin(.init(bytes: [1], failures: [PullFailure](repeating: away, count: 5)))
        let pulls = pulls(origin, limits: PullLimits(attempts: 2, retryDelay: 2, longestDelay: 60))
        let id = try await begin(pulls)
        for _ in 0..<5 {
            await attempt(pulls)
            let job = try #require(try await pulls.job(of: id))
            #expect(job.failures == 0 && job.lastError == away.reason)
            bench.clock.set(to: try #require(job.nextAttemptAt))
        }
        #expect(try await !finish(id, pulls).isFailed)
        #expect(try await bench.contents(of: id) == [1])
        #expect(events.all == Array(repeating: "interrupted unavailable", count: 5) + ["completed"])
    }

    @Test("content that a policy refuses ends the pull as failed, with the reason")
    func refusedContent() async throws {
        var policy = Policy()
        policy.checksContent = true
        let limits = UploadLimits(maximumBytes: 1000, lifetime: 24 * 3600, policies: [.subject: policy])
        let tests = try Self(ServiceBench(limits: limits))
        let page = Array("<!DOCTYPE html><html><body>not a picture</body></html>".utf8)
        let pulls = tests.pulls(ScriptedOrigin(.init(bytes: page)))
        let id = try await tests.begin(pulls, metadata: ["filetype": "image/png"])
        let job = try await tests.finish(id, pulls)
        #expect(job.isFailed && job.lastError?.code == "content_type_refused" && job.sealed.isEmpty)
        #expect(try await tests.bench.services.uploads.inspect(id).state == .terminated)
        #expect(tests.events.all == ["failed content_type_refused"])
    }

    @Test("an upload that is complete when its pull is given up stays, and counts as no failure")
    func completeInTheEnd() async throws {
        let pulls = pulls(ScriptedOrigin(.init(bytes: [1], failures: [PullFailure("origin_status", "404", .final)])))
        let id = try await begin(pulls)
        let (state, clock) = (bench.state, bench.clock)
        state.plan.before(.end) {
            guard var upload = try? await state.upload(id) else { return }
            upload.state = .completed
            upload.length = 0
            upload.endedAt = clock.now
            _ = try? await state.complete(upload, as: Media(of: upload))
        }
        let job = try await finish(id, pulls)
        #expect(!job.isFailed && job.lastError == nil && job.sealed.isEmpty)
        #expect(try await bench.services.media.media(id).size == 0)
        #expect(events.all == ["completed"])
    }

    @Test("delays double, are randomised, and respect the origin")
    func delays() async throws {
        let busy = PullFailure("origin_status", "503")
        let delayed = PullFailure("origin_status", "503", .retry(after: 100))
        let origin = ScriptedOrigin(.init(bytes: [1], failures: [busy, busy, busy, busy, delayed]))
        let pulls = pulls(origin, limits: PullLimits(attempts: 9, retryDelay: 2, longestDelay: 10))
        let id = try await begin(pulls)
        for most in [2.0, 4, 8, 10] {
            await attempt(pulls)
            let job = try #require(try await pulls.job(of: id))
            let next = try #require(job.nextAttemptAt)
            #expect(job.lastError == busy.reason)
            #expect((most * 0.74...most).contains(next.timeIntervalSince(bench.clock.now)))
            bench.clock.set(to: next)
        }
        await attempt(pulls)
        #expect(try await pulls.job(of: id)?.nextAttemptAt == bench.clock.now.addingTimeInterval(100))
        _ = try await finish(id, pulls)
    }

    @Test(
        "content larger than allowed is refused by its declared or received size",
        arguments: [true, false]
    )
    func tooLarge(_ isTotalKnown: Bool) async throws {
        let pulls = pulls(ScriptedOrigin(.init(bytes: Self.bytes, isTotalKnown: isTotalKnown)))
        let id = try await begin(pulls, maximumBytes: 99)
        #expect(try await finish(id, pulls).lastError?.code == "content_too_large")
        #expect(bench.observer.story.contains("appended 99") == !isTotalKnown)
        let fits = try await begin(pulls, maximumBytes: 100)
        #expect(try await !finish(fits, pulls).isFailed)
    }

    @Test(
        "a type that is not allowed is refused",
        arguments: [("video/mp4", true), ("text/html; charset=utf-8", false), (nil, false)]
    )
    func contentTypes(_ type: String?, _ isAllowed: Bool) async throws {
        let pulls = pulls(ScriptedOrigin(.init(bytes: [1], contentType: type)))
        let id = try await begin(pulls, contentTypes: ["video/*"])
        let job = try await finish(id, pulls)
        #expect(job.lastError?.code == (isAllowed ? nil : "content_type_refused"))
    }

    @Test("faults of the storage are retried without limit")
    func storageFaults() async throws {
        let pulls = pulls(ScriptedOrigin(.init(bytes: Self.bytes)))
        let id = try await begin(pulls)
        bench.storage.plan.fail(.append, count: 20, with: UploadError(.storageFull, "full"))
        #expect(try await !finish(id, pulls).isFailed)
        #expect(try await bench.contents(of: id) == Self.bytes)
    }

    @Test("a request sealed with another master secret is given up")
    func otherSecret() async throws {
        let pulls = pulls(ScriptedOrigin(.init(bytes: [1])))
        let new = NewUpload(
            dialect: "pull",
            length: nil,
            completesWhenFull: false,
            pull: NewPull(url: "u", sealed: "x")
        )
        let id = try await pulls.begin(new, under: bench.grant()).id
        #expect(try await finish(id, pulls).lastError?.code == "request_unreadable")
    }

    // MARK: Ends from elsewhere

    @Test("the end of an upload, terminated or expired, closes its pull", arguments: [true, false])
    func ended(_ isTerminated: Bool) async throws {
        let busy = PullFailure("origin_status", "503", .retry(after: 7200))
        let pulls = pulls(ScriptedOrigin(.init(bytes: [1], failures: [busy])))
        let id = try await begin(pulls)
        await attempt(pulls)
        if isTerminated {
            try await bench.services.uploads.terminate(id)
        } else {
            bench.clock.advance(by: 25 * 3600)
            #expect(await bench.services.sweep.run().expired == 1)
        }
        let job = try #require(try await pulls.job(of: id))
        #expect(job.nextAttemptAt == nil && job.sealed.isEmpty && !job.isFailed)
    }

    @Test("a running pull stops when its upload ends")
    func cancel() async throws {
        let origin = ScriptedOrigin(.init(bytes: Self.bytes, stalls: true))
        let pulls = pulls(origin)
        let running = Task { await pulls.run() }
        let id = try await begin(pulls)
        while origin.requests.isEmpty { await Task.yield() }
        try await bench.services.uploads.terminate(id)
        pulls.cancel(id)
        while pulls.isRunning(id) { await Task.yield() }
        #expect(try await pulls.job(of: id)?.nextAttemptAt == nil)
        running.cancel()
        await running.value
    }

    @Test("the concurrency is limited, and all pulls finish")
    func concurrency() async throws {
        let origin = ScriptedOrigin(.init(bytes: Self.bytes))
        let pulls = pulls(origin, limits: PullLimits(concurrency: 3, retryDelay: 0.001))
        var ids: [UploadID] = []
        for number in 0..<20 { ids.append(try await begin(pulls, for: number % 2 == 0 ? "alice" : "bob")) }
        let running = Task { await pulls.run() }
        for id in ids {
            while try await bench.services.uploads.inspect(id).state == .open { await Task.yield() }
            #expect(try await bench.contents(of: id) == Self.bytes)
        }
        running.cancel()
        await running.value
        #expect(origin.requests.count == 20)
    }

    @Test("a user whose pulls never end leaves a place to others, and pulls of no user take all places")
    func shares() async throws {
        let stalling = ScriptedOrigin(.init(bytes: Self.bytes, stalls: true))
        let pulls = pulls(stalling, limits: PullLimits(concurrency: 3, retryDelay: 0.001))
        var ids: [UploadID] = []
        for _ in 0..<4 { ids.append(try await begin(pulls, for: "mallory")) }
        let running = Task { await pulls.run() }
        while pulls.runningCount < 2 { await Task.yield() }
        // Later than all that mallory asked for.
        bench.clock.advance(by: 1)
        let other = try await begin(pulls, for: "bob")
        while !pulls.isRunning(other) { await Task.yield() }
        let waiting = ids.filter { !pulls.isRunning($0) }
        #expect(waiting.count == 2)
        for id in ids.filter(pulls.isRunning) {
            try await bench.services.uploads.terminate(id)
            pulls.cancel(id)
        }
        // Those that waited come next.
        for id in waiting { while !pulls.isRunning(id) { await Task.yield() } }
        for id in ids + [other] {
            try? await bench.services.uploads.terminate(id)
            pulls.cancel(id)
        }
        var own: [UploadID] = []
        for _ in 0..<3 { own.append(try await begin(pulls, for: nil)) }
        for id in own { while !pulls.isRunning(id) { await Task.yield() } }
        running.cancel()
        await running.value
    }

    @Test("two users whose pulls never end share the places, and give way to those who have none")
    func turns() async throws {
        let stalling = ScriptedOrigin(.init(bytes: Self.bytes, stalls: true))
        let pulls = pulls(stalling, limits: PullLimits(concurrency: 4, retryDelay: 0.001))
        var ids: [String: [UploadID]] = [:]
        func begin(for subject: String) async throws {
            bench.clock.advance(by: 1)
            ids[subject, default: []].append(try await self.begin(pulls, for: subject))
        }
        func count(_ subject: String) -> Int { ids[subject, default: []].count(where: pulls.isRunning) }
        for _ in 0..<5 { try await begin(for: "mallory") }
        for _ in 0..<5 { try await begin(for: "trudy") }
        let running = Task { await pulls.run() }
        while pulls.runningCount < 4 { await Task.yield() }
        // Although all that mallory asked for is due earlier.
        #expect(count("mallory") == 2 && count("trudy") == 2)
        try await begin(for: "bob")
        while count("bob") < 1 { await Task.yield() }
        try await begin(for: "carol")
        while count("carol") < 1 { await Task.yield() }
        #expect(count("mallory") == 1 && count("trudy") == 1 && count("bob") == 1)
        // Nobody has more than one: who comes now waits until a pull ends, and then comes first.
        try await begin(for: "dave")
        let former = try #require(ids["mallory"]?.first(where: pulls.isRunning))
        try await bench.services.uploads.terminate(former)
        pulls.cancel(former)
        while count("dave") < 1 { await Task.yield() }
        #expect(count("mallory") == 0)
        // What gave way has not failed, and goes on when there is a place.
        for id in ids.values.joined() where id != former {
            let job = try #require(try await pulls.job(of: id))
            #expect(job.failures == 0 && !job.isFailed && job.lastError == nil)
        }
        for id in ids["trudy", default: []] + ids["bob", default: []] + ids["carol", default: []]
            + ids["dave", default: []]
        {
            try await bench.services.uploads.terminate(id)
            pulls.cancel(id)
        }
        bench.clock.advance(by: 1)
        try await begin(for: "mallory")
        while count("mallory") < 3 { await Task.yield() }
        running.cancel()
        await running.value
    }

    @Test("users with one place have turns, however many pulls the first of them asked for before")
    func rounds() async throws {
        let stalling = ScriptedOrigin(.init(bytes: Self.bytes, stalls: true))
        let pulls = pulls(stalling, limits: PullLimits(concurrency: 1, retryDelay: 0.001))
        var waiting: [UploadID: String] = [:]
        for subject in ["a", "a", "a", "a", "b", "b", "c"] {
            waiting[try await begin(pulls, for: subject)] = subject
            bench.clock.advance(by: 1)
        }
        let running = Task { await pulls.run() }
        var order: [String] = []
        while !waiting.isEmpty {
            guard let id = waiting.keys.first(where: pulls.isRunning) else {
                await Task.yield()
                continue
            }
            order.append(waiting.removeValue(forKey: id) ?? "")
            try await bench.services.uploads.terminate(id)
            pulls.cancel(id)
        }
        #expect(order == ["a", "b", "c", "a", "b", "a", "a"])
        running.cancel()
        await running.value
    }

    @Test(
        "those who have fewer places come before those who have more, and one user leaves a place",
        arguments: [
            (4, [], 4, [[]], nil), (4, ["a"], 3, [["a"], []], nil), (4, ["a", "b"], 2, [["a", "b"], []], nil),
            (4, ["a", "a", "a"], 1, [["a"]], "a"), (4, [nil, nil, nil], 1, [[]], nil),
            (4, ["a", "a", "b", nil], 0, [["a", "b"], ["a"], []], "a"), (1, [], 1, [[]], nil),
            (1, ["a"], 0, [["a"]], nil),
            (2, ["a"], 1, [["a"]], nil), (5, ["b", "a", "b", "a"], 1, [["a", "b"], []], "a"),
            (4, ["\u{e1}", "a\u{301}", "\u{e1}"], 1, [["a\u{301}", "\u{e1}"], ["\u{e1}"], []], "\u{e1}"),
            (256, ["a"], 255, [["a"], []], nil), (1, ["a", "b"], 0, [["a", "b"]], nil),
        ] as [(Int, [String?], Int, [[String]], String?)]
    )
    func room(concurrency: Int, running: [String?], count: Int, turns: [[String]], largest: String?) {
        let room = PullRoom(PullLimits(concurrency: concurrency), running: running)
        #expect(room.count == count)
        #expect(
            room.turns.map { $0.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) } }
                == turns.map { $0.map { Array($0.utf8) } }
        )
        #expect(room.largest.map { Array($0.utf8) } == largest.map { Array($0.utf8) })
    }

    // MARK: Crashes

    @Test(
        "wherever the process dies, the content is right in the end, and no upload is left without a job",
        arguments: [true, false]
    )
    func everyPoint(_ isChanging: Bool) async throws {
        let other = [UInt8](repeating: 9, count: 150)
        var point = 0
        while true {
            let bench = ServiceBench(limits: UploadLimits(maximumBytes: 1000, lifetime: nil))
            let test = try Self(bench)
            let origin = ScriptedOrigin(
                .init(bytes: Self.bytes, cuts: [40, 30, 20]) { number, script in
                    if isChanging, number == 3 { (script.bytes, script.validator) = (other, "\"two\"") }
                }
            )
            bench.fuse.burn(afterCalls: point)
            let hasFinished = await test.live(origin)
            let services = bench.restarted()
            let pulls = test.pulls(origin, services)
            let uploads = try await services.uploads.list(UploadQuery())
            for upload in uploads {
                _ = try await test.finish(upload.id, pulls)
                #expect(try await services.uploads.inspect(upload.id).state == .completed, "died after \(point) calls")
                #expect(try await bench.contents(of: upload.id) == (isChanging ? other : Self.bytes), "\(point)")
            }
            if hasFinished { break }
            point += 1
        }
        #expect(point > 10)
    }

    /// A process that runs until it dies.
    private func live(_ origin: ScriptedOrigin) async -> Bool {
        let pulls = pulls(origin)
        guard let id = try? await begin(pulls) else { return false }
        while !bench.fuse.isBurnt, let job = try? await pulls.job(of: id) {
            guard let next = job.nextAttemptAt else { return true }
            if next > bench.clock.now { bench.clock.set(to: next) }
            await attempt(pulls)
        }
        return false
    }
}
