import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Discarding uploads", .timeLimit(.minutes(10)))
struct UploadServiceDiscardTests {
    @Test("the record and the bytes are removed")
    func ends() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10, holding: [1, 2, 3])
        await bench.services.uploads.discard(id)
        #expect(try await bench.services.uploads.inspect(id).state == .terminated)
        #expect(await code { try await bench.contents(of: id) } == .notFound)
    }

    @Test("on a full disk, the bytes are removed first to make space for the record")
    func makesRoom() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10, holding: [1, 2, 3])
        bench.state.plan.fail(.end, with: UploadError(.storageFull, "full"))
        await bench.services.uploads.discard(id)
        #expect(try await bench.services.uploads.inspect(id).state == .terminated)
        #expect(await code { try await bench.contents(of: id) } == .notFound)
    }

    @Test("a failure is reported, and the upload expires")
    func expires() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10, holding: [1, 2, 3])
        bench.state.plan.fail(.end, count: 2, with: UploadError(.storageFull, "full"))
        await bench.services.uploads.discard(id)
        #expect(await code { try await bench.contents(of: id) } == .notFound)
        bench.clock.advance(by: 4000)
        #expect(await bench.services.sweep.run().expired == 1)
        #expect(try await bench.services.uploads.inspect(id).state == .expired)
    }
}
