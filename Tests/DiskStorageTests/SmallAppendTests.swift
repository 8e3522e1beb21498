import Bytes
import Foundation
import Glibc
import SluiceTesting
import SystemIO
import Testing
import UploadModel

@testable import DiskStorage

@Suite("Small contents, and files that stay open for the next one", .timeLimit(.minutes(10)))
struct SmallAppendTests {
    private struct Bench {
        let temporary: TemporaryDirectory
        let directory: DataDirectory
        let storage: DiskStorage
        let calls = ScriptedCalls()

        init(_ durability: Durability, most: Int = 8) throws {
            temporary = try TemporaryDirectory()
            directory = try DataDirectory(at: temporary.path("data"))
            storage = DiskStorage(
                directory: directory,
                durability: durability,
                pool: BlockingPool(threads: 2, label: "test-disk", calls: calls),
                recent: RecentLimits(most: most, age: .seconds(600))
            )
        }

        func blob() async throws -> UploadID {
            let id = DiskBench.newID()
            try await storage.create(id)
            return id
        }

        func append(_ bytes: [UInt8], to id: UploadID, at offset: Int64, isLast: Bool = false) async -> Int64? {
            let report = await storage.append(bytes, to: id, at: offset, isLast: isLast)
            if case .endOfSource = report.end { return report.stored }
            return nil
        }

        /// A storage of the next boot, after a power cut.
        func rebooted() -> DiskStorage {
            DiskStorage(
                directory: directory,
                durability: storage.durability,
                pool: storage.pool,
                boot: BootID(value: storage.boot.value &+ 1)
            )
        }
    }

    @Test("an append to an open file takes one write, and syncs as the settings say", arguments: Durability.allCases)
    func calls(durability: Durability) async throws {
        let bench = try Bench(durability)
        let id = try await bench.blob()
        bench.calls.forget()
        #expect(await bench.append([1, 2, 3], to: id, at: 0) == 3)
        let first = bench.calls.names
        #expect(!first.contains("open"))
        #expect(first.filter { $0 == "pwrite" }.count == 1)
        #expect(first.contains("fsync") == (durability == .acknowledged))
        bench.calls.forget()
        #expect(await bench.append([4], to: id, at: 3, isLast: true) == 1)
        #expect(bench.calls.names.contains("fsync") == (durability != .none))
        #expect(bench.storage.openBlobs.count == 0)
        #expect(try await bench.rebooted().durableLength(of: id) == (durability == .none ? 0 : 4))
    }

    @Test("what is acknowledged survives a power cut, with and without an open file", arguments: [0, 8])
    func powerCut(most: Int) async throws {
        let bench = try Bench(.acknowledged, most: most)
        let id = try await bench.blob()
        for offset in 0..<5 {
            #expect(await bench.append([UInt8(offset)], to: id, at: Int64(offset)) == 1)
            #expect(try await bench.rebooted().durableLength(of: id) == Int64(offset) + 1)
        }
    }

    @Test("a file that something else has removed, replaced or changed is not written to")
    func foreign() async throws {
        let bench = try Bench(.none)
        func path(_ id: UploadID) -> String { bench.directory.blobPath(id) }
        let removed = try await bench.blob()
        #expect(unlink(path(removed)) == 0)
        let report = await bench.storage.append([1], to: removed, at: 0, isLast: false)
        #expect(report.end.code == .notFound)

        let shortened = try await bench.blob()
        #expect(await bench.append([1, 2, 3], to: shortened, at: 0) == 3)
        #expect(truncate(path(shortened), 2) == 0)
        let mismatch = await bench.storage.append([4], to: shortened, at: 3, isLast: false)
        #expect(mismatch.end.code == .offsetMismatch(expected: 2))
        #expect(await bench.append([9], to: shortened, at: 2) == 1)
        #expect(try await BlobStorageContract.contents(of: shortened, in: bench.storage) == [1, 2, 9])
    }

    @Test("a write that fails in the middle keeps what was written, and the next append goes on from there")
    func partialWrite() async throws {
        let bench = try Bench(.acknowledged)
        let id = try await bench.blob()
        bench.calls.plan(0, of: "pwrite", .moves(2))
        #expect(await bench.append([1, 2, 3, 4], to: id, at: 0) == 4)
        bench.calls.plan(0, of: "pwrite", .fails(ENOSPC))
        let full = await bench.storage.append([5], to: id, at: 4, isLast: true)
        #expect(full.stored == 0)
        #expect(full.end.code == .storageFull)
        bench.calls.recover()
        #expect(await bench.append([5], to: id, at: 4, isLast: true) == 1)
        #expect(try await BlobStorageContract.contents(of: id, in: bench.storage) == [1, 2, 3, 4, 5])
    }

    @Test("a sync that fails makes nothing of it count", arguments: [Durability.acknowledged, .completed])
    func failedSync(durability: Durability) async throws {
        let bench = try Bench(durability)
        let id = try await bench.blob()
        #expect(await bench.append([1], to: id, at: 0) == 1)
        bench.calls.plan(0, of: "fsync", .fails(EIO))
        let failed = await bench.storage.append([2], to: id, at: 1, isLast: true)
        #expect(failed.stored == 0)
        #expect(failed.end.code == .storageFailure)
        bench.calls.recover()
        let length = try await bench.storage.durableLength(of: id)
        // With `completed`, the first byte was not on the disk either.
        #expect(length == (durability == .acknowledged ? 1 : 0))
        let rest = Array([1, 2].dropFirst(Int(length))) as [UInt8]
        #expect(await bench.append(rest, to: id, at: length, isLast: true) == Int64(rest.count))
        #expect(try await BlobStorageContract.contents(of: id, in: bench.storage) == [1, 2])
    }

    @Test("files that are only kept open make way for those that are needed", arguments: [EMFILE, ENFILE])
    func descriptors(errno: Int32) async throws {
        let bench = try Bench(.none)
        let old = try await bench.blob()
        #expect(await bench.append([1], to: old, at: 0) == 1)
        bench.calls.plan(0, of: "open", .fails(errno))
        let id = try await bench.blob()
        #expect(bench.storage.openBlobs.take(old) == nil)
        #expect(await bench.append([1], to: id, at: 0, isLast: true) == 1)
        #expect(await bench.append([2], to: old, at: 1) == 1)
        // Without such a file, it is an error as before.
        bench.storage.openBlobs.removeAll()
        bench.calls.plan(0, of: "open", .fails(errno))
        await #expect(throws: UploadError.self) { try await bench.blob() }
    }

    @Test("no more files stay open than allowed, and none of a blob that is gone")
    func bound() async throws {
        let bench = try DiskBench(recent: RecentLimits(most: 3, age: .seconds(600)))
        var ids: [UploadID] = []
        for _ in 0..<10 {
            let id = DiskBench.newID()
            try await bench.storage.create(id)
            ids.append(id)
        }
        #expect(try bench.openDescriptors() == 3)
        try await bench.storage.remove(ids[9])
        try await bench.storage.setAside(ids[8], at: .now)
        #expect(try bench.openDescriptors() == 1)
        let large = BlobStorageContract.pattern(100_000)
        _ = await bench.storage.append(to: ids[7], at: 0, from: ArraySource(large), limit: 1 << 20, expecting: nil)
        #expect(try await bench.closesAllFiles())
    }

    @Test("old files are closed without any call")
    func age() async throws {
        let bench = try DiskBench(recent: RecentLimits(most: 3, age: .milliseconds(50)))
        try await bench.storage.create(DiskBench.newID())
        #expect(try await bench.closesAllFiles())
    }
}
