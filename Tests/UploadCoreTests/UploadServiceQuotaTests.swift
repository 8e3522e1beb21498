import Bytes
import Digests
import Foundation
import SluiceTesting
import Synchronization
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Quotas and hooks of uploads", .timeLimit(.minutes(10)))
struct UploadServiceQuotaTests {
    private func bench(_ change: (inout Policy) -> Void) -> ServiceBench {
        var policy = Policy()
        change(&policy)
        return ServiceBench(
            limits: UploadLimits(maximumBytes: 1000, lifetime: 3600, policies: [.subject: policy])
        )
    }

    private func used(_ bench: ServiceBench) async throws -> Int64 {
        let usage = try await bench.services.quota.quota(of: Account(.subject, "alice")).usage
        return usage.storedBytes + usage.reservedBytes
    }

    @Test("appends without an announced length get what is left, and return what they do not need")
    func chunked() async throws {
        let bench = bench { $0.storedBytes = 10 }
        let new = NewUpload(dialect: "tus", length: nil)
        let first = try await bench.services.uploads.create(new, under: bench.grant()).id
        let second = try await bench.services.uploads.create(new, under: bench.grant()).id
        let source = ScriptedSource([.bytes([1, 2, 3]), .bytes([4])], isLengthKnown: false)
        #expect(try await bench.append(source, to: first, at: 0).offset == 4)
        #expect(try await used(bench) == 4)
        let greedy = ScriptedSource([.bytes([UInt8](repeating: 7, count: 9))], isLengthKnown: false)
        let code = await code { try await bench.append(greedy, to: second, at: 0) }
        #expect(code?.name == "quota_exceeded")
        // The bytes that fit are kept, as with any other end.
        #expect(try await bench.services.uploads.inspect(second).offset == 6)
        #expect(try await used(bench) == 10)
        let exact = ScriptedSource([], isLengthKnown: false)
        #expect(try await bench.append(exact, to: second, at: 6).offset == 6)
        try await bench.services.uploads.terminate(first)
        let rest = ScriptedSource([.bytes([1, 2, 3])], isLengthKnown: false)
        #expect(try await bench.append(rest, to: second, at: 6).offset == 9)
        #expect(try await used(bench) == 9)
    }

    @Test("other policies of a kind hold at once for accounts without their own, with what they have used")
    func replacedDefaults() async throws {
        let bench = bench { $0.storedBytes = 10 }
        let (uploads, quota) = (bench.services.uploads, bench.services.quota)
        let new = NewUpload(dialect: "tus", length: 8)
        _ = try await uploads.create(new, under: bench.grant())
        #expect(await code { _ = try await uploads.create(new, under: bench.grant()) }?.name == "quota_exceeded")
        var policy = Policy()
        policy.storedBytes = 20
        quota.replaceDefaults([.subject: policy])
        _ = try await uploads.create(new, under: bench.grant())
        #expect(try await used(bench) == 16)
        policy.storedBytes = 4
        quota.replaceDefaults([.subject: policy])
        #expect(await code { _ = try await uploads.create(new, under: bench.grant()) }?.name == "quota_exceeded")
        var own = Policy()
        own.openUploads = 9
        try await quota.setPolicy(own, of: Account(.subject, "alice"))
        quota.replaceDefaults([:])
        #expect(try await quota.quota(of: Account(.subject, "alice")).policy == own)
        #expect(try await quota.quota(of: Account(.subject, "bob")).policy == Policy())
    }

    @Test("wherever the process dies, the usage is exact after the next sweep")
    func everyPoint() async throws {
        var calls = 0
        while true {
            let bench = bench { $0.storedBytes = 100 }
            bench.fuse.burn(afterCalls: calls)
            let grant = bench.grant()
            let id = try? await bench.services.uploads.create(NewUpload(dialect: "tus", length: 5), under: grant).id
            if let id { _ = try? await bench.append([1, 2, 3, 4, 5], to: id, at: 0) }
            if let id { try? await bench.services.uploads.terminate(id) }
            let isDone = !bench.fuse.isBurnt
            let services = bench.restarted()
            _ = await services.sweep.run()
            let uploads = try await services.uploads.list(UploadQuery())
            let alive = uploads.filter { $0.state == .open || $0.state == .completed }
            #expect(try await used(bench) == Int64(alive.count * 5), "after \(calls) calls")
            // One event for each recorded step, and none for an unrecorded one.
            let kinds = try await bench.state.events(EventQuery(after: 0)).map(\.kind)
            let expected: [EventRecord.Kind] =
                switch uploads.first?.state {
                case nil: []
                case .open: [.created]
                case .completed: [.created, .completed]
                case .terminated: [.created, .completed, .terminated]
                case .expired: [.expired]
                }
            #expect(kinds == expected, "after \(calls) calls")
            if isDone { break }
            calls += 1
        }
        #expect(calls > 8)
    }

