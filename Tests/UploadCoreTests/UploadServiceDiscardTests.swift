import SluiceTesting
import Testing

@testable import UploadCore

@Suite("Uploads that nobody can go on with")
struct UploadServiceDiscardTests {
    @Test("record and bytes are ended")
    func ends() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10, holding: [1, 2, 3])
        await bench.service.discard(id)
        #expect(try await bench.service.inspect(id).state == .terminated)
        #expect(await code { try await bench.contents(of: id) } == .notFound)
    }

    @Test("where there is no room for the record, the bytes make it")
    func makesRoom() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10, holding: [1, 2, 3])
        bench.state.plan.fail(.end, with: UploadError(.storageFull, "full"))
        await bench.service.discard(id)
        #expect(try await bench.service.inspect(id).state == .terminated)
        #expect(await code { try await bench.contents(of: id) } == .notFound)
    }

    @Test("what can not be ended at all is reported, and expires")
    func expires() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10, holding: [1, 2, 3])
        bench.state.plan.fail(.end, count: 2, with: UploadError(.storageFull, "full"))
        await bench.service.discard(id)
        #expect(await code { try await bench.contents(of: id) } == .notFound)
        bench.clock.advance(by: 4000)
        #expect(await bench.service.sweep().expired == 1)
        #expect(try await bench.service.inspect(id).state == .expired)
    }
}
