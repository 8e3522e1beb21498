import Bytes
import Digests
import Foundation
import SluiceTesting
import SystemIO
import Testing
import Transport
import UploadModel

@testable import DiskStorage

/// A disk storage in a temporary directory.
struct DiskBench {
    let temporary: TemporaryDirectory?
    let directory: DataDirectory
    let storage: DiskStorage

    /// - Parameters:
    ///   - durability: Of the storage.
    ///   - recent: How many files are kept open.
    /// - Throws: The errors of the directory.
    init(durability: Durability = .acknowledged, recent: RecentLimits = .none) throws {
        let temporary = try TemporaryDirectory()
        self.temporary = temporary
        directory = try DataDirectory(at: temporary.path("data"))
        storage = Self.storage(directory, durability, recent)
    }

    /// In a directory that the caller removes.
    init(root: String, durability: Durability = .acknowledged) throws {
        temporary = nil
        directory = try DataDirectory(at: root)
        storage = Self.storage(directory, durability)
    }

    private static func storage(
        _ directory: DataDirectory,
        _ durability: Durability,
        _ recent: RecentLimits = .none
    ) -> DiskStorage {
        DiskStorage(
            directory: directory,
            durability: durability,
            pool: BlockingPool(threads: 2, label: "test-disk"),
            recent: recent
        )
    }

    static func newID() -> UploadID { UploadID.generate(at: Date(timeIntervalSince1970: 1_750_000_000)) }

    /// Creates a blob with `bytes`.
    func blob(_ bytes: [UInt8] = []) async throws -> UploadID {
        let id = Self.newID()
        try await storage.create(id)
        let report = await storage.append(to: id, at: 0, from: ArraySource(bytes), limit: 1 << 40, expecting: nil)
        #expect(report.stored == Int64(bytes.count))
        return id
    }

    func contents(of id: UploadID) async throws -> [UInt8] {
        try await BlobStorageContract.contents(of: id, in: storage)
    }

    /// The names of all files in the blob directories that are not blobs.
    func markers() throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: directory.root + "/blobs").filter { $0.contains(".") }
    }

    /// Whether no file below the directory stays open; those that were released are closed on a pool, a little later.
    func closesAllFiles() async throws -> Bool {
        for _ in 0..<1000 {
            if try openDescriptors() == 0 { return true }
            try await Task.sleep(for: .milliseconds(10))
        }
        return false
    }

    func openDescriptors() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").filter { name in
            let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
            return target?.hasPrefix(directory.root + "/blobs") ?? false
        }.count
    }
}

extension AppendReport.End {
    /// The code of an error of the storage.
    var code: UploadError.Code? {
        if case .failed(let error) = self { error.code } else { nil }
    }
}

func sha256(_ bytes: [UInt8]) -> DigestExpectation {
    .known(ExpectedDigest(algorithm: .sha256, value: Digest.hash(bytes, .sha256)))
}