    @Test("an empty file that does not match its declared type is refused at creation")
    func emptyFile() async throws {
        let bench = bench { $0.checksContent = true }
        let metadata = UploadMetadata(describing: ["filetype": "image/png"])
        let new = NewUpload(dialect: "tus", length: 0, metadata: metadata)
        #expect(
            await code { try await bench.services.uploads.create(new, under: bench.grant()) } == .contentTypeRefused
        )
        let digest = NewUpload(dialect: "tus", length: 0, expectedDigests: [.sha256: [UInt8](repeating: 0, count: 32)])
        #expect(await code { try await bench.services.uploads.create(digest, under: bench.grant()) } == .digestMismatch)
        #expect(try await bench.services.uploads.list(UploadQuery()).allSatisfy { $0.state == .terminated })
    }

    @Test("a blob that is about to be recorded is not an orphan, a blob left by a crash is")
    func orphans() async throws {
        let limits = UploadLimits(maximumBytes: 1000, lifetime: 3600, orphanAge: 0)
        let bench = ServiceBench(limits: limits)
        let orphan = UploadID.generate(at: bench.clock.now)
        let current = UploadID.generate(at: bench.clock.now)
        try await bench.storage.create(orphan)
        try await bench.storage.create(current)
        bench.services.uploads.unrecorded.insert(current)
        #expect(await bench.services.sweep.run().orphansSetAside == 1)
        #expect(try await bench.storage.list(after: nil, limit: 9) == [current])
    }

    /// Hooks that follow a script.
    private final class ScriptedHooks: UploadHooks {
        let refusal = Mutex<UploadError?>(nil)
        let asked = Mutex<[String]>([])

        func wants(_ kind: EventRecord.Kind) -> Bool { kind != .updated }
        var decidesUploads: Bool { true }

        func willCreate(_ upload: Upload) async throws(UploadError) -> CreationChanges {
            try ask("create")
            return CreationChanges(alias: "n", metadata: ["a": "b"], key: "k")
        }

        func willFinish(_ upload: Upload) async throws(UploadError) { try ask("finish") }
        func willTerminate(_ upload: Upload) async throws(UploadError) { try ask("terminate") }

        private func ask(_ name: String) throws(UploadError) {
            asked.withLock { $0.append(name) }
            if let refusal = refusal.withLock({ $0 }) { throw refusal }
        }
    }

    @Test("hooks run before anything is recorded, and a refusal changes nothing")
    func hooks() async throws {
        let bench = ServiceBench()
        let hooks = ScriptedHooks()
        let services = UploadServices(
            state: bench.state,
            storage: bench.storage,
            clock: bench.clock,
            limits: bench.limits,
            observer: bench.observer,
            hooks: hooks
        )
        hooks.refusal.withLock { $0 = UploadError(.rejected, "No.") }
        #expect(
            await code { try await services.uploads.create(NewUpload(dialect: "tus", length: 2), under: bench.grant()) }
                == .rejected
        )
        #expect(try await bench.storage.list(after: nil, limit: 9) == [])
        hooks.refusal.withLock { $0 = nil }
        let upload = try await services.uploads.create(NewUpload(dialect: "tus", length: 2), under: bench.grant())
        #expect((upload.alias, upload.key) == ("n", "k"))
        #expect(upload.metadata.values == ["a": "b"])
        hooks.refusal.withLock { $0 = UploadError(.unavailable, "Later.") }
        let source = ArraySource([1, 2])
        let late = await code {
            try await services.uploads.append(to: upload.id, at: 0, contentLength: 2, expecting: nil, from: source)
        }
        #expect(late == .unavailable)
        #expect(try await services.uploads.inspect(upload.id).offset == 2)
        #expect(await code { try await services.uploads.terminate(upload.id) } == .unavailable)
        hooks.refusal.withLock { $0 = nil }
        #expect(try await services.uploads.status(of: upload.id).state == .completed)
        await services.uploads.discard(upload.id)
        #expect(hooks.asked.withLock { $0 } == ["create", "create", "finish", "terminate", "finish"])
        let events = try await bench.state.events(EventQuery(after: 0))
        #expect(events.map(\.kind) == [.created, .progress, .completed, .terminated])
        #expect(events.allSatisfy { $0.delivery != nil })
    }
}
