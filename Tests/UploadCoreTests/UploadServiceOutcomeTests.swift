import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Records with an unknown outcome", .timeLimit(.minutes(10)))
struct UploadServiceOutcomeTests {
    private let bench = ServiceBench()
    private let lost = UploadError(.unavailable, "The connection is lost.")
    private let new = NewUpload(dialect: "tus", length: 3)

    @Test(
        "an upload that was recorded is created, whatever the response was",
        arguments: [UploadError.Code.unavailable, .storageFailure]
    )
    func recorded(code: UploadError.Code) async throws {
        bench.state.plan.lose(.insertUpload, with: UploadError(code, "lost"))
        let grant = bench.grant("once", isOneTime: true)
        let id = try await bench.services.uploads.create(new, under: grant).id
        #expect(try await bench.append([1, 2, 3], to: id, at: 0).state == .completed)
        #expect(await UploadCoreTests.code { try await bench.services.uploads.create(new, under: grant) } == .grantUsed)
        #expect(try await bench.storage.list(after: nil, limit: 10) == [id])
    }

    @Test("with an unknown outcome the blob stays, and the next attempt of the client gets the upload, once")
    func unknown() async throws {
        let grant = bench.grant("once", isOneTime: true)
        bench.state.plan.lose(.insertUpload, with: lost)
        bench.state.plan.fail(.upload, count: 10, with: lost)
        #expect(await code { try await bench.services.uploads.create(new, under: grant) } == .unavailable)
        bench.state.plan.recover()
        #expect(try await bench.storage.list(after: nil, limit: 10).count == 1)
        // A different request does not match.
        let other = NewUpload(dialect: "tus", length: 4)
        #expect(await code { try await bench.services.uploads.create(other, under: grant) } == .grantUsed)
        let id = try await bench.services.uploads.create(new, under: grant).id
        #expect(await code { try await bench.services.uploads.create(new, under: grant) } == .grantUsed)
        #expect(try await bench.append([1, 2, 3], to: id, at: 0).state == .completed)
        #expect(try await bench.storage.list(after: nil, limit: 10) == [id])
    }

    @Test("an unrecorded upload does not use up its grant, and the sweep removes its blob at the latest")
    func notRecorded() async throws {
        let grant = bench.grant("once", isOneTime: true)
        for code in [UploadError.Code.unavailable, .storageFailure, .storageFull] {
            bench.state.plan.fail(.insertUpload, with: UploadError(code, "not made"))
            #expect(await UploadCoreTests.code { try await bench.services.uploads.create(new, under: grant) } == code)
        }
        let id = try await bench.services.uploads.create(new, under: grant).id
        bench.clock.advance(by: 3601)
        let later = bench.restarted()
        #expect(await later.sweep.run().orphansSetAside == 1)
        #expect(try await bench.storage.list(after: nil, limit: 10).filter { $0 != id } == [])
    }

    @Test("an upload that ends while the storage finishes it loses its bytes afterwards")
    func endedWhileFinishing() async throws {
        let finishing = UploadError(.finishing, "Not yet.")
        let id = try await bench.upload(3)
        bench.storage.plan.fail(.synchronize, with: finishing)
        #expect(try await bench.append([1, 2, 3], to: id, at: 0).state == .open)
        bench.storage.plan.fail(.remove, with: finishing)
        try await bench.services.uploads.terminate(id)
        #expect(try await bench.storage.list(after: nil, limit: 10) == [id])
        // No sweep: the task that waits for the storage removes them.
        while try await bench.storage.list(after: nil, limit: 10) != [] { try await Task.sleep(for: .milliseconds(20)) }
        #expect(bench.observer.story.contains("failed") == false)
    }
}
