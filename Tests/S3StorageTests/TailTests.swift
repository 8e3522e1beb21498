import Bytes
import Digests
import Foundation
import SluiceTesting
import Synchronization
import Testing
import UploadModel

@testable import S3Storage

@Suite("Appends after tail objects", .timeLimit(.minutes(10)))
struct TailTests {
    private let now = Date(timeIntervalSince1970: 1_750_000_000)
    private let records = InMemoryBlobRecords()
    private static let tail = String(repeating: "t", count: 100_000)

    /// Requests by method and path.
    private final class Calls: Sendable {
        private let list = Mutex<[String]>([])

        func add(_ method: String, _ path: String) { list.withLock { $0.append("\(method) \(path)") } }

        func count(_ prefix: String) -> Int { list.withLock { $0.count { $0.hasPrefix(prefix) } } }
    }

    /// A blob of two parts or more with these tail objects.
    private func blob(_ tails: [String] = [tail], partSize: Int64, in store: FakeStore) async throws -> UploadID {
        let id = UploadID.generate(at: now)
        var record = BlobRecord(
            id: id,
            bucket: "bucket",
            key: "k",
            contentType: nil,
            partSize: partSize,
            createdAt: now
        )
        record.multipart = "m"
        record.crc32c = nil
        for (number, body) in tails.enumerated() {
            let (key, bytes) = (".sluice/\(id)/tail-\(number)", Array(body.utf8))
            record.tails.append(TailObject(key: key, length: Int64(bytes.count), md5: Digest.hash(bytes, .md5)))
            store.put(body, at: key, owner: nil)
        }
        try await records.insert(record)
        return id
    }

    private func append(
        _ source: any ByteSource,
        to id: UploadID,
        at offset: Int64,
        _ digest: ExpectedDigest? = nil,
        in storage: S3Storage
    ) async -> AppendReport {
        await storage.append(
            to: id,
            at: offset,
            from: source,
            limit: source.remaining ?? 0,
            of: 1 << 30,
            expecting: digest.map { .known($0) },
            confirming: nil
        )
    }

    private func tails(of id: UploadID) async throws -> [Int64] {
        try #require(await records.blob(id)).tails.map(\.length)
    }

    private func parts(of id: UploadID) async throws -> [Int64] { try await records.parts(of: id).map(\.size) }

    private func end(_ store: FakeStore, _ storage: S3Storage) async {
        #expect(storage.memory.used == 0)
        await storage.finish(within: .seconds(600))
        await store.shutDown()
    }

    @Test("a client that brings a byte, and then waits, makes the gateway neither read nor hold a tail object")
    func waiting() async throws {
        let store = try FakeStore()
        let storage = store.storage(records)
        let id = try await blob(partSize: 8 << 20, in: store)
        let calls = Calls()
        store.before { calls.add($0, $1) }
        // Enough for the rest of the part.
        let rest = [UInt8](repeating: 1, count: 9 << 20)
        let source = ScriptedSource([.bytes([1]), .stall, .bytes(rest)], isLengthKnown: true)
        async let report = append(source, to: id, at: 100_000, in: storage)
        await source.waitUntilStalled()
        #expect(storage.memory.used == Slab.size)
        source.interrupter.interrupt(as: .disconnected)
        #expect(await report.stored == 1)
        #expect(calls.count("GET") == 0)
        #expect(try await tails(of: id) == [100_000, 1])
        await end(store, storage)
    }

    @Test("small appends do not copy a large tail object again and again")
    func small() async throws {
        let store = try FakeStore()
        let storage = store.storage(records)
        let id = try await blob(partSize: 8 << 20, in: store)
        let calls = Calls()
        store.before { calls.add($0, $1) }
        for offset in 100_000..<100_040 {
            let source = ArraySource([UInt8(ascii: "s")])
            #expect(await append(source, to: id, at: Int64(offset), in: storage).stored == 1)
            #expect(try await tails(of: id).count < 16)
        }
        #expect(calls.count("GET /bucket/.sluice/\(id)/tail-0") == 0)
        #expect(calls.count("GET") > 0)
        let objects = store.objects
        let kept = try #require(await records.blob(id)).tails.map { objects[$0.key]?.body ?? "" }
        #expect(kept.joined() == Self.tail + String(repeating: "s", count: 40))
        await end(store, storage)
    }

