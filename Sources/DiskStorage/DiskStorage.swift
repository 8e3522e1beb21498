package import Bytes
package import Foundation
package import SystemIO

#if canImport(Glibc)
internal import Glibc
package import UploadModel
#endif

/// Blobs as files of a local file system.
///
/// The length of a blob is the length of its file, unless its `DurableRecord` excludes bytes at the end.
///
/// Everything that can block needs a `BlockingIO` and therefore runs on the pool. Paths are made from ids and never from names that clients choose.
package final class DiskStorage: MarkedStorage {
    let directory: DataDirectory
    let durability: Durability
    let pool: BlockingPool
    let durable = DurableLengths()
    let untrustedTails = UntrustedTails()
    let shards = DurableShards()
    let places = PartPlaces()
    let directorySyncs = SharedDirectorySyncs()
    let openBlobs: RecentTable<UploadID, OpenBlob>
    let boot: BootID
    /// Bytes are only stored while it is whole.
    private let reserve: SpaceReserve?
    /// How often a running append checks whether enough bytes arrived for a sync.
    let checkpointInterval: Duration

    /// - Parameters:
    ///   - directory: The data directory.
    ///   - durability: When bytes are forced to disk.
    ///   - pool: Runs all calls.
    ///   - reserve: Space on the same disk that is kept for work that frees space.
    ///   - recent: How many files are kept open for the next append to them, and for how long.
    package convenience init(
        directory: DataDirectory,
        durability: Durability,
        pool: BlockingPool,
        reserve: SpaceReserve? = nil,
        recent: RecentLimits = .none
    ) {
        self.init(
            directory: directory,
            durability: durability,
            pool: pool,
            boot: .current,
            reserve: reserve,
            recent: recent
        )
    }

    init(
        directory: DataDirectory,
        durability: Durability,
        pool: BlockingPool,
        boot: BootID,
        reserve: SpaceReserve? = nil,
        recent: RecentLimits = .none,
        checkpointInterval: Duration = .seconds(5)
    ) {
        openBlobs = RecentTable(recent)
        self.reserve = reserve
        self.directory = directory
        self.durability = durability
        self.pool = pool
        self.boot = boot
        self.checkpointInterval = checkpointInterval
        // What cannot be listed now, `check` reports.
        _ = try? shards.lost(in: directory, anchored(.onCallingThread))
    }

    package var isDurableAtEndOnly: Bool { true }

    package var mayLoseBlobs: Bool { durability == .none }

    package func create(_ blob: NewBlob) async throws(UploadError) {
        let id = blob.id
        try await onPool { storage, io throws(SystemError) in
            let file = try storage.makeFile(
                storage.directory.blobPath(id),
                of: id,
                DurableRecord(length: 0, boot: storage.boot),
                io
            )
            if storage.durability != .none { storage.durable.note(id, length: 0) }
            storage.openBlobs.put(id, OpenBlob(file: file, length: 0))
        }
    }

    package func durableLength(of id: UploadID) async throws(UploadError) -> Int64 {
        try await onBlob { storage, io throws(SystemError) in
            let file = try io.open(storage.directory.blobPath(id), O_WRONLY)
            return try storage.recoverLength(of: id, file, io)
        }
    }

    package func currentLength(of id: UploadID) async throws(UploadError) -> Int64 {
        try await progress(of: id).length
    }

    package func currentLengths(of ids: [UploadID]) async throws(UploadError) -> [UploadID: Int64] {
        try await progress(of: ids).mapValues(\.length)
    }

    package func progress(of id: UploadID) async throws(UploadError) -> BlobProgress {
        try await onBlob { storage, io throws(SystemError) in try storage.progress(of: id, io) }
    }

    package func progress(of ids: [UploadID]) async throws(UploadError) -> [UploadID: BlobProgress] {
        var lengths: [UploadID: BlobProgress] = [:]
        lengths.reserveCapacity(ids.count)
        var rest = ids[...]
        while !rest.isEmpty {
            let some = rest.prefix(Self.lengthsAtOnce)
            rest = rest.dropFirst(Self.lengthsAtOnce)
            let found = try await onPool { storage, io throws(SystemError) in
                some.map { id in (id, try? storage.progress(of: id, io)) }
            }
            for (id, length) in found { lengths[id] = length }
        }
        return lengths
    }

    /// A thread of the pool is busy with so many blobs for about a millisecond.
    private static let lengthsAtOnce = 100

    package func empty(_ id: UploadID) async throws(UploadError) {
        try await onBlob { storage, io throws(SystemError) in
            storage.drop(id, io)
            let file = try io.open(storage.directory.blobPath(id), O_WRONLY)
            storage.durable.forget(id)
            try storage.marker(of: id).recover(file, io)
            // First: the old length must not apply to bytes that are written after this.
            storage.untrustedTails.note(id, countingOnly: 0)
            try io.setDurableRecord(DurableRecord(length: 0, boot: nil), of: file)
            try io.truncate(file, to: 0)
            // Regardless of the durability setting: a power cut must not bring old bytes back among new ones.
            try io.synchronizeAll(of: file)
            try storage.truncateUntrusted(id, file, io)
        }
    }

    package func synchronize(_ id: UploadID) async throws(UploadError) {
        try await onBlob { storage, io throws(SystemError) in
            let file = try io.open(storage.directory.blobPath(id), O_WRONLY)
            let length = try storage.recoverLength(of: id, file, io)
            guard storage.durability != .none else { return }
            do throws(SystemError) {
                try storage.synchronize(id, file, length: length, io)
            } catch {
                try? storage.truncateUntrusted(id, file, io)
                throw error
            }
        }
    }

    package func head(of id: UploadID, length: Int) async throws(UploadError) -> [UInt8] {
        try await onBlob { storage, io throws(SystemError) in
            try io.read(io.open(storage.directory.blobPath(id), O_RDONLY), at: 0, maximum: length)
        }
    }

    package func open(_ id: UploadID) async throws(UploadError) -> StoredBlob {
        try await onBlob { storage, io throws(SystemError) in
            let file = try io.open(storage.directory.blobPath(id), O_RDONLY)
            return StoredBlob(content: .file(file), size: try io.size(of: file))
        }
    }

    /// The blob may be incomplete.
    package func bytes(of id: UploadID, _ range: Range<Int64>) async throws(UploadError) -> any ByteSource {
        let file = try await onBlob { storage, io throws(SystemError) in
            try io.open(storage.directory.blobPath(id), O_RDONLY)
        }
        return DiskSource(file, range, pool: pool)
    }

    package func remove(_ id: UploadID) async throws(UploadError) {
        try await onBlob { storage, io throws(SystemError) in
            storage.drop(id, io)
            storage.durable.forget(id)
            storage.untrustedTails.forget(id)
            storage.places.forget(id)
            // The blob is removed last: as long as it exists, a sweep finds it and removes everything.
            try io.remove(storage.directory.markerPath(id))
            try storage.removeParts(of: id, io)
            try io.remove(storage.directory.blobPath(id))
            // With the space of the blob.
            storage.reserve?.fill(io)
        }
    }

    /// Sorted by shard, then by id.
    package func list(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID] {
        try await onPool { storage, io throws(SystemError) in
            var page: [UploadID] = []
            let first = after.map(DataDirectory.shard) ?? ""
            for shard in try storage.directory.shards(io) where shard >= first && page.count < limit {
                let names = try io.entries(of: storage.directory.shardPath(shard))
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
        let lost = try await onPool { storage, io throws(SystemError) in
            let path = storage.directory.probePath
            let file = try io.open(path, O_WRONLY | O_CREAT | O_TRUNC)
            let (_, failure) = io.write([UInt8](repeating: 0x53, count: 4096), to: file, at: 0)
            try io.remove(path)
            if let failure { throw failure }
            return try storage.shards.lost(in: storage.directory, io)
        }
        guard lost.isEmpty else {
            throw UploadError(
                .storageFailure,
                "\(lost.count) directories of `blobs` in the data directory are gone, with the uploads in them."
            )
        }
    }

    // MARK: Steps, on the pool

    /// - Throws: ENOSPC while what is left is kept for deletions.
    func checkRoom(_ io: BlockingIO) throws(SystemError) {
        guard reserve?.hasRoom(io) ?? true else { throw SystemError("fallocate", errno: ENOSPC) }
    }

    /// Creates an empty file whose name survives a crash.
    func makeFile(
        _ path: String,
        of id: UploadID,
        _ record: DurableRecord?,
        _ io: BlockingIO
    ) throws(SystemError) -> OpenFile {
        let file = try newFile(path, of: id, io)
        do throws(SystemError) {
            if let record { try io.setDurableRecord(record, of: file) }
            if durability != .none { try directorySyncs.synchronize(shardPath(of: id), io) }
            return file
        } catch {
            try? io.remove(path)
            throw error
        }
    }

    /// Creates and opens a file in the shard of a blob; its name is not durable yet.
    func newFile(_ path: String, of id: UploadID, _ io: BlockingIO) throws(SystemError) -> OpenFile {
        try checkRoom(io)
        let shard = DataDirectory.shard(of: id)
        if durability != .none { try shards.make(shard, in: directory, io) }
        do throws(SystemError) {
            return try sparing { () throws(SystemError) in try io.open(path, O_WRONLY | O_CREAT | O_EXCL) }
        } catch  where error.errno == ENOENT {
            shards.forget(shard)
            if durability == .none {
                try directory.makeShard(shard, io)
            } else {
                try shards.make(shard, in: directory, io)
            }
            return try io.open(path, O_WRONLY | O_CREAT | O_EXCL)
        }
    }

    /// The length after discarding bytes that do not count; durable if the settings promise that for every offset.
    func recoverLength(of id: UploadID, _ file: OpenFile, _ io: BlockingIO) throws(SystemError) -> Int64 {
        if try marker(of: id).recover(file, io) { durable.forget(id) }
        if untrustedTails.contains(id) { try truncateUntrusted(id, file, io) }
        let size = try io.size(of: file)
        // It was checked before.
        if durable.covers(id, length: size) { return size }
        let record = try io.durableRecord(of: file)
        let length = record?.length(of: size, in: boot) ?? size
        // A blob of version 0.1 has no record of what is durable, so all of it is synchronised.
        let isOld = record == nil && size > 0 && durability != .none
        if length < size {
            // These bytes were lost in a power cut, or may have been.
            try io.truncate(file, to: length)
            durable.forget(id)
        }
        if durability == .acknowledged || isOld {
            do throws(SystemError) {
                try synchronize(id, file, length: length, io)
            } catch {
                try? truncateUntrusted(id, file, io)
                throw error
            }
        } else if let record, record.boot != boot {
            // Later bytes count during this boot.
            try io.setDurableRecord(DurableRecord(length: min(record.length, length), boot: boot), of: file)
        }
        return length
    }

    /// The same, without changing anything.
    private func progress(of id: UploadID, _ io: BlockingIO) throws(SystemError) -> BlobProgress {
        let base = try marker(of: id).base(io)
        let file = try io.open(directory.blobPath(id), O_RDONLY)
        let status = try io.status(of: file)
        let size = try countedLength(of: id, file, status.size, io)
        return BlobProgress(
            length: min(size, base ?? size),
            changedAt: Date(timeIntervalSince1970: Double(status.modifiedAt) / 1000)
        )
    }

    private func countedLength(
        of id: UploadID,
        _ file: OpenFile,
        _ size: Int64,
        _ io: BlockingIO
    ) throws(SystemError) -> Int64 {
        guard let tail = untrustedTails.tail(of: id) else {
            if let known = durable.length(of: id), known <= size { return size }
            return try io.durableRecord(of: file)?.length(of: size, in: boot) ?? size
        }
        if let length = tail { return min(size, length) }
        return min(size, try io.durableRecord(of: file)?.length ?? size)
    }

    /// Forces the first `length` bytes to stable storage.
    ///
    /// - Throws: If it fails now or has failed before; bytes that were not durable must then be cut off, see `truncateUntrusted`.
    func synchronize(_ id: UploadID, _ file: OpenFile, length: Int64, _ io: BlockingIO) throws(SystemError) {
        guard !untrustedTails.contains(id) else { throw SystemError("fsync", errno: EIO) }
        if durable.covers(id, length: length) { return }
        // Read before it is replaced: it says which bytes a failure leaves.
        var known = durable.length(of: id)
        if known == nil { known = try io.durableRecord(of: file)?.length }
        do throws(SystemError) {
            try io.synchronize(file, through: length, beyond: min(known ?? 0, length), in: boot)
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
    func truncateUntrusted(_ id: UploadID, _ file: OpenFile, _ io: BlockingIO) throws(SystemError) {
        guard let tail = untrustedTails.tail(of: id) else { return }
        let record = try io.durableRecord(of: file)
        let length = min(try io.size(of: file), tail ?? record?.length ?? 0)
        let durableLength = min(length, record?.length ?? length, tail ?? .max)
        // First, in case the process dies in between.
        try io.setDurableRecord(DurableRecord(length: durableLength, boot: nil), of: file)
        try io.truncate(file, to: length)
        try io.setDurableRecord(DurableRecord(length: durableLength, boot: boot), of: file)
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

    /// For calls on paths, in work that does not run by `onPool`.
    func anchored(_ io: BlockingIO) -> BlockingIO { io.anchored(in: directory.anchor) }

    /// Runs `work` on the pool; a missing file means that there is no such blob.
    func onBlob<Success: Sendable>(
        _ work: @escaping @Sendable (DiskStorage, BlockingIO) throws(SystemError) -> Success
    ) async throws(UploadError) -> Success {
        try await onPool(UploadError.init(opening:), work)
    }

    /// Runs `work` on the pool.
    func onPool<Success: Sendable>(
        _ error: (SystemError) -> UploadError = { UploadError($0) },
        _ work: @escaping @Sendable (DiskStorage, BlockingIO) throws(SystemError) -> Success
    ) async throws(UploadError) -> Success {
        let failure: SystemError
        do throws(SystemError) {
            return try await pool.run { [self] (io: BlockingIO) throws(SystemError) -> Success in
                try work(self, anchored(io))
            }
        } catch {
            failure = error
        }
        throw error(failure)
    }
}
