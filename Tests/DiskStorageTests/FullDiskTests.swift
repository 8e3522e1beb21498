import Bytes
import Foundation
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import DiskStorage

@Suite(
    "A full disk",
    .enabled(
        if: SmallFileSystem.isAvailable,
        "this process may not mount a file system (it needs to be the superuser)"
    ),
    .timeLimit(.minutes(10))
)
struct FullDiskTests {
    /// A storage on a file system of 1 MiB; half of it is taken by a file that can be removed.
    private struct Bench {
        let fileSystem: SmallFileSystem
        let disk: DiskBench
        private let ballast: String

        init(_ durability: Durability) throws {
            fileSystem = try SmallFileSystem(bytes: 1 << 20)
            disk = try DiskBench(root: fileSystem.path + "/data", durability: durability)
            ballast = fileSystem.path + "/ballast"
            try Data(count: 512 << 10).write(to: URL(fileURLWithPath: ballast))
        }

        func makeRoom() throws { try FileManager.default.removeItem(atPath: ballast) }
    }

    private static let bytes = BlobStorageContract.pattern(900_000)

    @Test(
        "bytes that fitted are kept, and the append continues after space was freed",
        arguments: Durability.allCases,
        [false, true]
    )
    func append(durability: Durability, transfers: Bool) async throws {
        let bench = try Bench(durability)
        let storage = bench.disk.storage
        let id = try await bench.disk.blob([])
        let pieces = stride(from: 0, to: 900_000, by: 100_000).map { start in
            ScriptedSource.Step.bytes(Array(Self.bytes[start..<(start + 100_000)]))
        }
        let source = ScriptedSource(pieces, supportsTransfer: transfers)
        let report = await storage.append(to: id, at: 0, from: source, limit: 900_000, expecting: nil)
        #expect(report.end.code == .storageFull)
        #expect(report.stored > 300_000)
        #expect(report.stored < 600_000)
        #expect(try await storage.durableLength(of: id) == report.stored)
        #expect(try await storage.currentLength(of: id) == report.stored)
        #expect(try await bench.disk.contents(of: id) == Array(Self.bytes.prefix(Int(report.stored))))

        try bench.makeRoom()
        let rest = ArraySource(Array(Self.bytes.dropFirst(Int(report.stored))))
        let end = await storage.append(to: id, at: report.stored, from: rest, limit: 900_000, expecting: nil)
        #expect(report.stored + end.stored == 900_000)
        #expect(try await bench.disk.contents(of: id) == Self.bytes)
    }

    @Test("a body with a digest is discarded as a whole", arguments: [900_000, 200_000])
    func digest(count: Int) async throws {
        let bench = try Bench(.acknowledged)
        let storage = bench.disk.storage
        let id = try await bench.disk.blob(Array(Self.bytes.prefix(count == 900_000 ? 3 : 400_000)))
        let base = try await storage.durableLength(of: id)
        let bytes = Array(Self.bytes.prefix(count))
        let report = await storage.append(
            to: id,
            at: base,
            from: ArraySource(bytes),
            limit: 1 << 30,
            expecting: sha256(bytes)
        )
        #expect(report.end.code == .storageFull)
        #expect(report.stored == 0)
        #expect(try await storage.durableLength(of: id) == base)
        #expect(try bench.disk.markers() == [])

        try bench.makeRoom()
        let again = await storage.append(
            to: id,
            at: base,
            from: ArraySource(bytes),
            limit: 1 << 30,
            expecting: sha256(bytes)
        )
        #expect(again.stored == Int64(count))
    }

    @Test("a part without space is not stored, and parts that cannot be copied are not joined")
    func parts() async throws {
        let bench = try Bench(.acknowledged)
        let storage = bench.disk.storage
        let id = DiskBench.newID()
        try await storage.createForParts(NewBlob(id, createdAt: id.createdAt))
        func store(_ number: Int, _ count: Int) async throws(UploadError) -> PartRecord {
            let location = try await storage.storePart(
                NewPart(number: number, size: Int64(count), minimumSize: 0),
                of: id,
                replacing: nil,
                from: ArraySource(Array(Self.bytes.prefix(count))),
                verifying: { [] }
            )
            return PartRecord(
                number: number,
                size: Int64(count),
                md5: [],
                crc64: 0,
                location: location,
                storedAt: id.createdAt
            )
        }
        let one = try await store(1, 65_536)
        // Larger than a place, so that the parts have to be copied.
        let two = try await store(2, 200_000)
        #expect(await errorCode { () async throws(UploadError) in try await store(3, 400_000) } == .storageFull)
        let three = try await store(3, 65_536)
        let joining = await errorCode { () async throws(UploadError) in
            try await storage.join([one, two, three], of: id)
        }
        #expect(joining == .storageFull)
        #expect(try await storage.isJoined(id) == false)
        try bench.makeRoom()
        try await storage.join([one, two, three], of: id)
        let small = Array(Self.bytes.prefix(65_536))
        #expect(try await bench.disk.contents(of: id) == small + Array(Self.bytes.prefix(200_000)) + small)
    }

    @Test("the storage reports that it is full as long as it is")
    func check() async throws {
        let bench = try Bench(.acknowledged)
        let id = try await bench.disk.blob([])
        let storage = bench.disk.storage
        try await storage.check()
        _ = await storage.append(to: id, at: 0, from: ArraySource(Self.bytes), limit: 900_000, expecting: nil)
        let error = await #expect(throws: UploadError.self) { try await storage.check() }
        #expect(error?.code == .storageFull)
        try bench.makeRoom()
        try await storage.check()
        #expect(!FileManager.default.fileExists(atPath: bench.disk.directory.probePath))
    }

    @Test("an upload keeps its offset and is completed after space was freed")
    func service() async throws {
        let bench = try Bench(.acknowledged)
        let services = UploadServices(
            state: InMemoryState(),
            storage: bench.disk.storage,
            clock: ManualClock(),
            limits: UploadLimits(),
            observer: RecordingObserver()
        )
        let grant = Grant(id: "key_1", subject: nil, expiresAt: .distantFuture)
        let id = try await services.uploads.create(NewUpload(dialect: "tus", length: 900_000), under: grant).id
        let error = await #expect(throws: UploadError.self) {
            try await services.uploads.append(
                to: id,
                at: 0,
                contentLength: nil,
                expecting: nil,
                from: ArraySource(Self.bytes)
            )
        }
        #expect(error?.code == .storageFull)
        let offset = try await services.uploads.status(of: id).offset
        #expect(offset > 0)
        try bench.makeRoom()
        let rest = ArraySource(Array(Self.bytes.dropFirst(Int(offset))))
        let upload = try await services.uploads.append(
            to: id,
            at: offset,
            contentLength: nil,
            expecting: nil,
            from: rest
        )
        #expect(upload.state == .completed)
        #expect(try await bench.disk.contents(of: id) == Self.bytes)
    }
}
