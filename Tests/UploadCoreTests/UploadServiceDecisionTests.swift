import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Decisions about uploads that change concurrently", .timeLimit(.minutes(10)))
struct UploadServiceDecisionTests {
    private let bench = ServiceBench()

    @Test("aborting an open upload keeps the object that it has become")
    func abortAfterCompletion() async throws {
        let id = try await bench.begin()
        let part = try await bench.put([1, 2], part: 1, of: id)
        try await bench.complete(id, [part])
        #expect(await code { try await bench.services.uploads.terminate(id, .open) } == .notOpen)
        #expect(try await bench.read() == [1, 2])
        try await bench.services.uploads.terminate(id)
        #expect(try await bench.services.objects.object(ServiceBench.name) == nil)
    }

    @Test("aborting an upload that is being completed waits, and keeps the object")
    func abortBesideCompletion() async throws {
        let old = try await bench.put([9])
        let id = try await bench.begin()
        let part = try await bench.put([1, 2], part: 1, of: id)
        let gate = Gate()
        let began = Gate()
        bench.state.plan.before(.complete) {
            await began.open()
            await gate.pass()
        }
        async let completing = bench.complete(id, [part])
        await began.pass()
        async let aborting = code { try await bench.services.uploads.terminate(id, .open) }
        while bench.services.uploads.leases.waiterCount(of: id) == 0 { await Task.yield() }
        await gate.open()
        #expect(try await completing.state == .completed)
        #expect(await aborting == .notOpen)
        #expect(try await bench.read() == [1, 2])
        #expect(try await bench.services.uploads.inspect(old.id).state == .terminated)
    }

    @Test("an upload completed between the check and its end is not ended as an open one")
    func completedBetween() async throws {
        let id = try await bench.services.uploads.create(NewUpload(dialect: "tus", length: 3), under: bench.grant()).id
        let (state, clock) = (bench.state, bench.clock)
        state.plan.before(.end) {
            // Like a caller that needs no lease.
            guard var upload = try? await state.upload(id) else { return }
            upload.state = .completed
            upload.length = 3
            upload.endedAt = clock.now
            _ = try? await state.complete(upload, as: Media(of: upload))
        }
        #expect(await code { try await bench.services.uploads.terminate(id, .open) } == .notOpen)
        #expect(try await bench.services.uploads.inspect(id).state == .completed)
        #expect(try await bench.storage.list(after: nil, limit: 10) == [id])
        // A termination ends it in any state.
        try await bench.services.uploads.terminate(id)
        #expect(try await bench.services.uploads.inspect(id).state == .terminated)
    }

    @Test("a discarded upload was not completed meanwhile, even if its bytes are removed first")
    func discard() async throws {
        let id = try await bench.upload(3, holding: [1, 2, 3])
        await bench.services.uploads.discard(id, .open)
        #expect(try await bench.services.media.media(id).size == 3)
        bench.state.plan.fail(.end, with: UploadError(.storageFull, "full"))
        await bench.services.uploads.discard(id, .open)
        #expect(try await bench.contents(of: id) == [1, 2, 3])
    }

    @Test("an object whose completion was refused appears only on another request")
    func refusedCompletion() async throws {
        let id = try await bench.begin()
        let part = try await bench.put([1, 2], part: 1, of: id)
        // Another object takes the name between the first check and the completion.
        bench.state.plan.before(.setAttributes) { [bench] in _ = try? await bench.put([7]) }
        #expect(await code { try await bench.complete(id, [part], if: .isAbsent) } == .conditionFailed)
        #expect(try await bench.read() == [7])
        #expect(try await bench.services.objects.removeObject(ServiceBench.name))
        #expect(try await bench.services.uploads.status(of: id).state == .open)
        _ = await bench.services.sweep.run()
        #expect(try await bench.services.objects.object(ServiceBench.name) == nil)
        #expect(await code { try await bench.put([3], part: 2, of: id) } == .notOpen)
        var other = part
        other.number = 2
        #expect(await code { try await bench.complete(id, [other]) } != nil)
        try await bench.complete(id, [part], if: .isAbsent)
        #expect(try await bench.read() == [1, 2])
    }

    @Test("a part that arrives during a completion must be sent again, and is not refused for ever")
    func partBesideCompletion() async throws {
        let id = try await bench.begin()
        let one = try await bench.put([1], part: 1, of: id)
        let gate = Gate()
        let began = Gate()
        bench.storage.plan.before(.join) {
            await began.open()
            await gate.pass()
        }
        bench.storage.plan.fail(.join, with: UploadError(.storageFull, "full"))
        async let completing = code { try await bench.complete(id, [one]) }
        await began.pass()
        #expect(await code { try await bench.put([2], part: 2, of: id) } == .busy)
        await gate.open()
        #expect(await completing == .storageFull)
        let two = try await bench.put([2], part: 2, of: id)
        try await bench.complete(id, [one, two])
        #expect(try await bench.read() == [1, 2])
    }

    @Test(
        "concurrent writers of one name do not retry: each checks and completes once",
        arguments: [(50, false), (50, true)]
    )
    func oneName(writers: Int, inParts: Bool) async throws {
        // A long timeout, because waits are long on a busy machine.
        var limits = UploadLimits(maximumBytes: 1000, lifetime: 3600)
        limits.takeOverTimeout = .seconds(600)
        let bench = ServiceBench(limits: limits)
        _ = try await bench.services.objects.createBucket(ServiceBench.name.bucket)
        bench.state.plan.pause { for _ in 0..<3 { await Task.yield() } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<writers {
                group.addTask {
                    guard inParts else { return _ = try await bench.put([UInt8(number)]) }
                    let id = try await bench.begin()
                    try await bench.complete(id, [bench.put([UInt8(number)], part: 1, of: id)])
                }
            }
            try await group.waitForAll()
        }
        #expect(bench.state.plan.calls(of: inParts ? .complete : .insertComplete) == writers)
        #expect(bench.state.plan.calls(of: .object) == writers)
        #expect(try await bench.read()?.count == 1)
        #expect(try await bench.storage.list(after: nil, limit: 100).count == 1)
    }
}
