import Bytes
import CSystem
import Foundation
import Glibc
import SluiceTesting
import SystemIO
import Testing
import Transport
import UploadModel

@testable import DiskStorage

@Suite("What of a blob survives a power cut", .timeLimit(.minutes(10)))
struct DurableRecordTests {
    private let bench: DiskBench
    private var io: BlockingIO { .onCallingThread }

    init() throws { bench = try DiskBench() }

    /// The storage as another process finds it, in the same boot of the machine or a later one.
    private func storage(_ durability: Durability = .acknowledged, boot: UInt64) -> DiskStorage {
        DiskStorage(
            directory: bench.directory,
            durability: durability,
            pool: BlockingPool(threads: 2, label: "test-disk"),
            boot: BootID(value: boot),
            checkpointInterval: .milliseconds(5)
        )
    }

    private func blob(_ bytes: [UInt8], in storage: DiskStorage) async throws -> UploadID {
        let id = DiskBench.newID()
        try await storage.create(id)
        let report = await storage.append(to: id, at: 0, from: ArraySource(bytes), limit: 1 << 40, expecting: nil)
        #expect(report.stored == Int64(bytes.count))
        return id
    }

    /// Bytes that are in the file but not synchronised: the size can be in the journal before them.
    private func addTail(_ count: Int, to id: UploadID) throws {
        let file = try io.open(bench.directory.blobPath(id), O_WRONLY)
        let size = try io.size(of: file)
        #expect(io.write([UInt8](repeating: 0, count: count), to: file, at: size).failure == nil)
    }

    private func record(of id: UploadID) throws -> DurableRecord? {
        try io.durableRecord(of: io.open(bench.directory.blobPath(id), O_RDONLY))
    }

    private func contents(of id: UploadID) throws -> [UInt8] {
        try io.read(io.open(bench.directory.blobPath(id), O_RDONLY), at: 0, maximum: 1 << 20)
    }

    @Test("a record is read as it was written, and always has the same length")
    func text() {
        let boot = BootID(value: 0x1234)
        for length in [0, 1, 6_386_412, Int64.max] {
            for boot in [boot, nil] {
                let record = DurableRecord(length: length, boot: boot)
                #expect(DurableRecord(record.text) == record)
                #expect(record.text.count == 33)
            }
        }
        for text in [
            "", "1 2", "0000000000000001", "ffffffffffffffff 0000000000000001", "000000000000000g 0000000000000001",
        ] {
            #expect(DurableRecord(Array(text.utf8)) == nil)
        }
    }

    @Test(
        "bytes that were never synchronised count after kill -9, and not after a power cut",
        arguments: Durability.allCases
    )
    func unsynchronised(durability: Durability) async throws {
        let id = try await blob([1, 2, 3], in: storage(durability, boot: 1))
        try addTail(4, to: id)
        #expect(try await storage(durability, boot: 1).currentLength(of: id) == 7)
        let counted: Int64 = durability == .acknowledged ? 3 : 0
        let later = storage(durability, boot: 2)
        #expect(try await later.currentLength(of: id) == counted)
        #expect(try contents(of: id).count == 7, "looking changed the file")
        #expect(try await later.durableLength(of: id) == counted)
        #expect(try contents(of: id) == Array([UInt8](1...3).prefix(Int(counted))))
        // From here on everything counts again, as long as that boot lasts.
        try addTail(2, to: id)
        #expect(try await storage(durability, boot: 2).currentLength(of: id) == counted + 2)
        #expect(try await storage(durability, boot: 3).durableLength(of: id) == counted)
    }

    @Test("after a power cut an append continues after the synchronised bytes, and only there")
    func appended() async throws {
        let id = try await blob([1, 2, 3], in: storage(boot: 1))
        try addTail(4, to: id)
        let later = storage(boot: 2)
        let wrong = await later.append(to: id, at: 7, from: ArraySource([9]), limit: 9, expecting: nil)
        #expect(wrong.end.code == .offsetMismatch(expected: 3))
        let right = await later.append(to: id, at: 3, from: ArraySource([4, 5]), limit: 9, expecting: nil)
        #expect(right.stored == 2)
        #expect(try contents(of: id) == [1, 2, 3, 4, 5])
        #expect(try record(of: id) == DurableRecord(length: 5, boot: BootID(value: 2)))
    }

    @Test("with `completed`, bytes that are durable at completion count after a power cut")
    func completed() async throws {
        let first = storage(.completed, boot: 1)
        let id = try await blob([1, 2, 3], in: first)
        #expect(try record(of: id)?.length == 0)
        try await first.synchronize(id)
        #expect(try await storage(.completed, boot: 2).durableLength(of: id) == 3)
    }

