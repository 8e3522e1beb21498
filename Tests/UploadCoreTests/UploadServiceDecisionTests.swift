import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore

@Suite("What is decided of an upload that changes meanwhile")
struct UploadServiceDecisionTests {
    private let bench = ServiceBench()

    @Test("who gives an open upload up leaves the object that it has become")
    func abortAfterCompletion() async throws {
        let id = try await bench.begin()
        let part = try await bench.put([1, 2], part: 1, of: id)
        try await bench.complete(id, [part])
        #expect(await code { try await bench.service.terminate(id, .open) } == .notOpen)
        #expect(try await bench.read() == [1, 2])
        try await bench.service.terminate(id)
        #expect(try await bench.service.object(ServiceBench.name) == nil)
    }

    @Test("who gives up an upload that is being completed waits for that, and takes the object away from nobody")
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
        async let aborting = code { try await bench.service.terminate(id, .open) }
        while bench.service.leases.waiterCount(of: id) == 0 { await Task.yield() }
        await gate.open()
        #expect(try await completing.state == .completed)
        #expect(await aborting == .notOpen)
        #expect(try await bench.read() == [1, 2])
        #expect(try await bench.service.inspect(old.id).state == .terminated)
    }

    @Test("an upload that is completed between the look at it and its end is not ended as an open one")
    func completedBetween() async throws {
        let id = try await bench.service.create(NewUpload(dialect: "tus", length: 3), under: bench.grant()).id
        let (state, clock) = (bench.state, bench.clock)
        state.plan.before(.end) {
            // As whoever needs no lease for it.
            guard var upload = try? await state.upload(id) else { return }
            upload.state = .completed
            upload.length = 3
            upload.endedAt = clock.now
            _ = try? await state.complete(upload, as: Media(of: upload))
        }
        #expect(await code { try await bench.service.terminate(id, .open) } == .notOpen)
        #expect(try await bench.service.inspect(id).state == .completed)
        #expect(try await bench.storage.list(after: nil, limit: 10) == [id])
        // Whatever it is, it is to end.
        try await bench.service.terminate(id)
        #expect(try await bench.service.inspect(id).state == .terminated)
    }

    @Test("what is discarded was not completed meanwhile, also where the bytes go first")
    func discard() async throws {
        let id = try await bench.upload(3, holding: [1, 2, 3])
        await bench.service.discard(id, .open)
        #expect(try await bench.service.media(id).size == 3)
        bench.state.plan.fail(.end, with: UploadError(.storageFull, "full"))
        await bench.service.discard(id, .open)
        #expect(try await bench.contents(of: id) == [1, 2, 3])
    }

    @Test("an object whose completion was refused appears only if somebody asks again")
    func refusedCompletion() async throws {
        let id = try await bench.begin()
        let part = try await bench.put([1, 2], part: 1, of: id)
        // Between the look at what can be seen and the end another object takes the name.
        bench.state.plan.before(.setAttributes) { [bench] in _ = try? await bench.put([7]) }
        #expect(await code { try await bench.complete(id, [part], if: .isAbsent) } == .conditionFailed)
        #expect(try await bench.read() == [7])
        #expect(try await bench.service.removeObject(ServiceBench.name))
        #expect(try await bench.service.status(of: id).state == .open)
        _ = await bench.service.sweep()
        #expect(try await bench.service.object(ServiceBench.name) == nil)
        #expect(await code { try await bench.put([3], part: 2, of: id) } == .notOpen)
        var other = part
        other.number = 2
        #expect(await code { try await bench.complete(id, [other]) } != nil)
        try await bench.complete(id, [part], if: .isAbsent)
        #expect(try await bench.read() == [1, 2])
    }

    @Test("a part that comes while its upload is completed is to be sent again, and not lost for ever")
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

    @Test("writers of one name do not try again and again: each looks once, and completes once", arguments: [50])
    func oneName(writers: Int) async throws {
        _ = try await bench.service.createBucket(ServiceBench.name.bucket)
        bench.state.plan.pause { for _ in 0..<3 { await Task.yield() } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<writers {
                group.addTask { [bench] in try await bench.put([UInt8(number)]) }
            }
            try await group.waitForAll()
        }
        #expect(bench.state.plan.calls(of: .complete) == writers)
        #expect(bench.state.plan.calls(of: .object) == writers)
        #expect(try await bench.read()?.count == 1)
        #expect(try await bench.storage.list(after: nil, limit: 100).count == 1)
    }
}
