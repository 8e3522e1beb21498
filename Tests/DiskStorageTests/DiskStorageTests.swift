import Bytes
import CSystem
import Foundation
import SluiceTesting
import SystemIO
import Testing
import Transport
import UploadModel

@testable import DiskStorage

@Suite("Disk storage", .timeLimit(.minutes(10)))
struct DiskStorageTests {
    @Test("blobs are for this user only")
    func mode() async throws {
        let bench = try DiskBench()
        let id = try await bench.blob([1])
        let attributes = try FileManager.default.attributesOfItem(atPath: bench.directory.blobPath(id))
        #expect(attributes[.posixPermissions] as? Int == 0o600)
    }

    @Test("bytes beyond the count that a transfer reports are cut off")
    func cut() async throws {
        let bench = try DiskBench()
        let id = try await bench.blob([1, 2])
        let report = await bench.storage.append(
            to: id,
            at: 2,
            from: Liar(writes: 100, reports: 40),
            limit: 999,
            expecting: nil
        )
        #expect(report.stored == 40)
        #expect(report.end.code == .storageFull)
        #expect(try await bench.storage.durableLength(of: id) == 42)
        #expect(try await bench.contents(of: id).count == 42)
    }

    @Test("bytes that a transfer reports but did not write are not counted")
    func overstated() async throws {
        let bench = try DiskBench()
        let id = try await bench.blob([1, 2])
        let report = await bench.storage.append(
            to: id,
            at: 2,
            from: Liar(writes: 10, reports: 40),
            limit: 999,
            expecting: nil
        )
        #expect(report.stored == 10)
        #expect(try await bench.storage.durableLength(of: id) == 12)
    }