    @Test("a file that is shorter than its record counts with its own length")
    func shorter() async throws {
        let id = try await blob([1, 2, 3], in: storage(boot: 1))
        try io.truncate(io.open(bench.directory.blobPath(id), O_WRONLY), to: 2)
        #expect(try await storage(boot: 2).durableLength(of: id) == 2)
        #expect(try record(of: id)?.length == 2)
    }

    @Test("a blob of an earlier version has no record: its size counts, and it gets one")
    func withoutRecord() async throws {
        let id = try await blob([1, 2, 3], in: storage(boot: 1))
        #expect(csys_remove_attribute(bench.directory.blobPath(id), "user.sluice.durable") == 0)
        #expect(try record(of: id) == nil)
        #expect(try await storage(.completed, boot: 2).currentLength(of: id) == 3)
        #expect(try await storage(.completed, boot: 2).durableLength(of: id) == 3)
        #expect(try record(of: id) == DurableRecord(length: 3, boot: BootID(value: 2)))
    }

    @Test("with an unreadable record no bytes count after a power cut")
    func unreadable() async throws {
        let id = try await blob([1, 2, 3], in: storage(boot: 1))
        let file = try io.open(bench.directory.blobPath(id), O_WRONLY)
        #expect(csys_set_attribute(file.descriptor, "user.sluice.durable", "x", 1) == 0)
        #expect(try await storage(boot: 1).durableLength(of: id) == 0)
    }

    @Test("emptying a blob or discarding unverified bytes also resets the record", arguments: [false, true])
    func lowered(byMarker: Bool) async throws {
        let first = storage(.completed, boot: 1)
        let id = try await blob([1, 2, 3], in: first)
        try await first.synchronize(id)
        if byMarker {
            try Data("1\n".utf8).write(to: URL(fileURLWithPath: bench.directory.markerPath(id)))
            #expect(try await storage(.completed, boot: 1).durableLength(of: id) == 1)
        } else {
            try await first.empty(id)
        }
        try addTail(9, to: id)
        #expect(try await storage(.completed, boot: 2).durableLength(of: id) == (byMarker ? 1 : 0))
    }

    // MARK: Failed syncs

    @Test("after a failed sync only bytes that were durable before count, and the next append sends the rest")
    func failedSync() async throws {
        let storage = storage(boot: 1)
        let id = try await blob([1, 2, 3], in: storage)
        try addTail(4, to: id)
        // Like `synchronize` if the kernel reports a failure.
        storage.durable.forget(id)
        storage.untrustedTails.note(id, countingOnly: nil)
        let file = try io.open(bench.directory.blobPath(id), O_WRONLY)
        #expect(throws: SystemError.self) { try storage.synchronize(id, file, length: 7, io) }
        #expect(try await storage.currentLength(of: id) == 3)
        #expect(try await storage.durableLength(of: id) == 3)
        #expect(try contents(of: id) == [1, 2, 3])
        let report = await storage.append(to: id, at: 3, from: ArraySource([4]), limit: 9, expecting: nil)
        #expect(report.stored == 1)
        #expect(try await self.storage(boot: 2).durableLength(of: id) == 4)
    }

    @Test(
        "a process that dies after a failed sync leaves a record under which no more bytes count, even in the same boot"
    )
    func diedAfterFailedSync() async throws {
        let id = try await blob([1, 2, 3], in: storage(boot: 1))
        try addTail(4, to: id)
        // What `truncateUntrusted` writes first.
        let file = try io.open(bench.directory.blobPath(id), O_WRONLY)
        try io.setDurableRecord(DurableRecord(length: 3, boot: nil), of: file)
        let later = storage(boot: 1)
        #expect(try await later.currentLength(of: id) == 3)
        #expect(try await later.durableLength(of: id) == 3)
        #expect(try record(of: id) == DurableRecord(length: 3, boot: BootID(value: 1)))
    }

    @Test("of several failures the one that leaves the fewest bytes counts")
    func severalFailures() {
        let tails = UntrustedTails()
        let (first, second) = (DiskBench.newID(), DiskBench.newID())
        #expect(tails.tail(of: first) == nil)
        tails.note(first, countingOnly: 7)
        tails.note(first, countingOnly: 5)
        tails.note(first, countingOnly: 9)
        #expect(tails.tail(of: first) == .some(5))
        tails.note(first, countingOnly: nil)
        #expect(tails.tail(of: first) == .some(nil))
        tails.note(first, countingOnly: 3)
        #expect(tails.tail(of: first) == .some(nil))
        #expect(!tails.contains(second))
        tails.forget(first)
        #expect(!tails.contains(first))
    }

