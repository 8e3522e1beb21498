import Digests
import Dispatch
import Foundation
import SluiceTesting
import SystemIO
import Testing
import UploadModel

@testable import S3Storage

@Suite("Digests of content while it arrives", .timeLimit(.minutes(10)))
struct StreamDigestsTests {
    @Test("all digests of pieces of any size are those of the whole")
    func pieces() async {
        let pool = BlockingPool(threads: 3, label: "test")
        let digests = StreamDigests(DigestAlgorithm.allCases, on: pool)
        let limit = StreamDigests.smallestMove
        var whole: [UInt8] = []
        for (index, count) in [0, 1, limit - 1, limit, limit + 1, 100_000, 3, 128 << 10].enumerated() {
            let piece = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ index) }
            await digests.update(piece)
            whole += piece
        }
        for algorithm in DigestAlgorithm.allCases {
            #expect(digests.value(algorithm) == Digest.hash(whole, algorithm), "\(algorithm)")
        }
    }

    @Test("only the digests that were asked for are computed")
    func few() async {
        let digests = StreamDigests([.sha1], on: BlockingPool(threads: 1, label: "test"))
        await digests.update([UInt8](repeating: 1, count: 10_000))
        #expect(digests.value(.md5) == nil)
        #expect(digests.value(.sha1) == Digest.hash([UInt8](repeating: 1, count: 10_000), .sha1))
        let none = StreamDigests([], on: BlockingPool(threads: 1, label: "test"))
        await none.update([UInt8](repeating: 1, count: 10_000))
        #expect(none.value(.sha1) == nil)
    }

    @Test("an append that waits for a digest in a trailer pulls nothing while the pool computes, and loses nothing")
    func appends() async throws {
        let store = try FakeStore()
        let pool = BlockingPool(threads: 1, label: "test")
        let storage = store.storage(pool: pool)
        let id = UploadID.generate(at: Date(timeIntervalSince1970: 1_749_945_600))
        try await storage.create(id)
        let bytes = (0..<1_000_000).map { UInt8(48 + $0 % 10) }
        let source = ScriptedSource([.bytes(bytes)])
        let gate = DispatchSemaphore(value: 0)
        pool.submit { _ in gate.wait() }
        let value = Digest.hash(bytes, .sha512)
        async let appended = storage.append(
            to: id,
            at: 0,
            from: source,
            limit: .max,
            expecting: .atEnd { () throws(UploadError) in ExpectedDigest(algorithm: .sha512, value: value) }
        )
        while source.unread == bytes.count { await Task.yield() }
        for _ in 0..<1000 { await Task.yield() }
        #expect(source.unread == bytes.count - 128 << 10)
        gate.signal()
        let report = await appended
        #expect(report.stored == Int64(bytes.count))
        #expect(Array(store.objects.values.map(\.body)) == [String(decoding: bytes, as: UTF8.self)])
        await store.shutDown()
    }

    @Test("an append with a wrong digest in its trailer stores nothing", arguments: DigestAlgorithm.allCases)
    func wrong(_ algorithm: DigestAlgorithm) async throws {
        let store = try FakeStore()
        let storage = store.storage()
        let id = UploadID.generate(at: Date(timeIntervalSince1970: 1_749_945_600))
        try await storage.create(id)
        let bytes = [UInt8](repeating: 49, count: 300_000)
        let digests = [(Digest.hash(bytes.dropLast(), algorithm), 0), (Digest.hash(bytes, algorithm), 300_000)]
        for (value, stored) in digests {
            let report = await storage.append(
                to: id,
                at: 0,
                from: ScriptedSource([.bytes(bytes)]),
                limit: .max,
                expecting: .atEnd { () throws(UploadError) in ExpectedDigest(algorithm: algorithm, value: value) }
            )
            #expect(report.stored == Int64(stored))
        }
        await store.shutDown()
    }
}
