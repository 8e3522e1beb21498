package import Bytes
internal import CSystem
package import Foundation
package import Transport
package import UploadCore

#if canImport(Glibc)
internal import Glibc
#endif

/// Blobs as files of a local file system.
///
/// The length of a blob is the length of its file, unless its `DurableRecord` excludes bytes at the end.
///
/// All calls that can block run on the pool. Paths are made from ids and never from names that clients choose.
package final class DiskStorage: MarkedStorage {
    let directory: DataDirectory
    let durability: Durability
    let pool: BlockingPool
    let durable = DurableLengths()
    let untrustedTails = UntrustedTails()
    let shards = DurableShards()
    let places = PartPlaces()
    let boot: BootID
    /// How often a running append checks whether enough bytes arrived for a sync.
    let checkpointInterval: Duration

    package convenience init(directory: DataDirectory, durability: Durability, pool: BlockingPool) {
        self.init(directory: directory, durability: durability, pool: pool, boot: .current)
    }

    init(
        directory: DataDirectory,
        durability: Durability,
        pool: BlockingPool,
        boot: BootID,
        checkpointInterval: Duration = .seconds(5)
    ) {
        self.directory = directory
        self.durability = durability
        self.pool = pool
        self.boot = boot
        self.checkpointInterval = checkpointInterval
    }

    package var isDurableAtEndOnly: Bool { true }

    package var mayLoseBlobs: Bool { durability == .none }

    package func create(_ blob: NewBlob) async throws(UploadError) {
        let id = blob.id
        try await onPool { storage throws(SystemCallError) in
            try storage.makeFile(storage.directory.blobPath(id), of: id, DurableRecord(length: 0, boot: storage.boot))
            if storage.durability != .none { storage.durable.note(id, length: 0) }
        }
    }

    package func durableLength(of id: UploadID) async throws(UploadError) -> Int64 {
        try await onBlob { storage throws(SystemCallError) in
            let file = try OpenFile.open(storage.directory.blobPath(id), O_WRONLY)
            return try storage.recoverLength(of: id, file)
        }
    }

    package func currentLength(of id: UploadID) async throws(UploadError) -> Int64 {
        try await onBlob { storage throws(SystemCallError) in
            let base = try storage.marker(of: id).base()
            let file = try OpenFile.open(storage.directory.blobPath(id), O_RDONLY)
            let size = try storage.countedLength(of: id, file)
            return min(size, base ?? size)
        }
    }

    package func empty(_ id: UploadID) async throws(UploadError) {
        try await onBlob { storage throws(SystemCallError) in
            let file = try OpenFile.open(storage.directory.blobPath(id), O_WRONLY)
            storage.durable.forget(id)
            try storage.marker(of: id).recover(file)
            // First: the old length must not apply to bytes that are written after this.
            storage.untrustedTails.note(id, countingOnly: 0)
            try file.setDurableRecord(DurableRecord(length: 0, boot: nil))
            try file.truncate(to: 0)
            // Regardless of the durability setting: a power cut must not bring old bytes back among new ones.
            try file.synchronizeAll()
            try storage.truncateUntrusted(id, file)
        }
    }

    package func synchronize(_ id: UploadID) async throws(UploadError) {
        try await onBlob { storage throws(SystemCallError) in
            let file = try OpenFile.open(storage.directory.blobPath(id), O_WRONLY)
            let length = try storage.recoverLength(of: id, file)
            guard storage.durability != .none else { return }
            do throws(SystemCallError) {
                try storage.synchronize(id, file, length: length)
            } catch {
                try? storage.truncateUntrusted(id, file)
                throw error
            }
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

    /// The blob may be incomplete.
    package func bytes(of id: UploadID, _ range: Range<Int64>) async throws(UploadError) -> any ByteSource {
        let file = try await onBlob { storage throws(SystemCallError) in
            try OpenFile.open(storage.directory.blobPath(id), O_RDONLY)
        }
        return DiskSource(file, range, pool: pool)
    }

    package func remove(_ id: UploadID) async throws(UploadError) {
        try await onBlob { storage throws(SystemCallError) in
            storage.durable.forget(id)
            storage.untrustedTails.forget(id)
            storage.places.forget(id)
            // The blob is removed last: as long as it exists, a sweep finds it and removes everything.
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

    /// Nothing to do: every file of a blob has its id in the name and is removed with it.
    package func removeLeftovers(from date: Date, ofUnknownFrom unknown: Date) async throws(UploadError) -> Int { 0 }

    /// Writes one block and removes it, to detect a full, read-only or broken file system.
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

    /// Creates an empty file whose name survives a crash.
    func makeFile(_ path: String, of id: UploadID, _ record: DurableRecord? = nil) throws(SystemCallError) {
        let shard = DataDirectory.shard(of: id)
        if durability != .none { try shards.make(shard, in: directory) }
        let file: OpenFile
        do throws(SystemCallError) {
            file = try OpenFile.open(path, O_WRONLY | O_CREAT | O_EXCL)
        } catch  where error.number == ENOENT {
            shards.forget(shard)
            if durability == .none { try directory.makeShard(shard) } else { try shards.make(shard, in: directory) }
            file = try OpenFile.open(path, O_WRONLY | O_CREAT | O_EXCL)
        }
        do throws(SystemCallError) {
            if let record { try file.setDurableRecord(record) }
            if durability != .none { try Paths.synchronizeDirectory(shardPath(of: id)) }
        } catch {
            try? Paths.remove(path)
            throw error
        }
    }

    /// The length after discarding bytes that do not count; durable if the settings promise that for every offset.
    func recoverLength(of id: UploadID, _ file: OpenFile) throws(SystemCallError) -> Int64 {
        if try marker(of: id).recover(file) { durable.forget(id) }
        if untrustedTails.contains(id) { try truncateUntrusted(id, file) }
        let size = try file.size()
        // It was checked before.
        if durable.covers(id, length: size) { return size }
        let record = try file.durableRecord()
        let length = record?.length(of: size, in: boot) ?? size
        // A blob of version 0.1 has no record of what is durable, so all of it is synchronised.
        let isOld = record == nil && size > 0 && durability != .none
        if length < size {
            // These bytes were lost in a power cut, or may have been.
            try file.truncate(to: length)
            durable.forget(id)
        }
        if durability == .acknowledged || isOld {
            do throws(SystemCallError) {
                try synchronize(id, file, length: length)
            } catch {
                try? truncateUntrusted(id, file)
                throw error
            }
        } else if let record, record.boot != boot {
            // Later bytes count during this boot.
            try file.setDurableRecord(DurableRecord(length: min(record.length, length), boot: boot))
        }
        return length
    }

    /// The same, without changing anything.
    private func countedLength(of id: UploadID, _ file: OpenFile) throws(SystemCallError) -> Int64 {
        let size = try file.size()
        guard let tail = untrustedTails.tail(of: id) else {
            if let known = durable.length(of: id), known <= size { return size }
            return try file.durableRecord()?.length(of: size, in: boot) ?? size
        }
        if let length = tail { return min(size, length) }
        return min(size, try file.durableRecord()?.length ?? size)
    }

    /// Forces the first `length` bytes to stable storage.
    ///
    /// - Throws: If it fails now or has failed before; bytes that were not durable must then be cut off, see `truncateUntrusted`.
    func synchronize(_ id: UploadID, _ file: OpenFile, length: Int64) throws(SystemCallError) {
        guard !untrustedTails.contains(id) else { throw SystemCallError("fsync", errno: EIO) }
        if durable.covers(id, length: length) { return }
        // Read before it is replaced: it says which bytes a failure leaves.
        var known = durable.length(of: id)
        if known == nil { known = try file.durableRecord()?.length }
        do throws(SystemCallError) {
            try file.synchronize(through: length, beyond: min(known ?? 0, length), in: boot)
        } catch {
            // A repeated sync would wrongly succeed (fsync(2), "EIO").
            durable.forget(id)
            untrustedTails.note(id, countingOnly: known ?? 0)
            throw error
        }
        durable.note(id, length: length)
    }

    /// Truncates bytes that do not count because a call has failed.
    ///
    /// - Throws: If that fails, too; the next access tries again.
    func truncateUntrusted(_ id: UploadID, _ file: OpenFile) throws(SystemCallError) {
        guard let tail = untrustedTails.tail(of: id) else { return }
        let record = try file.durableRecord()
        let length = min(try file.size(), tail ?? record?.length ?? 0)
        let durableLength = min(length, record?.length ?? length, tail ?? .max)
        // First, in case the process dies in between.
        try file.setDurableRecord(DurableRecord(length: durableLength, boot: nil))
        try file.truncate(to: length)
        try file.setDurableRecord(DurableRecord(length: durableLength, boot: boot))
        durable.forget(id)
        untrustedTails.forget(id)
    }

    func marker(of id: UploadID) -> UnverifiedMarker {
        UnverifiedMarker(
            path: directory.markerPath(id),
            directory: shardPath(of: id),
            isDurable: durability != .none
        )
    }

    func shardPath(of id: UploadID) -> String { directory.shardPath(DataDirectory.shard(of: id)) }

    /// Runs `work` on the pool; a missing file means that there is no such blob.
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
