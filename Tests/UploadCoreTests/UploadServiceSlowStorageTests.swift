import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore

@Suite("Storages that take long to finish an upload, or fail to remove one")
struct UploadServiceSlowStorageTests {
    private static let finishing = UploadError(.finishing, "Not yet.")

    @Test("who sends the last byte is told that all are there, and the upload completes by itself")
    func appended() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(3)
        bench.storage.plan.fail(.synchronize, count: 2, with: Self.finishing)
        let upload = try await bench.append([1, 2, 3], to: id, at: 0)
        #expect(upload.state == .open)
        #expect(upload.offset == 3)
        // Who asks meanwhile hears the same.
        let asked = try await bench.service.status(of: id)
        #expect(asked.state == .open && asked.offset == 3)
        while try await bench.state.upload(id)?.state == .open { try await Task.sleep(for: .milliseconds(20)) }
        #expect(try await bench.service.media(id).size == 3)
        #expect(try await bench.contents(of: id) == [1, 2, 3])
    }

    @Test("who can not ask again waits until it is complete")
    func waited() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(3)
        bench.storage.plan.fail(.synchronize, count: 2, with: Self.finishing)
        let open = try await bench.append([1, 2, 3], to: id, at: 0)
        #expect(open.state == .open)
        #expect(try await bench.service.finished(open).state == .completed)
        // One that nobody finishes is not waited for.
        let other = try await bench.service.status(of: try await bench.upload(3))
        #expect(try await bench.service.finished(other).state == .open)
    }

    @Test("what told its end without a length has one then, and a process that comes later completes it")
    func told() async throws {
        let bench = ServiceBench()
        let new = NewUpload(dialect: "http", length: nil, completesWhenFull: false)
        let id = try await bench.service.create(new, under: bench.grant()).id
        bench.storage.plan.fail(.synchronize, count: 1000, with: Self.finishing)
        let upload = try await bench.service.append(
            to: id,
            at: 0,
            contentLength: nil,
            finish: .told(isLast: true),
            expecting: nil,
            from: ScriptedSource([.bytes([1, 2])], isLengthKnown: false)
        )
        #expect(upload.state == .open && upload.length == 2)
        #expect(try await bench.state.upload(id)?.length == 2)
        bench.storage.plan.recover()
        let later = bench.restarted()
        #expect(try await later.status(of: id).state == .completed)
    }

    @Test("bytes that could not be removed are removed by the next sweep, however many there were")
    func removal() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(3)
        _ = await bench.service.sweep()
        bench.storage.plan.fail(.remove, count: 2)
        try await bench.service.terminate(id)
        #expect(try await bench.storage.currentLength(of: id) == 0)
        // No thorough sweep, which would find it among the orphans.
        #expect(await bench.service.sweep().failures == 1)
        #expect(await bench.service.sweep().failures == 0)
        #expect(await code { try await bench.storage.currentLength(of: id) } == .notFound)
        #expect(await bench.service.sweep().failures == 0)
    }
}
