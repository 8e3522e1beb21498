import Bytes
import Foundation
import Glibc
import SluiceTesting
import SystemIO
import Testing
import UploadModel

@testable import DiskStorage

@Suite("Parts on disk", .timeLimit(.minutes(10)))
struct PartTests {
    private let bench: DiskBench

    init() throws { bench = try DiskBench() }

    private func newBlob() async throws -> UploadID {
        let id = DiskBench.newID()
        try await bench.storage.createForParts(NewBlob(id, createdAt: id.createdAt))
        return id
    }

    private func store(
        _ bytes: [UInt8],
        _ number: Int,
        of id: UploadID,
        replacing replaced: PartRecord? = nil,
        in storage: DiskStorage? = nil
    ) async throws -> PartRecord {
        let location = try await (storage ?? bench.storage).storePart(
            NewPart(number: number, size: Int64(bytes.count), minimumSize: 0),
            of: id,
            replacing: replaced?.location,
            from: ArraySource(bytes),
            verifying: { [] }
        )
        return PartRecord(
            number: number,
            size: Int64(bytes.count),
            md5: [],
            crc64: 0,
            location: location,
            storedAt: id.createdAt
        )
    }

    /// The storage as the next process finds it.
    private func restarted() -> DiskStorage {
        DiskStorage(
            directory: bench.directory,
            durability: .acknowledged,
            pool: BlockingPool(threads: 2, label: "test")
        )
    }

    private func pattern(_ count: Int, _ seed: UInt8) -> [UInt8] { BlobStorageContract.pattern(count, seed: seed) }

    private func inode(_ path: String) throws -> UInt64 {
        var status = stat()
        try #require(stat(path, &status) == 0)
        return UInt64(status.st_ino)
    }

