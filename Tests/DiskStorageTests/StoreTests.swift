import Bytes
import Foundation
import SluiceTesting
import Testing
import UploadModel

@testable import DiskStorage

@Suite("The mark and the orphans of a disk storage", .timeLimit(.minutes(10)))
struct StoreTests {
    private let day = Date(timeIntervalSince1970: 1_750_000_000)

    @Test("a mark is read back, also by the next process, and one that cannot be read is an error")
    func mark() async throws {
        let bench = try DiskBench()
        #expect(try await bench.storage.storedMark() == nil)
        for epoch in [0, 1, Int64.max] {
            let mark = StoreMark(id: "0123456789abcdef0123456789abcdef", epoch: epoch)
            try await bench.storage.storeMark(mark)
            #expect(try await bench.storage.storedMark() == mark)
        }
        #expect(!FileManager.default.fileExists(atPath: bench.directory.markPath + ".new"))
        try Data("{\"id\":".utf8).write(to: URL(fileURLWithPath: bench.directory.markPath))
        #expect(
            await errorCode { () async throws(UploadError) in try await bench.storage.storedMark() } == .storageFailure
        )
    }

    @Test("an orphan is quarantined with all its files, can be restored, and is removed after some days")
    func setAside() async throws {
        let bench = try DiskBench()
        let (id, kept) = (try await bench.blob([1, 2, 3]), try await bench.blob([4]))
        let shard = bench.directory.blobPath(id)
        try FileManager.default.createDirectory(atPath: shard + ".own", withIntermediateDirectories: false)
        for name in [".own/1-aa", ".layout", ".unverified"] {
            try Data([9]).write(to: URL(fileURLWithPath: shard + name))
        }
        try await bench.storage.setAside(id, at: day)
        #expect(try await bench.storage.list(after: nil, limit: 10) == [kept])
        let folder = bench.directory.quarantinePath + "/2025-06-15"
        let names = try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
        #expect(names == ["", ".layout", ".own", ".unverified"].map { id.text + $0 })
        #expect(FileManager.default.contents(atPath: folder + "/" + id.text) == Data([1, 2, 3]))
        // Restored, and quarantined again on the same day.
        for name in names {
            try FileManager.default.moveItem(
                atPath: folder + "/" + name,
                toPath: shard + name.dropFirst(id.text.utf8.count)
            )
        }
        try FileManager.default.createDirectory(atPath: folder + "/\(id).own", withIntermediateDirectories: false)
        try Data([9]).write(to: URL(fileURLWithPath: folder + "/\(id).own/old"))
        try await bench.storage.setAside(id, at: day)
        try await bench.storage.setAside(id, at: day)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder).count == 4)
        try Data([1]).write(to: URL(fileURLWithPath: bench.directory.quarantinePath + "/note"))
        #expect(try await bench.storage.removeOrphans(setAsideBefore: day) == 0)
        #expect(try await bench.storage.removeOrphans(setAsideBefore: day.addingTimeInterval(86_400)) == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: bench.directory.quarantinePath) == ["note"])
        #expect(try await bench.contents(of: kept) == [4])
    }

    @Test("complete and incomplete blobs are distinguished")
    func find() async throws {
        let bench = try DiskBench()
        let (whole, empty, unverified) = (
            try await bench.blob([1, 2, 3]), try await bench.blob(), try await bench.blob([1, 2])
        )
        try Data("1\n".utf8).write(to: URL(fileURLWithPath: bench.directory.markerPath(unverified)))
        let pieces = DiskBench.newID()
        try await bench.storage.createForParts(NewBlob(pieces, createdAt: day))
        var found: [UploadID: FoundBlob] = [:]
        try await bench.storage.findBlobs { found[$0.id] = $0 }
        #expect(
            found == [
                whole: FoundBlob(whole, .whole, size: 3), empty: FoundBlob(empty, .open, size: 0),
                unverified: FoundBlob(unverified, .open, size: 1), pieces: FoundBlob(pieces, .pieces, size: 0),
            ]
        )
        #expect(try await bench.storage.hasBlobs())
        let unused = try DiskBench()
        #expect(try await !unused.storage.hasBlobs())
    }
}
