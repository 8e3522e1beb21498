import Bytes
import Digests
import Foundation
import MetricsKit
import SluiceTesting
import Synchronization
import Testing
import UploadModel

@testable import S3Storage

@Suite("Keys that apps choose, and memory, with a delayed store", .timeLimit(.minutes(10)))
struct ChosenKeyTests {
    private let now = Date(timeIntervalSince1970: 1_750_000_000)

    /// A complete blob under a key.
    private func blob(_ body: String, at key: String, in storage: S3Storage) async throws -> UploadID {
        let id = UploadID.generate(at: now)
        var new = NewBlob(id, createdAt: now)
        new.key = key
        new.length = Int64(body.utf8.count)
        try await storage.create(new)
        let report = await storage.append(
            to: id,
            at: 0,
            from: ArraySource(Array(body.utf8)),
            limit: 1 << 20,
            of: new.length,
            expecting: nil,
            confirming: nil
        )
        #expect(report.stored == new.length)
        try await storage.synchronize(id)
        return id
    }

    @Test("requests and memory are metrics")
    func metrics() async throws {
        let (store, metrics) = (try FakeStore(), MetricsRegistry())
        let storage = store.storage(memory: 1 << 20, metrics: metrics)
        let before = """
            # HELP sluice_store_memory_bytes Bytes in memory that the object store has not confirmed.
            # TYPE sluice_store_memory_bytes gauge
            sluice_store_memory_bytes 0
            # HELP sluice_store_memory_limit_bytes Most such bytes.
            # TYPE sluice_store_memory_limit_bytes gauge
            sluice_store_memory_limit_bytes 1048576
            # HELP sluice_store_requests_total Requests to the object store.
            # TYPE sluice_store_requests_total counter

            """
        let after = """
            # HELP sluice_store_spool_files_total Files for bytes that had no room in memory.
            # TYPE sluice_store_spool_files_total counter
            sluice_store_spool_files_total 0

            """
        // The durations have a line for each operation.
        func page() -> String {
            metrics.text().split(separator: "\n").filter { !$0.contains("sluice_store_request_duration_seconds") }
                .map { $0 + "\n" }.joined()
        }
        #expect(page() == before + after)
        _ = try await blob("same", at: "k", in: storage)
        let counted = page()
        let count = try #require(counted.firstMatch(of: /sluice_store_requests_total{outcome="ok"} (\d+)\n/)?.1)
        #expect(counted == before + "sluice_store_requests_total{outcome=\"ok\"} \(count)\n" + after)
        let put = "sluice_store_request_duration_seconds_count{operation=\"put\",outcome=\"ok\"} 1\n"
        #expect(metrics.text().contains(put))
        await store.shutDown()
    }

    @Test("a removal keeps the object of a newer upload, even with the same bytes")
    func newerObjectStays() async throws {
        let store = try FakeStore()
        let storage = store.storage()
        let first = try await blob("same", at: "k", in: storage)
        let second = try await blob("same", at: "k", in: storage)
        #expect(store.objects["k"]?.owner == second.text)
        try await storage.remove(first)
        #expect(store.objects["k"]?.owner == second.text)
        try await storage.remove(second)
        #expect(store.objects["k"] == nil)
        await store.shutDown()
    }

    @Test("an upload that completes between the check of an object and its removal is not removed")
    func removalWaits() async throws {
        let store = try FakeStore()
        let storage = store.storage()
        let first = try await blob("first", at: "k", in: storage)
        let second = Mutex<Task<UploadID, any Error>?>(nil)
        store.before { method, path in
            guard method == "DELETE", path.hasSuffix("/k") else { return }
            // Its bytes are being sent now, and would arrive before this response.
            second.withLock { second in
                guard second == nil else { return }
                second = Task { try await blob("second", at: "k", in: storage) }
            }
            while storage.keyLocks.waiterCount == 0, store.objects["k"]?.body != "second" { await Task.yield() }
        }
        try await storage.remove(first)
        let id = try await #require(second.withLock { $0 }).value
        #expect(store.objects["k"]?.owner == id.text)
        await store.shutDown()
    }