    /// File names of a blob, without its id.
    private func files(of id: UploadID) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: bench.directory.root + "/blobs")
            .compactMap { $0.split(separator: "/", maxSplits: 1).dropFirst().first }
            .filter { $0.hasPrefix(id.text) }.map { String($0.dropFirst(id.text.utf8.count)) }.sorted()
    }

    @Test(
        "parts of equal size are joined by renaming their file, in whatever order they arrived",
        arguments: [
            [1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3], [3, 1, 4, 2],
        ]
    )
    func uniform(order: [Int]) async throws {
        let id = try await newBlob()
        let size = 64 << 10
        let parts = (1...4).map { pattern($0 == 4 ? 999 : size, UInt8($0)) }
        var records: [PartRecord] = []
        for number in order { records.append(try await store(parts[number - 1], number, of: id)) }
        records.sort { $0.number < $1.number }
        let before = try inode(bench.directory.partsPath(id))
        // The last part arrived first, before the size of the others was known: only it is copied.
        let isCopied = order.first == 4
        #expect(records.map(\.location).filter { !$0.hasPrefix("@") }.count == (isCopied ? 1 : 0))
        try await bench.storage.join(records, of: id)
        #expect(try inode(bench.directory.blobPath(id)) == before)
        #expect(try await bench.contents(of: id) == Array(parts.joined()))
        #expect(try files(of: id) == [""])
    }

    @Test("parts of one size are written to their places, except the first to arrive")
    func anySize() async throws {
        let size = 100 << 10
        let parts = (1...40).map { pattern($0 == 40 ? 999 : size, UInt8($0)) }
        for _ in 0..<5 {
            let seed = UInt64.random(in: 0 ... .max)
            var generator = SeededGenerator(seed: seed)
            let id = try await newBlob()
            var records: [PartRecord] = []
            for number in (1...40).shuffled(using: &generator) {
                records.append(try await store(parts[number - 1], number, of: id))
            }
            records.sort { $0.number < $1.number }
            let before = try inode(bench.directory.partsPath(id))
            // The first part of that size, before the size was known to be common, and the last, which has another
            // size.
            let strays = records.filter { !$0.location.hasPrefix("@") }
            #expect(strays.count <= 2, "seed \(seed)")
            try await bench.storage.join(records, of: id)
            #expect(try inode(bench.directory.blobPath(id)) == before, "seed \(seed)")
            #expect(try await bench.contents(of: id) == Array(parts.joined()), "seed \(seed)")
            #expect(try files(of: id) == [""])
        }
    }

    @Test("of a repeated part only the new version is copied to its place")
    func again() async throws {
        let id = try await newBlob()
        let size = 64 << 10
        var records: [PartRecord] = []
        for number in 1...4 { records.append(try await store(pattern(size, UInt8(number)), number, of: id)) }
        records[1] = try await store(pattern(size - 7, 9), 2, of: id, replacing: records[1])
        let short = records[1]
        records[1] = try await store(pattern(size, 8), 2, of: id, replacing: short)
        await bench.storage.removePart(2, at: short.location, of: id)
        let before = try inode(bench.directory.partsPath(id))
        // The one that is not named stays until the others are joined.
        try await bench.storage.join(Array(records.prefix(3)), of: id)
        #expect(try inode(bench.directory.blobPath(id)) == before)
        #expect(try await bench.contents(of: id) == pattern(size, 1) + pattern(size, 8) + pattern(size, 3))
        #expect(try files(of: id) == [""])
    }

    @Test("a part that is shorter than its place and not the last causes all parts to be copied")
    func shortInTheMiddle() async throws {
        let id = try await newBlob()
        let size = 64 << 10
        var records = [try await store(pattern(size, 1), 1, of: id), try await store(pattern(99, 2), 2, of: id)]
        records.append(try await store(pattern(size, 3), 3, of: id))
        // Larger than a place: it would overlap the next one.
        records.append(try await store(pattern(size + 1, 4), 4, of: id))
        try await bench.storage.join(records, of: id)
        #expect(
            try await bench.contents(of: id) == pattern(size, 1) + pattern(99, 2) + pattern(size, 3)
                + pattern(size + 1, 4)
        )
    }

    @Test("two concurrent parts with the same number have different places")
    func sameNumber() async throws {
        let id = try await newBlob()
        let size = 256 << 10
        let first = try await store(pattern(size, 1), 1, of: id)
        let slow = ScriptedSource([.bytes(pattern(1000, 2)), .stall, .bytes(Array(pattern(size, 2).dropFirst(1000)))])
        async let slowLocation = bench.storage.storePart(
            NewPart(number: 2, size: Int64(size), minimumSize: 0),
            of: id,
            replacing: nil,
            from: slow,
            verifying: { [] }
        )
        await slow.waitUntilStalled()
        let quick = try await store(pattern(size, 3), 2, of: id)
        slow.proceed()
        var late = quick
        late.location = try await slowLocation
        #expect(quick.location != late.location)
        // Whichever was recorded is complete.
        try await bench.storage.join([first, late], of: id)
        #expect(try await bench.contents(of: id) == pattern(size, 1) + pattern(size, 2))
    }

    @Test("the place of an interrupted part is reused, that of a recorded part is not, even after a restart")
    func placesAfterRestart() async throws {
        let id = try await newBlob()
        let size = 128 << 10
        let first = try await store(pattern(size, 1), 1, of: id)
        await #expect(throws: UploadError.self) {
            try await bench.storage.storePart(
                NewPart(number: 2, size: Int64(size), minimumSize: 0),
                of: id,
                replacing: nil,
                from: ScriptedSource([.bytes(pattern(10, 9)), .fail(.disconnected)]),
                verifying: { [] }
            )
        }
        let second = try await store(pattern(size, 2), 2, of: id)
        #expect(second.location == "@\(size)")
        let storage = restarted()
        let again = try await store(pattern(size, 3), 2, of: id, replacing: second, in: storage)
        #expect(!again.location.hasPrefix("@"))
        let third = try await store(pattern(size, 4), 3, of: id, in: storage)
        #expect(third.location == "@\(2 * size)")
        await storage.removePart(2, at: second.location, of: id)
        // The place is free: its part is no longer recorded.
        let last = try await store(pattern(size, 5), 2, of: id, replacing: again, in: storage)
        #expect(last.location == "@\(size)")
        try await storage.join([first, last, third], of: id)
        #expect(try await bench.contents(of: id) == pattern(size, 1) + pattern(size, 5) + pattern(size, 4))
    }

    @Test("parts that are not named are left out")
    func unnamed() async throws {
        let id = try await newBlob()
        let size = 64 << 10
        var records: [PartRecord] = []
        for number in 1...4 { records.append(try await store(pattern(size, UInt8(number)), number, of: id)) }
        try await bench.storage.join([records[0], records[1]], of: id)
        #expect(try await bench.contents(of: id) == pattern(size, 1) + pattern(size, 2))
        #expect(try files(of: id) == [""])
    }

    @Test("a layout file truncated by a crash is ignored", arguments: ["", "6553"])
    func tornLayout(text: String) async throws {
        let id = try await newBlob()
        try Data(text.utf8).write(to: URL(fileURLWithPath: bench.directory.layoutPath(id)))
        let part = try await store(pattern(1000, 1), 1, of: id)
        #expect(part.location == "@0")
        #expect(try NumberFile.value(at: bench.directory.layoutPath(id), .onCallingThread) == 1000)
    }

    @Test("a join that was interrupted by a crash is repeated", arguments: ["copying", "renamed", "named", "longer"])
    func interrupted(at step: String) async throws {
        let id = try await newBlob()
        let size = 64 << 10
        let directory = bench.directory
        var records = [try await store(pattern(size, 1), 1, of: id), try await store(pattern(size, 2), 2, of: id)]
        let whole: [UInt8]
        switch step {
        case "copying":
            // The process died while it copied.
            records.removeFirst()
            whole = pattern(size, 2)
            try Data(pattern(100, 7)).write(to: URL(fileURLWithPath: directory.joiningPath(id)))
        case "renamed":
            // The copy had its final name, but the parts were still there.
            records.removeFirst()
            whole = pattern(size, 2)
            try Data(whole).write(to: URL(fileURLWithPath: directory.blobPath(id)))
        case "named":
            whole = pattern(size, 1) + pattern(size, 2)
            #expect(rename(directory.partsPath(id), directory.blobPath(id)) == 0)
        default:
            // It had its final name, and a part that was not named was still after the others.
            records.removeLast()
            whole = pattern(size, 1)
            #expect(rename(directory.partsPath(id), directory.blobPath(id)) == 0)
        }
        let storage = restarted()
        #expect(try await storage.isJoined(id) == (step == "named" || step == "longer"))
        try await storage.join(records, of: id)
        #expect(try await storage.isJoined(id))
        #expect(try await bench.contents(of: id) == whole)
        #expect(try files(of: id) == [""])
    }

    @Test("removing a blob removes all its files")
    func remove() async throws {
        let id = try await newBlob()
        let first = try await store(pattern(100, 1), 1, of: id)
        for seed in 2...4 as ClosedRange<UInt8> {
            _ = try await store(pattern(100, seed), 1, of: id, replacing: first)
        }
        #expect(try files(of: id).contains(".own"))
        try Data().write(to: URL(fileURLWithPath: bench.directory.joiningPath(id)))
        try await bench.storage.remove(id)
        #expect(try files(of: id) == [])
    }

    @Test(
        "a small part is one write, which is synced before the part is stored; a file of its own with its name",
        arguments: Durability.allCases
    )
    func wholeCalls(durability: Durability) async throws {
        let temporary = try TemporaryDirectory()
        let calls = ScriptedCalls()
        let storage = DiskStorage(
            directory: try DataDirectory(at: temporary.path("data")),
            durability: durability,
            pool: BlockingPool(threads: 2, label: "test-disk", calls: calls)
        )
        let id = DiskBench.newID()
        try await storage.createForParts(NewBlob(id, createdAt: id.createdAt))
        func store(_ number: Int, replacing location: String? = nil) async throws -> (String, [String]) {
            calls.forget()
            let location = try await storage.storePart(
                NewPart(number: number, size: 65_536, minimumSize: 0),
                of: id,
                replacing: location,
                content: pattern(65_536, UInt8(number)),
                hashing: { _ in },
                verifying: { [] }
            )
            return (location, calls.names)
        }
        // The first decides the size of places.
        let (first, _) = try await store(1)
        let isSynced = durability == .acknowledged
        let (_, inPlace) = try await store(2)
        #expect(inPlace == ["open", "pwrite"] + (isSynced ? ["fdatasync"] : []))
        let (_, created) = try await store(1, replacing: first)
        let (again, own) = try await store(1, replacing: first)
        #expect(PartLocation(again)?.isPlace == false)
        let named = isSynced ? ["fdatasync", "open", "fsync"] : []
        #expect(own.suffix(named.count + 1) == ["pwrite"] + named)
        // The first one also makes the directory of such files, which has to survive a power cut.
        let syncs = [created, own].map { names in names.count { $0 == "fsync" } }
        #expect(syncs[0] - syncs[1] == (durability == .none ? 0 : 1))
        #expect(PartLocation(again)?.unsynchronised == (isSynced ? nil : .current))
    }
}
