package import Bytes
internal import CSystem
package import Foundation
package import Transport
package import UploadCore

#if canImport(Glibc)
internal import Glibc
#endif

/// Blobs as files of a local file system; a blob's length is the file's length.
///
/// All calls that may block run on the pool. Nothing here depends on what a client names things: paths are made from ids.
package final class DiskStorage: MarkedStorage {
    let directory: DataDirectory
    let durability: Durability
    let pool: BlockingPool
    let durable = DurableLengths()
    let places = PartPlaces()

    package init(directory: DataDirectory, durability: Durability, pool: BlockingPool) {
        self.directory = directory
        self.durability = durability
        self.pool = pool
    }

    package var isDurableAtEndOnly: Bool { true }

    package func create(_ blob: NewBlob) async throws(UploadError) {
        let id = blob.id
        try await onPool { storage throws(SystemCallError) in
            try storage.makeFile(storage.directory.blobPath(id), of: id)
            if storage.durability != .none { storage.durable.note(id, length: 0) }
        }
    }

    package func durableLength(of id: UploadID) async throws(UploadError) -> Int64 {
        try await onBlob { storage throws(SystemCallError) in
            let file = try OpenFile.open(storage.directory.blobPath(id), O_WRONLY)
            return try storage.healedLength(of: id, file)
        }
    }

    package func currentLength(of id: UploadID) async throws(UploadError) -> Int64 {
        try await onBlob { storage throws(SystemCallError) in
            let base = try storage.marker(of: id).base()
            let size = try Paths.size(of: storage.directory.blobPath(id))
            return min(size, base ?? size)
        }
    }

    package func empty(_ id: UploadID) async throws(UploadError) {
        try await onBlob { storage throws(SystemCallError) in
            let file = try OpenFile.open(storage.directory.blobPath(id), O_WRONLY)
            storage.durable.forget(id)
            try storage.marker(of: id).heal(file)
            try file.truncate(to: 0)
            // Whatever the durability: a power cut must not bring old bytes back among new ones.
            try file.synchronizeAll()
        }
    }

    package func synchronize(_ id: UploadID) async throws(UploadError) {
        try await onBlob { storage throws(SystemCallError) in
            let file = try OpenFile.open(storage.directory.blobPath(id), O_WRONLY)
            guard storage.durability != .none else { return }
            try storage.synchronize(id, file, length: try file.size())
        }
    }

    package func head(of id: UploadID, length: Int) async throws(UploadError) -> [UInt8] {
        try await onBlob { storage throws(SystemCallError) in
            try OpenFile.open(storage.directory.blobPath(id), O_RDONLY).read(at: 0, maximum: length)
        }
    }

    package func open(_ id: UploadID) async throws(UploadError) -> StoredBlob {
        try await onBlob { storage throws(SystemCallError) in
            let file = try OpenFile.open(storage.directory.blobPath(id), O_RDONLY)
            return StoredBlob(content: .file(file), size: try file.size())
        }
    }

    /// Of a blob that is complete or not.
    package func bytes(of id: UploadID, _ range: Range<Int64>) async throws(UploadError) -> any ByteSource {
        let file = try await onBlob { storage throws(SystemCallError) in
            try OpenFile.open(storage.directory.blobPath(id), O_RDONLY)
        }
        return DiskSource(file, range, pool: pool)
    }

    package func remove(_ id: UploadID) async throws(UploadError) {
        try await onBlob { storage throws(SystemCallError) in
            storage.durable.forget(id)
            storage.places.forget(id)
            // While anything is there, a sweep finds it and removes all.
            try Paths.remove(storage.directory.markerPath(id))
            try storage.removeParts(of: id)
            try Paths.remove(storage.directory.blobPath(id))
        }
    }

    /// Sorted by shard, then by id.
    package func list(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID] {
        try await onPool { storage throws(SystemCallError) in
            var page: [UploadID] = []
            let first = after.map(DataDirectory.shard) ?? ""
            for shard in try storage.directory.shards() where shard >= first && page.count < limit {
                let names = try Paths.entries(of: storage.directory.shardPath(shard))
                var ids = Set(names.compactMap(DataDirectory.upload)).filter { DataDirectory.shard(of: $0) == shard }
                if let after, shard == first { ids = ids.filter { $0.text > after.text } }
                page += ids.sorted { $0.text < $1.text }.prefix(limit - page.count)
            }
            return page
        }
    }

    /// Whatever there is of a blob has its id in its name, and is removed with it.
    package func removeLeftovers(from date: Date, ofUnknownFrom unknown: Date) async throws(UploadError) -> Int { 0 }

    /// Writes one block and removes it, which finds a full, read-only or broken file system.
    package func check() async throws(UploadError) {
        try await onPool { storage throws(SystemCallError) in
            let path = storage.directory.probePath
            let file = try OpenFile.open(path, O_WRONLY | O_CREAT | O_TRUNC)
            let (_, failure) = file.write([UInt8](repeating: 0x53, count: 4096), at: 0)
            try Paths.remove(path)
            if let failure { throw failure }
        }
    }

    // MARK: Steps, on the pool

    /// Makes an empty file whose name survives a crash.
    func makeFile(_ path: String, of id: UploadID) throws(SystemCallError) {
        do throws(SystemCallError) {
            _ = try OpenFile.open(path, O_WRONLY | O_CREAT | O_EXCL)
        } catch  where error.number == ENOENT {
            try directory.makeShard(DataDirectory.shard(of: id))
            _ = try OpenFile.open(path, O_WRONLY | O_CREAT | O_EXCL)
        }
        guard durability != .none else { return }
        do throws(SystemCallError) {
            try Paths.synchronizeDirectory(shardPath(of: id))
        } catch {
            try? Paths.remove(path)
            throw error
        }
    }

    /// The length after unverified bytes were taken back; durable if the settings promise that to every offset.
    func healedLength(of id: UploadID, _ file: OpenFile) throws(SystemCallError) -> Int64 {
        if try marker(of: id).heal(file) { durable.forget(id) }
        let size = try file.size()
        if durability == .acknowledged { try synchronize(id, file, length: size) }
        return size
    }

    func synchronize(_ id: UploadID, _ file: OpenFile, length: Int64) throws(SystemCallError) {
        if durable.covers(id, length: length) { return }
        try file.synchronizeData()
        durable.note(id, length: length)
    }

    func marker(of id: UploadID) -> UnverifiedMarker {
        UnverifiedMarker(
            path: directory.markerPath(id),
            directory: shardPath(of: id),
            isDurable: durability != .none
        )
    }

    func shardPath(of id: UploadID) -> String { directory.shardPath(DataDirectory.shard(of: id)) }

    /// Runs `work` on the pool; that a file is missing means that there is no such blob.
    func onBlob<Success: Sendable>(
        _ work: @escaping @Sendable (DiskStorage) throws(SystemCallError) -> Success
    ) async throws(UploadError) -> Success {
        try await onPool(UploadError.init(opening:), work)
    }

    /// Runs `work` on the pool.
    func onPool<Success: Sendable>(
        _ error: (SystemCallError) -> UploadError = { UploadError($0) },
        _ work: @escaping @Sendable (DiskStorage) throws(SystemCallError) -> Success
    ) async throws(UploadError) -> Success {
        let failure: SystemCallError
        do throws(SystemCallError) {
            return try await pool.run { [self] () throws(SystemCallError) -> Success in try work(self) }
        } catch {
            failure = error
        }
        throw error(failure)
    }
}
