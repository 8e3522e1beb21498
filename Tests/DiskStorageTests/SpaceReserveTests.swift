import Bytes
import Foundation
import SluiceTesting
import SystemIO
import Testing
import UploadModel

@testable import DiskStorage

@Suite(
    "The reserve of space",
    .enabled(
        if: SmallFileSystem.isAvailable,
        "this process may not mount a file system (it needs to be the superuser)"
    ),
    .timeLimit(.minutes(10))
)
struct SpaceReserveTests {
    /// A file system of 4 MiB with a reserve of 2 MiB.
    private struct Bench {
        let fileSystem: SmallFileSystem
        let reserve: SpaceReserve
        let io = BlockingIO.onCallingThread

        init() throws {
            fileSystem = try SmallFileSystem(bytes: 4 << 20)
            reserve = SpaceReserve(try io.open(fileSystem.path + "/reserve", O_RDWR | O_CREAT), size: 2 << 20)
        }

        /// Takes all free blocks.
        @discardableResult
        func fill(_ name: String) throws -> Int {
            let file = try io.open(fileSystem.path + "/" + name, O_WRONLY | O_CREAT)
            let (count, failure) = io.write([UInt8](repeating: 1, count: 5 << 20), to: file, at: 0)
            #expect(failure?.errno == ENOSPC)
            return count
        }

        func remove(_ name: String) throws { try io.remove(fileSystem.path + "/" + name) }

        var size: Int64 { (try? io.size(of: fileSystem.path + "/reserve")) ?? -1 }

        /// Work that needs some blocks.
        func work(_ bytes: Int, _ name: String = "work") -> Result<Void, SystemError> {
            Result { () throws(SystemError) in
                let file = try io.open(fileSystem.path + "/" + name, O_WRONLY | O_CREAT)
                if let failure = io.write([UInt8](repeating: 2, count: bytes), to: file, at: 0).failure {
                    try io.remove(fileSystem.path + "/" + name)
                    throw failure
                }
            }
        }

        func lend(keepsHalf: Bool = false, _ work: () -> Result<Void, SystemError>) -> Result<Void, SystemError> {
            reserve.lend(io, keepsHalf: keepsHalf, isFull: { $0.errno == ENOSPC }, to: work)
        }
    }

    @Test("it takes its space at once, and others run out of space before it")
    func whole() throws {
        let bench = try Bench()
        #expect(bench.reserve.hasRoom(bench.io))
        #expect(try bench.fill("ballast") <= 2 << 20)
        #expect(bench.reserve.hasRoom(bench.io), "it is whole")
    }

    @Test("on a full disk, work that frees space succeeds, and other work waits until the reserve is whole again")
    func lent() throws {
        let bench = try Bench()
        #expect(bench.reserve.hasRoom(bench.io))
        try bench.fill("ballast")
        #expect(throws: SystemError.self) { try bench.work(4096).get() }
        // More than one step.
        try bench.lend { bench.work(1_500_000) }.get()
        #expect(!bench.reserve.hasRoom(bench.io))
        #expect(bench.size < 1 << 20)
        try bench.remove("ballast")
        #expect(bench.reserve.hasRoom(bench.io))
        #expect(bench.size == 2 << 20)
    }

    @Test("some work gets half of it at most")
    func half() throws {
        let bench = try Bench()
        #expect(bench.reserve.hasRoom(bench.io))
        try bench.fill("ballast")
        #expect(throws: SystemError.self) { try bench.lend(keepsHalf: true) { bench.work(1_500_000) }.get() }
        #expect(bench.size >= 1 << 20)
        var count = 0
        while count < 100, case .success = bench.lend(keepsHalf: true, { bench.work(100_000, "work\(count)") }) {
            count += 1
        }
        #expect((1..<20).contains(count))
        #expect(bench.size >= 1 << 20)
        try bench.lend { bench.work(800_000, "freeing") }.get()
    }

