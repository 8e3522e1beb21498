import Foundation
import Glibc
import SluiceTesting
import Synchronization
import SystemIO
import Testing
import UploadModel

@testable import DiskStorage

@Suite("Whole blobs and shared syncs of directories", .timeLimit(.minutes(10)))
struct WholeTests {
    /// A storage with counted calls; its directory lives as long.
    private struct Bench {
        let temporary: TemporaryDirectory
        let storage: DiskStorage
        let calls = ScriptedCalls()

        init(_ durability: Durability) throws {
            temporary = try TemporaryDirectory()
            let directory = try DataDirectory(at: temporary.path("data"))
            let pool = BlockingPool(threads: 2, label: "test-disk", calls: calls)
            storage = DiskStorage(directory: directory, durability: durability, pool: pool)
        }
    }

    @Test("a whole blob has its bytes and is as durable as the settings say", arguments: Durability.allCases)
    func whole(durability: Durability) async throws {
        let bench = try Bench(durability)
        let (storage, calls) = (bench.storage, bench.calls)
        let first = DiskBench.newID()
        try await storage.create(NewBlob(first, createdAt: .now), with: [1])
        calls.forget()
        // In the same shard, which needs no sync again.
        var id = DiskBench.newID()
        while DataDirectory.shard(of: id) != DataDirectory.shard(of: first) { id = DiskBench.newID() }
        let bytes = BlobStorageContract.pattern(32 << 10)
        try await storage.create(NewBlob(id, createdAt: .now), with: bytes)
        // The file, and its name.
        #expect(calls.names.filter { $0 == "fsync" || $0 == "fdatasync" }.count == (durability == .none ? 0 : 2))
        #expect(calls.names.filter { $0 == "pwrite" }.count == 1)
        #expect(try await BlobStorageContract.contents(of: id, in: storage) == bytes)
        #expect(try await storage.durableLength(of: id) == Int64(bytes.count))
        let again = DiskStorage(
            directory: storage.directory,
            durability: durability,
            pool: storage.pool,
            boot: BootID(value: storage.boot.value &+ 1)
        )
        // After a power cut, everything that was synced counts, and nothing else.
        #expect(try await again.durableLength(of: id) == (durability == .none ? 0 : Int64(bytes.count)))
    }

    @Test("a whole blob that cannot be stored leaves no file", arguments: [EIO, ENOSPC])
    func faults(errno: Int32) async throws {
        let bench = try Bench(.acknowledged)
        let (storage, calls) = (bench.storage, bench.calls)
        // Each in a shard of its own: one that has been synced once saves the calls that are to fail.
        var shards: Set<String> = []
        func newID() -> UploadID {
            while true {
                let id = DiskBench.newID()
                if shards.insert(DataDirectory.shard(of: id)).inserted { return id }
            }
        }
        try await storage.create(NewBlob(newID(), createdAt: .now), with: [1])
        calls.forget()
        try await storage.create(NewBlob(newID(), createdAt: .now), with: [2])
        let names = calls.names
        #expect(names.count >= 6)
        for (index, name) in names.enumerated() {
            let before = try await storage.list(after: nil, limit: 100)
            calls.plan(names[..<index].filter { $0 == name }.count, of: name, .fails(errno))
            let id = newID()
            let code = await errorCode { () async throws(UploadError) in
                try await storage.create(NewBlob(id, createdAt: .now), with: [3])
            }
            #expect(code == (errno == ENOSPC ? .storageFull : .storageFailure), "\(index) \(name)")
            #expect(try await storage.list(after: nil, limit: 100) == before, "\(index) \(name)")
        }
    }

    @Test("calls that wait for a sync of the same directory share the next one")
    func sharedSyncs() async throws {
        let calls = ScriptedCalls()
        calls.hold("fsync")
        let pool = BlockingPool(threads: 8, label: "test-disk", calls: calls)
        let directory = try TemporaryDirectory()
        let syncs = SharedDirectorySyncs()
        let path = directory.path("")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    try await pool.run { (io: BlockingIO) throws(SystemError) in try syncs.synchronize(path, io) }
                }
            }
            // The first one runs, and all others can only wait.
            while !calls.isHolding || syncs.waiting(path) < 7 { await Task.yield() }
            calls.letGo()
            try await group.waitForAll()
        }
        #expect(calls.names.filter { $0 == "fsync" }.count == 2)
        #expect(syncs.waiting(path) == 0)
    }

    @Test("a failed sync fails all calls that shared it, and no later one")
    func failedSync() async throws {
        let calls = ScriptedCalls()
        let pool = BlockingPool(threads: 1, label: "test-disk", calls: calls)
        let directory = try TemporaryDirectory()
        let path = directory.path("")
        let syncs = SharedDirectorySyncs()
        calls.plan(0, of: "fsync", .fails(EIO))
        await #expect(throws: SystemError.self) {
            try await pool.run { (io: BlockingIO) throws(SystemError) in try syncs.synchronize(path, io) }
        }
        try await pool.run { (io: BlockingIO) throws(SystemError) in try syncs.synchronize(path, io) }
    }
}
