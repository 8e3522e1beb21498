import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Storages that take long to finish an upload, or fail to remove one", .timeLimit(.minutes(10)))
struct UploadServiceSlowStorageTests {
    private static let finishing = UploadError(.finishing, "Not yet.")

    @Test("after the last byte the client learns that all bytes are stored, and the upload completes in the background")
    func appended() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(3)
        bench.storage.plan.fail(.synchronize, count: 2, with: Self.finishing)
        let upload = try await bench.append([1, 2, 3], to: id, at: 0)
        #expect(upload.state == .open)
        #expect(upload.offset == 3)
        // A query in between returns the same.
        let asked = try await bench.services.uploads.status(of: id)
        #expect(asked.state == .open && asked.offset == 3)
        while try await bench.state.upload(id)?.state == .open { try await Task.sleep(for: .milliseconds(20)) }
        #expect(try await bench.services.media.media(id).size == 3)
        #expect(try await bench.contents(of: id) == [1, 2, 3])
    }

    @Test("a client that cannot ask again waits until the upload is complete")
    func waited() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(3)
        bench.storage.plan.fail(.synchronize, count: 2, with: Self.finishing)
        let open = try await bench.append([1, 2, 3], to: id, at: 0)
        #expect(open.state == .open)
        #expect(try await bench.services.uploads.finished(open).state == .completed)
        // An upload that is not being finished is not waited for.
        let other = try await bench.services.uploads.status(of: try await bench.upload(3))
        #expect(try await bench.services.uploads.finished(other).state == .open)
    }

    @Test("an upload created without a length gets one when it ends, and a later process completes it")
    func endedWithoutLength() async throws {
        let bench = ServiceBench()
        let new = NewUpload(dialect: "http", length: nil, completesWhenFull: false)
        let id = try await bench.services.uploads.create(new, under: bench.grant()).id
        bench.storage.plan.fail(.synchronize, count: 1000, with: Self.finishing)
        let upload = try await bench.services.uploads.append(
            to: id,
            at: 0,
            contentLength: nil,
            finish: .explicit(isLast: true),
            expecting: nil,
            from: ScriptedSource([.bytes([1, 2])], isLengthKnown: false)
        )
        #expect(upload.state == .open && upload.length == 2)
        #expect(try await bench.state.upload(id)?.length == 2)
        bench.storage.plan.recover()
        let later = bench.restarted()
        #expect(try await later.uploads.status(of: id).state == .completed)
    }

    @Test("bytes that could not be removed are removed by the next sweep, whatever their number")
    func removal() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(3)
        _ = await bench.services.sweep.run()
        bench.storage.plan.fail(.remove, count: 2)
        try await bench.services.uploads.terminate(id)
        #expect(try await bench.storage.currentLength(of: id) == 0)
        // Not a full check, which would find it among the orphans.
        #expect(await bench.services.sweep.run().failures == 1)
        #expect(await bench.services.sweep.run().failures == 0)
        #expect(await code { try await bench.storage.currentLength(of: id) } == .notFound)
        #expect(await bench.services.sweep.run().failures == 0)
    }
}