    @Test(
        "tail objects are joined with those after them, unless they are much larger",
        arguments: [
            ([1, 1, 1], 0), ([100, 1, 1], 1), ([4, 1, 1], 0), ([5, 1, 1], 1), ([100, 4, 1, 1], 1), ([9, 3], 0),
            ([100, 9, 3], 1), ([100, 9, 3, 1], 2),
        ] as [([Int64], Int)]
    )
    func joining(_ sizes: [Int64], _ first: Int) {
        let tails = sizes.map { TailObject(key: "k", length: $0, md5: []) }
        #expect(AppendSession.firstToJoin(tails) == first)
    }

    @Test("bytes with a wrong checksum make the gateway read and send nothing")
    func wrongDigest() async throws {
        let store = try FakeStore()
        let storage = store.storage(records)
        let id = try await blob(partSize: 100_001, in: store)
        let calls = Calls()
        store.before { calls.add($0, $1) }
        let wrong = ExpectedDigest(algorithm: .md5, value: Digest.hash([0], .md5))
        #expect(await append(ArraySource([1]), to: id, at: 100_000, wrong, in: storage).stored == 0)
        #expect(calls.count("GET") == 0)
        #expect(calls.count("PUT") == 0)
        // The first part is full, and so are six after it: more than are in transit at once.
        let bytes = [UInt8](repeating: UInt8(ascii: "s"), count: 1 + 6 * 100_001)
        let right = ExpectedDigest(algorithm: .md5, value: Digest.hash(bytes, .md5))
        let report = await append(ArraySource(bytes), to: id, at: 100_000, right, in: storage)
        #expect(report.stored == Int64(bytes.count))
        #expect(try await parts(of: id) == [Int64](repeating: 100_001, count: 7))
        #expect(try await tails(of: id) == [])
        #expect(calls.count("GET") == 1)
        await end(store, storage)
    }

    @Test("an append with a checksum does not wait for memory that its own parts hold")
    func ownMemory() async throws {
        let store = try FakeStore()
        let storage = store.storage(records, memory: 8 * Slab.size)
        let id = try await blob(partSize: 100_001, in: store)
        let bytes = [UInt8](repeating: UInt8(ascii: "s"), count: 1 + 8 * 100_001)
        let right = ExpectedDigest(algorithm: .md5, value: Digest.hash(bytes, .md5))
        let report = await append(ArraySource(bytes), to: id, at: 100_000, right, in: storage)
        #expect(report.stored == Int64(bytes.count))
        #expect(try await parts(of: id) == [Int64](repeating: 100_001, count: 9))
        await end(store, storage)
    }

    @Test("an append that has no memory for tail objects holds none while it waits")
    func withoutMemory() async throws {
        let store = try FakeStore()
        let storage = store.storage(records, memory: 8 * Slab.size)
        let id = try await blob(partSize: 100_001, in: store)
        // Of others.
        let held = 7 * Slab.size
        #expect(storage.memory.take(held))
        async let report = append(ArraySource([UInt8(ascii: "s")]), to: id, at: 100_000, in: storage)
        while storage.memory.waiting == 0 { await Task.yield() }
        #expect(storage.memory.used == held)
        #expect(try await tails(of: id) == [100_000, 1])
        storage.memory.release(held)
        #expect(await report.stored == 1)
        #expect(try await tails(of: id) == [])
        #expect(try await parts(of: id) == [100_001])
        #expect(store.objects["k"]?.body == Self.tail + "s")
        await end(store, storage)
    }

    @Test("tail objects that fill a part, left by an append without memory, become one before the next bytes")
    func full() async throws {
        let store = try FakeStore()
        let storage = store.storage(records)
        let id = try await blob([Self.tail, "s"], partSize: 100_001, in: store)
        #expect(await append(ArraySource([UInt8(ascii: "u")]), to: id, at: 100_001, in: storage).stored == 1)
        #expect(try await parts(of: id) == [100_001])
        #expect(try await tails(of: id) == [1])
        #expect(store.objects["k"]?.body == Self.tail + "s")
        await end(store, storage)
    }
}
