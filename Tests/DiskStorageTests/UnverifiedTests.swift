import Bytes
import Foundation
import SluiceTesting
import Testing
import UploadModel

@testable import DiskStorage

@Suite("Unverified bytes", .timeLimit(.minutes(10)))
struct UnverifiedTests {
    /// Leaves a blob as a crash during an append with a digest does.
    private func crashed(_ bench: DiskBench, marker: String) async throws -> UploadID {
        let id = try await bench.blob([1, 2, 3, 9, 9])
        try Data(marker.utf8).write(to: URL(fileURLWithPath: bench.directory.markerPath(id)))
        return id
    }

    @Test("they do not count, and reading the durable length discards them", arguments: Durability.allCases)
    func recover(durability: Durability) async throws {
        let bench = try DiskBench(durability: durability)
        let id = try await crashed(bench, marker: "3\n")
        #expect(try await bench.storage.currentLength(of: id) == 3)
        #expect(try Data(contentsOf: URL(fileURLWithPath: bench.directory.blobPath(id))).count == 5)
        #expect(try await bench.storage.durableLength(of: id) == 3)
        #expect(try await bench.contents(of: id) == [1, 2, 3])
        #expect(try bench.markers() == [])
    }

    @Test("the next append discards them")
    func recoverByAppend() async throws {
        let bench = try DiskBench()
        let id = try await crashed(bench, marker: "3\n")
        let report = await bench.storage.append(to: id, at: 3, from: ArraySource([4]), limit: 9, expecting: nil)
        #expect(report.stored == 1)
        #expect(try await bench.contents(of: id) == [1, 2, 3, 4])
        #expect(try bench.markers() == [])
    }

    @Test(
        "a truncated marker, or one beyond the end of the blob, discards nothing",
        arguments: ["", "3", "x\n", "5\n", "77\n"]
    )
    func cutMarker(text: String) async throws {
        let bench = try DiskBench()
        let id = try await crashed(bench, marker: text)
        #expect(try await bench.storage.currentLength(of: id) == 5)
        #expect(try await bench.storage.durableLength(of: id) == 5)
        #expect(try bench.markers() == [])
    }

    @Test("a marker exists while they arrive, and the state after a crash is recovered", arguments: [false, true])
    func crashWhileReceiving(small: Bool) async throws {
        let bench = try DiskBench()
        let id = try await bench.blob([1, 2, 3])
        let bytes = BlobStorageContract.pattern(small ? 10 : 300_000)
        let source = ScriptedSource([.bytes(bytes), .stall, .bytes([7])])
        async let appending = bench.storage.append(
            to: id,
            at: 3,
            from: source,
            limit: 1 << 30,
            expecting: sha256(bytes + [7])
        )
        await source.waitUntilStalled()
        #expect(try bench.markers().count == 1)
        #expect(try await bench.storage.currentLength(of: id) == 3)
        // What a second process finds if the first one is killed now.
        let elsewhere = try TemporaryDirectory()
        try FileManager.default.copyItem(atPath: bench.directory.root, toPath: elsewhere.path("copy"))
        let later = try DiskBench(root: elsewhere.path("copy"))
        #expect(try await later.storage.currentLength(of: id) == 3)
        #expect(try await later.storage.durableLength(of: id) == 3)
        #expect(try await later.contents(of: id) == [1, 2, 3])
        #expect(try later.markers() == [])

        source.proceed()
        #expect(await appending.stored == Int64(bytes.count + 1))
        #expect(try await bench.contents(of: id) == [1, 2, 3] + bytes + [7])
        #expect(try bench.markers() == [])
    }

    @Test("a small body of known length is verified in memory, without a marker")
    func gathered() async throws {
        let bench = try DiskBench()
        let id = try await bench.blob()
        let source = ScriptedSource([.bytes([1, 2]), .stall, .bytes([3])], isLengthKnown: true)
        async let appending = bench.storage.append(to: id, at: 0, from: source, limit: 9, expecting: sha256([1, 2, 3]))
        await source.waitUntilStalled()
        #expect(try bench.markers() == [])
        #expect(try await bench.storage.currentLength(of: id) == 0)
        source.proceed()
        #expect(await appending.stored == 3)
    }

    @Test("removing a blob removes its marker")
    func remove() async throws {
        let bench = try DiskBench()
        let id = try await crashed(bench, marker: "3\n")
        try await bench.storage.remove(id)
        #expect(try bench.markers() == [])
        #expect(try await bench.storage.list(after: nil, limit: 10) == [])
    }

    @Test("markers and other files are not listed as blobs")
    func list() async throws {
        let bench = try DiskBench()
        let id = try await crashed(bench, marker: "3\n")
        let shard = bench.directory.shardPath(DataDirectory.shard(of: id))
        for name in ["notes.txt", DiskBench.newID().text.dropLast(2) + "00", ".hidden"] where !shard.hasSuffix("00") {
            try Data().write(to: URL(fileURLWithPath: shard + "/" + name))
        }
        #expect(try await bench.storage.list(after: nil, limit: 10) == [id])
    }
}