    @Test("an object that appears while its upload is removed by another node is removed, too")
    func removedMeanwhile() async throws {
        let store = try FakeStore()
        let records = InMemoryBlobRecords()
        let storage = store.storage(records)
        let id = UploadID.generate(at: now)
        var record = BlobRecord(
            id: id,
            bucket: "bucket",
            key: "k",
            contentType: nil,
            partSize: 8 << 20,
            createdAt: now
        )
        for (number, body) in ["one", "two"].enumerated() {
            let key = ".sluice/\(id)/\(number)"
            record.tails.append(TailObject(key: key, length: 3, md5: Digest.hash(Array(body.utf8), .md5)))
            store.put(body, at: key, owner: nil)
        }
        try await records.insert(record)
        let puts = Mutex(0)
        store.before { method, path in
            guard method == "PUT", path.hasSuffix("/k") else { return }
            puts.withLock { $0 += 1 }
            // The other node found no object yet and removed the record.
            try? await records.forgetBlob(id)
        }
        await #expect(throws: UploadError.self) { try await storage.synchronize(id) }
        #expect(puts.withLock { $0 } == 1)
        #expect(store.objects["k"] == nil)
        await store.shutDown()
    }

    @Test("if the store compares entity tags, the object of another node stays")
    func otherNode() async throws {
        let store = try FakeStore()
        store.compareTags()
        let storage = store.storage()
        let first = try await blob("first", at: "k", in: storage)
        let other = UploadID.generate(at: now)
        store.before { method, path in
            if method == "DELETE", path.hasSuffix("/k") { store.put("second", at: "k", owner: other) }
        }
        try await storage.remove(first)
        #expect(store.objects["k"]?.owner == other.text)
        await store.shutDown()
    }

    @Test("hundreds of resumes never request more bytes at once than fit into memory")
    func resumes() async throws {
        let store = try FakeStore()
        let records = InMemoryBlobRecords()
        let tail = String(repeating: "t", count: 100_000)
        // For two of them: while they arrive and while they are sent.
        let storage = store.storage(records, memory: 4 * Slab.size + 3 * 100_000)
        var ids: [UploadID] = []
        for number in 0..<300 {
            let id = UploadID.generate(at: now)
            var record = BlobRecord(
                id: id,
                bucket: "bucket",
                key: id.text,
                contentType: nil,
                partSize: 8 << 20,
                createdAt: now
            )
            let key = ".sluice/\(id)/\(number)"
            record.tails = [TailObject(key: key, length: 100_000, md5: Digest.hash(Array(tail.utf8), .md5))]
            record.crc32c = nil
            try await records.insert(record)
            store.put(tail, at: key, owner: nil)
            ids.append(id)
        }
        let running = Mutex((now: 0, most: 0))
        store.before { method, path in
            guard method == "GET", path.contains("/.sluice/") else { return }
            running.withLock { running in
                running.now += 1
                running.most = max(running.most, running.now)
            }
            for _ in 0..<20 { await Task.yield() }
            running.withLock { $0.now -= 1 }
        }
        await withTaskGroup { group in
            for id in ids {
                group.addTask {
                    let report = await storage.append(
                        to: id,
                        at: 100_000,
                        from: ArraySource([1]),
                        limit: 1,
                        of: 100_001,
                        expecting: nil,
                        confirming: nil
                    )
                    #expect(report.stored == 1, "\(report.end)")
                }
            }
        }
        let most = running.withLock { $0.most }
        #expect(most > 0)
        #expect(most <= 3)
        // For some there was no memory, so their tail objects are joined now.
        for id in ids { try await storage.synchronize(id) }
        let objects = store.objects
        #expect(ids.allSatisfy { objects[$0.text]?.body.utf8.count == 100_001 })
        #expect(storage.memory.used == 0)
        await storage.finish(within: .seconds(600))
        await store.shutDown()
    }
}