    @Test("any range of a blob can be pulled, and a file that is too short is a failure")
    func pulled() async throws {
        let bench = try DiskBench()
        let id = try await bench.blob(Array(0..<100))
        let source = try await bench.storage.bytes(of: id, 10..<60)
        #expect(source.remaining == 50)
        #expect(try await source.next(maximum: 7) == Array(10..<17))
        #expect(source.remaining == 43)
        #expect(try await source.collect(limit: 100) == Array(17..<60))
        #expect(try await source.next(maximum: 1) == nil)
        let short = try await bench.storage.bytes(of: id, 90..<101)
        await #expect(throws: SourceFailure.self) { _ = try await short.collect(limit: 100) }
        let error = await #expect(throws: UploadError.self) {
            _ = try await bench.storage.bytes(of: UploadID.generate(at: .now), 0..<1)
        }
        #expect(error?.code == .notFound)
    }

    /// Moves some bytes and then reports a full disk.
    private final class Liar: ByteSource {
        let writes: Int
        let reports: Int64

        init(writes: Int, reports: Int64) {
            self.writes = writes
            self.reports = reports
        }

        var remaining: Int64? { nil }
        var interrupter: SourceInterrupter { SourceInterrupter { _ in } }
        var supportsTransfer: Bool { true }
        func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? { nil }

        func transfer(
            to file: OpenFile,
            at offset: Int64,
            limit: Int64,
            on pool: BlockingPool
        ) async -> TransferOutcome {
            let bytes = [UInt8](repeating: 5, count: writes)
            #expect(pwrite(file.descriptor, bytes, writes, off_t(offset)) == writes)
            return TransferOutcome(moved: reports, end: .fileFailed(errno: ENOSPC))
        }
    }

    @Test(
        "an interrupted transfer keeps no more disk space than its bytes need",
        arguments: [Durability.none, .acknowledged],
        [32 << 20, 40 << 20]
    )
    func breaksOff(durability: Durability, after count: Int64) async throws {
        let bench = try DiskBench(durability: durability)
        let id = try await bench.blob([])
        let source = Breaking(length: 200 << 20, breaksAt: count)
        let report = await bench.storage.append(to: id, at: 0, from: source, limit: .max, expecting: nil)
        #expect(report.stored == count)
        #expect(source.allocatedAtMost >= 64 << 20, "nothing was set aside, so nothing could be given back")
        let (size, allocated) = try usage(of: id, bench)
        #expect(size == count)
        #expect(allocated <= count + 1 << 20)
    }

    @Test(
        "space that was reserved before a crash is released by the next append",
        arguments: [Durability.none, .acknowledged]
    )
    func givesBackLater(durability: Durability) async throws {
        let bench = try DiskBench(durability: durability)
        let id = try await bench.blob([1, 2, 3])
        // What a killed process leaves behind.
        let descriptor = open(bench.directory.blobPath(id), O_WRONLY)
        #expect(csys_preallocate(descriptor, 0, 32 << 20) == 0)
        close(descriptor)
        #expect(try usage(of: id, bench).allocated >= 32 << 20)
        let report = await bench.storage.append(to: id, at: 3, from: ArraySource([4]), limit: 1, expecting: nil)
        #expect(report.stored == 1)
        let (size, allocated) = try usage(of: id, bench)
        #expect(size == 4)
        #expect(allocated <= 1 << 20)
    }

    private func usage(of id: UploadID, _ bench: DiskBench) throws -> (size: Int64, allocated: Int64) {
        let io = BlockingIO.onCallingThread
        let status = try io.status(of: io.open(bench.directory.blobPath(id), O_RDONLY))
        return (status.size, status.allocated)
    }

    /// Announces a length, and ends before it.
    private final class Breaking: ByteSource {
        let breaksAt: Int64
        var remaining: Int64?
        var allocatedAtMost: Int64 = 0
        private var moved: Int64 = 0

        init(length: Int64, breaksAt: Int64) {
            remaining = length
            self.breaksAt = breaksAt
        }

        var interrupter: SourceInterrupter { SourceInterrupter { _ in } }
        var supportsTransfer: Bool { true }
        func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? { nil }

        func transfer(
            to file: OpenFile,
            at offset: Int64,
            limit: Int64,
            on pool: BlockingPool
        ) async -> TransferOutcome {
            // Space is reserved while the second section arrives.
            for _ in 0..<(moved > 0 ? 5000 : 0) where allocatedAtMost < 64 << 20 {
                var status = stat()
                #expect(fstat(file.descriptor, &status) == 0)
                allocatedAtMost = max(allocatedAtMost, Int64(status.st_blocks) * 512)
                try? await Task.sleep(for: .milliseconds(2))
            }
            let count = min(limit, breaksAt - moved)
            let piece = [UInt8](repeating: 7, count: 1 << 20)
            for start in stride(from: offset, to: offset + count, by: piece.count) {
                #expect(pwrite(file.descriptor, piece, piece.count, off_t(start)) == piece.count)
            }
            moved += count
            remaining = remaining.map { $0 - count }
            // A failure at the end of a section is only reported by the next one.
            let isOver = count < limit
            return TransferOutcome(moved: count, end: isOver ? .sourceFailed(.disconnected) : .limitReached)
        }
    }

    @Test("no descriptor remains open, whatever happens")
    func descriptors() async throws {
        let bench = try DiskBench()
        let id = try await bench.blob([1, 2, 3])
        let bytes = BlobStorageContract.pattern(300_000)
        for digest in [nil, sha256([0]), sha256(bytes)] {
            for last in [ScriptedSource.Step.bytes([]), .fail(.disconnected)] {
                let length = try await bench.storage.durableLength(of: id)
                let source = ScriptedSource([.bytes(bytes), last])
                _ = await bench.storage.append(to: id, at: length, from: source, limit: 1 << 30, expecting: digest)
                _ = await bench.storage.append(to: id, at: 1, from: ArraySource([1]), limit: 1, expecting: digest)
            }
        }
        try await bench.storage.synchronize(id)
        _ = try await bench.storage.open(id)
        _ = try await bench.storage.currentLength(of: id)
        _ = try await bench.storage.list(after: nil, limit: 10)
        #expect(try await bench.closesAllFiles())
    }

    @Test("the time of the last bytes is known with the length")
    func progress() async throws {
        let bench = try DiskBench()
        let id = try await bench.blob([1, 2])
        let path = bench.directory.blobPath(id)
        let long = Date(timeIntervalSince1970: 1_000_000_000)
        try FileManager.default.setAttributes([.modificationDate: long], ofItemAtPath: path)
        #expect(try await bench.storage.progress(of: id) == BlobProgress(length: 2, changedAt: long))
        _ = await bench.storage.append(to: id, at: 2, from: ArraySource([3]), limit: 1, expecting: nil)
        let progress = try #require(try await bench.storage.progress(of: [id, DiskBench.newID()])[id])
        #expect(progress.length == 3)
        #expect(try #require(progress.changedAt) > long)
    }

    @Test("an error contains no path for the client, and the call in its cause")
    func messages() async throws {
        let bench = try DiskBench()
        let id = DiskBench.newID()
        try Data().write(to: URL(fileURLWithPath: bench.directory.shardPath(DataDirectory.shard(of: id))))
        do throws(UploadError) {
            try await bench.storage.create(id)
            Issue.record("a blob was made in a file")
        } catch {
            #expect(error.code == .storageFailure)
            #expect(!error.message.contains("/"))
            #expect(error.cause as? SystemError == SystemError("open", errno: ENOTDIR))
        }
    }

    @Test(
        "an errno is mapped to an error that the client can act on",
        arguments: [(ENOSPC, .storageFull), (EDQUOT, .storageFull), (EIO, .storageFailure), (EACCES, .storageFailure)]
            as [(Int32, UploadError.Code)]
    )
    func errors(number: Int32, code: UploadError.Code) {
        #expect(UploadError(SystemError("pwrite", errno: number)).code == code)
        #expect(UploadError(opening: SystemError("open", errno: number)).code == code)
    }

    @Test("the number of known durable lengths is limited")
    func durableLengths() {
        let lengths = DurableLengths(maximumCount: 100)
        let first = DiskBench.newID()
        lengths.note(first, length: 5)
        #expect(lengths.covers(first, length: 5))
        #expect(!lengths.covers(first, length: 4))
        lengths.forget(first)
        #expect(!lengths.covers(first, length: 5))
        lengths.note(first, length: 5)
        for _ in 0..<100 { lengths.note(DiskBench.newID(), length: 1) }
        #expect(!lengths.covers(first, length: 5))
    }
}
