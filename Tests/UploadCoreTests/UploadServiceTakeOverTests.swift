import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Taking over", .timeLimit(.minutes(10)))
struct UploadServiceTakeOverTests {
    /// Runs `body` while the writer of an upload has sent five bytes and stalls.
    private func whileStalled(
        _ bench: ServiceBench,
        _ body: (UploadID) async throws -> Void
    ) async throws -> UploadError.Code? {
        let id = try await bench.upload(10)
        let stalled = ScriptedSource([.bytes([1, 2, 3, 4, 5]), .stall, .bytes([66])])
        async let writer = code { try await bench.append(stalled, to: id, at: 0) }
        await stalled.waitUntilStalled()
        try await body(id)
        return await writer
    }

    @Test("an offset query stops a stalled writer and counts its bytes")
    func status() async throws {
        let bench = ServiceBench()
        let writer = try await whileStalled(bench) { (id: UploadID) async throws in
            #expect(try await bench.services.uploads.status(of: id).offset == 5)
        }
        #expect(writer == .interrupted)
        #expect(bench.observer.story == ["created", "taken over", "appended 5", "broken off 5"])
    }

    @Test("a second append stops a stalled writer and continues after its bytes")
    func append() async throws {
        let bench = ServiceBench()
        let writer = try await whileStalled(bench) { (id: UploadID) async throws in
            let upload = try await bench.append([6, 7, 8, 9, 10], to: id, at: 5)
            #expect(upload.state == .completed)
            #expect(try await bench.contents(of: id) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
        }
        #expect(writer == .interrupted)
    }

    @Test("ten concurrent offset queries all see the same bytes")
    func tenQueries() async throws {
        let bench = ServiceBench()
        let writer = try await whileStalled(bench) { (id: UploadID) async throws in
            let offsets = try await withThrowingTaskGroup(of: Int64.self) { group in
                for _ in 0..<10 { group.addTask { try await bench.services.uploads.status(of: id).offset } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(offsets == Array(repeating: 5, count: 10))
        }
        #expect(writer == .interrupted)
    }

    @Test("of ten concurrent appends at the same offset at most one stores its bytes")
    func tenAppends() async throws {
        let bench = ServiceBench()
        let writer = try await whileStalled(bench) { (id: UploadID) async throws in
            let results = await withTaskGroup(of: UploadError.Code?.self) { group in
                for number in 0..<10 {
                    group.addTask {
                        await code {
                            try await bench.append([UInt8](repeating: UInt8(number), count: 5), to: id, at: 5)
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results.filter { $0 == nil }.count == 1)
            #expect(results.allSatisfy { [nil, .interrupted, .offsetMismatch(expected: 10)].contains($0) })
            let contents = try await bench.contents(of: id)
            #expect(contents.count == 10)
            #expect(Set(contents[5...]).count == 1)
        }
        #expect(writer == .interrupted)
    }

    @Test("termination stops a stalled writer and removes its bytes")
    func terminate() async throws {
        let bench = ServiceBench()
        let writer = try await whileStalled(bench) { (id: UploadID) async throws in
            try await bench.services.uploads.terminate(id)
            #expect(await code { try await bench.services.uploads.status(of: id) } == .gone)
        }
        #expect(writer == .interrupted)
        #expect(try await bench.storage.list(after: nil, limit: 10) == [])
    }

    @Test("observers and the sweep do not disturb a writer, even one that is past its expiry")
    func onlookers() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(10)
        let source = ScriptedSource([.bytes([1, 2, 3, 4, 5]), .stall, .bytes([6])])
        async let appending = bench.append(source, to: id, at: 0)
        await source.waitUntilStalled()
        #expect(try await bench.services.uploads.inspect(id).offset == 5)
        #expect(try await bench.services.uploads.list(UploadQuery()).map(\.offset) == [5])
        bench.clock.advance(by: 10_000)
        #expect(await bench.services.sweep.run().expired == 0)
        #expect(source.interruptions == 0)
        source.proceed()
        let upload = try await appending
        #expect(upload.offset == 6)
        #expect(upload.expiresAt == bench.clock.now.addingTimeInterval(3600))
        #expect(await bench.services.sweep.run().expired == 0)
    }

    @Test("a writer that does not release the lease makes the next one busy")
    func busy() async throws {
        let bench = ServiceBench(takeOverTimeout: .milliseconds(10))
        let id = try await bench.upload(10)
        let gate = Gate()
        let leases = bench.services.uploads.leases
        async let holder: Void = leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
            await gate.pass()
        }
        while leases.count == 0 { await Task.yield() }
        #expect(await code { try await bench.services.uploads.status(of: id) } == .busy)
        #expect(await code { try await bench.append([1], to: id, at: 0) } == .busy)
        await gate.open()
        try await holder
        #expect(try await bench.append([1], to: id, at: 0).offset == 1)
    }

    @Test("at shutdown every writer ends, received bytes are saved, and no new append begins")
    func shutdown() async throws {
        let bench = ServiceBench()
        var ids: [UploadID] = []
        for _ in 0..<3 { ids.append(try await bench.upload(10)) }
        let sources = ids.map { _ in ScriptedSource([.bytes([1, 2]), .stall]) }
        await withTaskGroup(of: UploadError.Code?.self) { group in
            for (id, source) in zip(ids, sources) {
                group.addTask { await code { try await bench.append(source, to: id, at: 0) } }
            }
            for source in sources { await source.waitUntilStalled() }
            bench.services.uploads.interruptAll()
            for await result in group { #expect(result == .unavailable) }
        }
        #expect(await code { try await bench.append([3], to: ids[0], at: 2) } == .unavailable)
        for id in ids { #expect(try await bench.services.uploads.status(of: id).offset == 2) }
    }
}