    @Test("what is given back meanwhile is not taken by filling it up")
    func borrowed() throws {
        let bench = try Bench()
        #expect(bench.reserve.hasRoom(bench.io))
        try bench.fill("ballast")
        try bench.lend {
            #expect(!bench.reserve.hasRoom(bench.io))
            return bench.work(500_000)
        }.get()
        try bench.remove("work")
        #expect(bench.reserve.hasRoom(bench.io))
    }

    @Test("if others take all of it, work fails in the end")
    func stolen() throws {
        let bench = try Bench()
        #expect(bench.reserve.hasRoom(bench.io))
        try bench.fill("ballast")
        var attempts = 0
        let result = bench.lend {
            attempts += 1
            _ = try? bench.fill("thief\(attempts)")
            return bench.work(4096)
        }
        #expect(throws: SystemError.self) { try result.get() }
        #expect(attempts >= 2 && bench.size == 0)
    }

    @Test("a failure that has nothing to do with space takes none")
    func otherFailure() throws {
        let bench = try Bench()
        #expect(bench.reserve.hasRoom(bench.io))
        let result = bench.lend { .failure(SystemError("write", errno: EIO)) }
        #expect(throws: SystemError.self) { try result.get() }
        #expect(bench.size == 2 << 20)
    }

    @Test("on a disk without room for it, nothing else is stored")
    func noRoom() throws {
        let bench = try Bench()
        try bench.fill("ballast")
        #expect(!bench.reserve.hasRoom(bench.io))
        try bench.remove("ballast")
        #expect(bench.reserve.hasRoom(bench.io))
    }

    @Test("a file system that cannot allocate ahead has none, and everything is stored")
    func unsupported() throws {
        let calls = ScriptedCalls(syncs: false)
        let temporary = try TemporaryDirectory()
        let pool = BlockingPool(threads: 1, label: "test-reserve", calls: calls)
        calls.plan(0, of: "fallocate", .fails(EOPNOTSUPP), times: 100)
        let path = temporary.path("reserve")
        let done = DispatchSemaphore(value: 0)
        pool.submit { io in
            defer { done.signal() }
            guard let file = try? io.open(path, O_RDWR | O_CREAT) else { return }
            let reserve = SpaceReserve(file)
            #expect(reserve.hasRoom(io) && reserve.hasRoom(io))
        }
        done.wait()
    }

    @Test("while it is not whole, bytes are not stored, and blobs are removed")
    func storage() async throws {
        let fileSystem = try SmallFileSystem(bytes: 16 << 20)
        let io = BlockingIO.onCallingThread
        let directory = try DataDirectory(at: fileSystem.path + "/data")
        let reserve = try #require(directory.reserve())
        let pool = BlockingPool(threads: 2, label: "test-disk")
        let storage = DiskStorage(directory: directory, durability: .acknowledged, pool: pool, reserve: reserve)
        let id = DiskBench.newID()
        try await storage.create(id)
        let bytes = [UInt8](repeating: 3, count: 3 << 20)
        let first = await storage.append(to: id, at: 0, from: ArraySource(bytes), limit: 4 << 20, expecting: nil)
        #expect(first.stored == 3 << 20)
        let ballast = try io.open(fileSystem.path + "/ballast", O_WRONLY | O_CREAT)
        _ = io.write([UInt8](repeating: 1, count: 16 << 20), to: ballast, at: 0)
        // A deletion uses a step, which a log takes.
        _ = reserve.lend(
            io,
            isFull: { (_: SystemError) in false },
            to: { () -> Result<Void, SystemError> in
                _ = io.write([UInt8](repeating: 1, count: 16 << 20), to: ballast, at: 16 << 20)
                return .success(())
            }
        )
        let second = await storage.append(to: id, at: 3 << 20, from: ArraySource([1]), limit: 1, expecting: nil)
        #expect(second.end.code == .storageFull && second.stored == 0)
        await #expect(throws: UploadError.self) { try await storage.create(DiskBench.newID()) }
        #expect(try await storage.currentLength(of: id) == 3 << 20)
        try await storage.remove(id)
        // With the space of the blob it is whole again.
        try await storage.create(DiskBench.newID())
    }
}