    @Test(
        "parts whose common sync failed are never joined: it is unknown which of them are lost",
        arguments: [false, true]
    )
    func failedPartSync(afterRestart: Bool) async throws {
        let storage = storage(.completed, boot: 1)
        let id = DiskBench.newID()
        try await storage.createForParts(NewBlob(id, createdAt: id.createdAt))
        let bytes = BlobStorageContract.pattern(64 << 10)
        let location = try await storage.storePart(
            NewPart(number: 1, size: Int64(bytes.count), minimumSize: 0),
            of: id,
            replacing: nil,
            from: ArraySource(bytes),
            verifying: { [] }
        )
        let part = PartRecord(
            number: 1,
            size: Int64(bytes.count),
            md5: [],
            crc64: 0,
            location: location,
            storedAt: id.createdAt
        )
        if afterRestart {
            let file = try io.open(bench.directory.partsPath(id), O_WRONLY)
            try io.setDurableRecord(DurableRecord(length: 0, boot: nil), of: file)
        } else {
            storage.untrustedTails.note(id, countingOnly: nil)
        }
        let error = await #expect(throws: UploadError.self) { try await storage.join([part], of: id) }
        #expect(error?.code == .storageFailure)
    }

    // MARK: Parts

    @Test(
        "a part that was not synchronised is lost in a power cut, and its place is free",
        arguments: Durability.allCases
    )
    func lostParts(durability: Durability) async throws {
        let id = DiskBench.newID()
        let bytes = BlobStorageContract.pattern(64 << 10)
        let new = NewPart(number: 1, size: Int64(bytes.count), minimumSize: 0)
        let first = storage(durability, boot: 1)
        try await first.createForParts(NewBlob(id, createdAt: id.createdAt))
        let location = try await first.storePart(
            new,
            of: id,
            replacing: nil,
            from: ArraySource(bytes),
            verifying: { [] }
        )
        let part = PartRecord(
            number: 1,
            size: Int64(bytes.count),
            md5: [],
            crc64: 0,
            location: location,
            storedAt: id.createdAt
        )
        #expect(storage(durability, boot: 1).isThere(part))
        let later = storage(durability, boot: 2)
        #expect(later.isThere(part) == (durability == .acknowledged))
        let again = try await later.storePart(
            new,
            of: id,
            replacing: location,
            from: ArraySource(bytes),
            verifying: { [] }
        )
        #expect(PartLocation(again)?.isPlace == (durability != .acknowledged))
        #expect(PartLocation(again)?.isThere(in: BootID(value: 2)) == true)
    }

    @Test("places beyond the maximum file size are not assigned, and nothing overflows")
    func farPlaces() async throws {
        let places = PartPlaces()
        for unit in [Int64.max, Int64.max / 10_000 + 1, 1 << 52, 1 << 40] {
            let id = DiskBench.newID()
            _ = try await places.unit(of: id) { unit }
            for (number, size) in [(10_000, unit), (10_000, 1), (2, unit)] {
                let part = NewPart(number: number, size: size, minimumSize: 0)
                let writer = places.begin(part, of: id, isRecorded: false, interrupter: SourceInterrupter { _ in })
                let offset = writer?.offset
                #expect(offset == nil || offset == Int64(number - 1) * unit)
            }
        }
    }

    // MARK: Long appends

    @Test("a long append is made durable at intervals")
    func checkpoint() async throws {
        let storage = storage(boot: 1)
        let id = DiskBench.newID()
        try await storage.create(id)
        let piece = BlobStorageContract.pattern(5 << 20)
        let source = ScriptedSource([.bytes(piece), .stall, .bytes([1])])
        async let appending = storage.append(to: id, at: 0, from: source, limit: 1 << 40, expecting: nil)
        await source.waitUntilStalled()
        // One sync happens after 4 MiB, somewhere between here and the end of the piece.
        while try record(of: id)?.length ?? 0 < 4 << 20 { try await Task.sleep(for: .milliseconds(1)) }
        let length = try #require(try record(of: id)).length
        #expect(try await self.storage(boot: 2).currentLength(of: id) == length)
        // The source has given its bytes away, but the last write may still run.
        while try await self.storage(boot: 1).currentLength(of: id) < Int64(piece.count) {
            try await Task.sleep(for: .milliseconds(1))
        }
        source.proceed()
        #expect(await appending.stored == Int64(piece.count) + 1)
        #expect(try record(of: id)?.length == Int64(piece.count) + 1)
    }
}
