internal import Foundation
package import SystemIO

#if canImport(Glibc)
internal import Glibc
package import UploadModel
#endif

/// The directory with all persistent data of Sluice.
///
/// Only this type builds paths in it.
///
/// ```
/// <root>/                 0700, owned by the user of the process
///   lock                  locked with flock(2) while a process serves; contains its process id
///   state.sqlite          see SQLiteState
///   blobs/<xy>/<id>       the bytes of an upload; xy are the last two characters of the id, which are random;
///                         created with its first blob
///   blobs/<xy>/<id>.unverified   contains the length of the blob without bytes whose digest is not verified yet
///   blobs/<xy>/<id>.parts        the bytes of an upload in parts, see DiskStorage+Parts; becomes the blob
///   blobs/<xy>/<id>.layout       contains the size in bytes of each place for a part in that file
///   blobs/<xy>/<id>.own/         a file for each part that has no place there
///   blobs/<xy>/<id>.joining      becomes the blob if parts have to be copied
///   store                 the mark that the state also has, see StoreBinding; JSON
///   quarantine/<yyyy-mm-dd>/<id>…   files of blobs without a record that were found on that day, with their original
/// names
///   reserve               space that is kept for deletions, see SpaceReserve
///   restoring             mark, there until `sluice restore` has filled the directory
///   migrated              list of blobs that were copied into a store, see MigratedBlobs; exists from the first
/// migration on
/// ```
package struct DataDirectory: Sendable {
    /// As passed to the initialiser.
    package let root: String
    /// The directory itself: everything below is opened relative to it, and no link there is followed.
    package let anchor: AnchoredDirectory
    /// The lock is held while this descriptor is open.
    private let lock: OpenFile
    /// Paths that other users could read or write until now: see `PrivatePath`.
    package let tightened: [String]

    /// Creates missing directories and locks the data directory against a second process.
    ///
    /// Its owner and mode are checked before anything in it is opened.
    ///
    /// - Throws: `.inUse` if another process has locked it; `.unusable` also if another user could have put files there.
    package init(at root: String) throws(DataDirectoryError) {
        self.root = root
        let plain = BlockingIO.onCallingThread
        do throws(SystemError) {
            try Self.makeRoot(root, plain)
        } catch {
            throw .unusable(directory: root, reason: "\(error)")
        }
        anchor = try Self.open(root, plain)
        let io = plain.anchored(in: anchor)
        // Before anything is written into it.
        var tightened = try Self.makePrivate(anchor, root, io) ? [root] : []
        lock = try Self.takeLock(in: root, io)
        // With the lock, because a restore has it while it makes the mark.
        try Self.checkRestored(root, io)
        do throws(SystemError) {
            if try io.makeDirectory(root + "/blobs") { try io.synchronizeDirectory(root) }
        } catch {
            throw .unusable(directory: root, reason: "\(error)")
        }
        for name in Self.secretNames where try Self.makePrivate(root + "/" + name, in: root, io) {
            tightened.append(root + "/" + name)
        }
        self.tightened = tightened
    }

    /// Opens a data directory for reading, beside the process that has locked it.
    ///
    /// - Throws: `.unusable` if it is missing, cannot be read, or was never a data directory.
    package init(reading root: String) throws(DataDirectoryError) {
        self.root = root
        tightened = []
        let plain = BlockingIO.onCallingThread
        anchor = try Self.open(root, plain)
        lock = anchor.file
        let io = plain.anchored(in: anchor)
        do throws(SystemError) {
            _ = try io.entries(of: root + "/blobs")
        } catch {
            throw .unusable(directory: root, reason: "\(error)")
        }
        try Self.checkRestored(root, io)
    }

    private static func open(_ root: String, _ io: BlockingIO) throws(DataDirectoryError) -> AnchoredDirectory {
        do throws(SystemError) {
            return AnchoredDirectory(try io.open(root, O_RDONLY | O_DIRECTORY), path: root)
        } catch {
            throw .unusable(directory: root, reason: "\(error)")
        }
    }

    /// For calls on the calling thread.
    private var io: BlockingIO { BlockingIO.onCallingThread.anchored(in: anchor) }

    /// Space that is kept for work that frees space; it is made if it is missing, as far as there is room.
    ///
    /// - Returns: `nil` if it cannot be opened.
    package func reserve() -> SpaceReserve? {
        guard let file = try? io.open(Self.reservePath(in: root), O_RDWR | O_CREAT),
            (try? Self.isOwn(file, io)) ?? false
        else {
            return nil
        }
        let reserve = SpaceReserve(file)
        reserve.fill(io)
        return reserve
    }

    /// Whether a file can be overwritten: it is a regular file of this user, without another name.
    private static func isOwn(_ file: OpenFile, _ io: BlockingIO) throws(SystemError) -> Bool {
        let status = try io.status(of: file)
        return status.mode & S_IFMT == S_IFREG && status.links == 1 && status.owner == geteuid()
    }

    /// The same for a command beside a gateway, which uses what is there.
    package static func reserve(in root: String) -> SpaceReserve? {
        let io = BlockingIO.onCallingThread
        guard let file = try? io.open(reservePath(in: root), O_RDWR | O_NOFOLLOW | O_NONBLOCK),
            let status = try? io.status(of: file), status.mode & S_IFMT == S_IFREG, status.links == 1
        else {
            return nil
        }
        return SpaceReserve(file)
    }

    // MARK: Restoring

    /// Locks a directory that is empty, or that a restore which was cut off has left, and durably marks it as not filled.
    ///
    /// - Throws: `.inUse` if a gateway or another restore has locked it; `.unusable` if it has other content.
    package init(restoring root: String) throws(DataDirectoryError) {
        self.root = root
        let plain = BlockingIO.onCallingThread
        anchor = try Self.open(root, plain)
        let io = plain.anchored(in: anchor)
        _ = try Self.makePrivate(anchor, root, io)
        // Before the lock adds a file to a directory with content, and again with the lock, which decides.
        try Self.checkVacant(root, io)
        lock = try Self.takeLock(in: root, io)
        tightened = []
        try Self.checkVacant(root, io)
        do throws(SystemError) {
            _ = try io.open(Self.restoringPath(in: root), O_RDWR | O_CREAT)
            try io.synchronizeDirectory(root)
        } catch {
            throw .unusable(directory: root, reason: "\(error)")
        }
    }

    /// Removes what a restore has put into the directory: everything but its lock and its mark.
    package func removeRestored() {
        let kept = [Self.lockName, Self.restoringName]
        for name in (try? io.entries(of: root)) ?? [] where !kept.contains(name) {
            try? FileManager.default.removeItem(atPath: root + "/" + name)
        }
    }

    /// Removes the mark after everything in the directory is on stable storage; from then on a gateway can use it.
    package func finishRestoring() throws(SystemError) {
        try io.synchronizeFileSystem(of: root)
        try io.remove(Self.restoringPath(in: root))
        try io.synchronizeDirectory(root)
    }

    /// Removes the mark of a directory in which nothing is left.
    package func cancelRestoring() { try? io.remove(Self.restoringPath(in: root)) }

    private static func checkVacant(_ root: String, _ io: BlockingIO) throws(DataDirectoryError) {
        let names: [String]
        do throws(SystemError) {
            names = try io.entries(of: root)
        } catch {
            throw .unusable(directory: root, reason: "\(error)")
        }
        guard names.contains(restoringName) || names.allSatisfy({ $0 == lockName }) else {
            throw .unusable(directory: root, reason: "it is not empty; name an empty or missing one by --data-dir")
        }
    }

    /// Refuses a directory that `sluice restore` has not filled: bytes without a record would be set aside.
    private static func checkRestored(_ root: String, _ io: BlockingIO) throws(DataDirectoryError) {
        guard (try? io.exists(restoringPath(in: root))) ?? false else { return }
        throw .unusable(
            directory: root,
            reason: "a restore into it runs or was cut off; run `sluice restore` again, which begins anew"
        )
    }

    private static let lockName = "lock"
    private static let restoringName = "restoring"
    private static let reserveName = "reserve"

    /// Files with secrets or with data from clients.
    package static let secretNames = [
        "master.secret", "admin.key", "state.sqlite", "state.sqlite-wal", "state.sqlite-shm", "lock", "blobs", "spool",
    ]

    /// Checks that no other user can have put anything into the directory, and takes their access away.
    ///
    /// - Returns: Whether they could read it.
    private static func makePrivate(
        _ directory: AnchoredDirectory,
        _ root: String,
        _ io: BlockingIO
    ) throws(DataDirectoryError) -> Bool {
        do throws(PrivatePath.Failure) {
            return try PrivatePath.tighten(directory.file, named: root) { () throws(SystemError) in
                try io.entries(of: root).isEmpty
            }
        } catch {
            throw .unusable(directory: root, reason: error.description)
        }
    }

    /// - Returns: Whether other users had access to it.
    private static func makePrivate(
        _ path: String,
        in root: String,
        _ io: BlockingIO
    ) throws(DataDirectoryError) -> Bool {
        do throws(PrivatePath.Failure) {
            return try PrivatePath.tighten(path, io)
        } catch {
            throw .unusable(directory: root, reason: error.description)
        }
    }

    // MARK: Paths

    /// The files that a backup copies besides the state and the blobs, if they are there: the mark first, because the
    /// state must not be older.
    package static let copiedNames = ["store", "master.secret", "admin.key"]

    /// The path of the directory with all blobs.
    package static func blobsPath(in root: String) -> String { root + "/blobs" }

    /// The upload that a file name below the blobs belongs to; `nil` for others.
    package static func owner(of name: String) -> UploadID? { upload(of: name) }

    /// The path of the database; also for commands that read it while a server runs.
    package static func statePath(in root: String) -> String { root + "/state.sqlite" }

    private static func reservePath(in root: String) -> String { root + "/" + reserveName }

    private static func restoringPath(in root: String) -> String { root + "/" + restoringName }

    package var statePath: String { Self.statePath(in: root) }

    package var migratedPath: String { root + "/migrated" }

    var markPath: String { root + "/store" }

    var quarantinePath: String { root + "/quarantine" }

    func blobPath(_ id: UploadID) -> String { shardPath(Self.shard(of: id)) + "/" + id.text }

    func markerPath(_ id: UploadID) -> String { blobPath(id) + ".unverified" }

    func partsPath(_ id: UploadID) -> String { blobPath(id) + ".parts" }

    func layoutPath(_ id: UploadID) -> String { blobPath(id) + ".layout" }

    func ownPartsPath(_ id: UploadID) -> String { blobPath(id) + ".own" }

    func joiningPath(_ id: UploadID) -> String { blobPath(id) + ".joining" }

    /// The upload that a file name in a shard belongs to.
    static func upload(of name: String) -> UploadID? { UploadID(name.prefix { $0 != "." }) }

    func shardPath(_ shard: String) -> String { blobsPath + "/" + shard }

    var probePath: String { root + "/probe" }

    static func shard(of id: UploadID) -> String { String(id.text.suffix(2)) }

    /// The shards that have or had blobs, sorted.
    func shards(_ io: BlockingIO) throws(SystemError) -> [String] {
        try io.entries(of: blobsPath).filter { $0.utf8.count == 2 }.sorted()
    }

    /// Creates the directory of a shard for its first blob; there are at most 1024.
    func makeShard(_ shard: String, _ io: BlockingIO) throws(SystemError) {
        try io.makeDirectory(shardPath(shard))
    }

    /// Makes the names of all shards durable.
    func synchronizeShards(_ io: BlockingIO) throws(SystemError) {
        try io.synchronizeDirectory(blobsPath)
    }

    /// Whether the file system can store a `DurableRecord` with each blob.
    package var keepsDurableRecords: Bool {
        // If this fails, a later call that needs it fails too and reports the error.
        (try? io.canKeepRecords(beside: lock)) ?? true
    }

    /// Like `keepsDurableRecords`, for a directory that may be about to become one.
    package static func keepsDurableRecords(at path: String) -> Bool {
        let io = BlockingIO.onCallingThread
        guard let directory = try? io.open(path, O_RDONLY | O_DIRECTORY) else { return true }
        return (try? io.canKeepRecords(beside: directory)) ?? true
    }

    /// What to do where `keepsDurableRecords` is false.
    package static func lackOfRecords(in root: String) -> String {
        "the file system of \(root) has no extended attributes (user.*), in which the gateway records what survives a power cut."
            + " Use ext4, XFS or Btrfs, or set durability to none"
    }

    private var blobsPath: String { root + "/blobs" }

    // MARK: Making

    private static func makeRoot(_ root: String, _ io: BlockingIO) throws(SystemError) {
        guard !root.isEmpty else { throw SystemError("mkdir", errno: ENOENT) }
        let parent = URL(fileURLWithPath: root).deletingLastPathComponent().path
        if access(parent, F_OK) != 0 {
            // If this fails, the call below reports its errno.
            try? FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
        }
        if try io.makeDirectory(root) { try io.synchronizeDirectory(parent) }
        _ = try io.open(root, O_RDONLY | O_DIRECTORY)
        try SystemError.check("access") { SystemResult(access(root, R_OK | W_OK | X_OK)) }
    }

    private static func takeLock(in root: String, _ io: BlockingIO) throws(DataDirectoryError) -> OpenFile {
        let path = root + "/" + lockName
        do throws(SystemError) {
            let file = try io.open(path, O_RDWR | O_CREAT)
            guard try isOwn(file, io) else { throw SystemError("open", errno: ELOOP) }
            try io.lock(file)
            try io.truncate(file, to: 0)
            let (_, failure) = io.write(Array("\(getpid())\n".utf8), to: file, at: 0)
            // The text is only informative; a full disk must not keep the server from starting and freeing space.
            if let failure, failure.errno != ENOSPC, failure.errno != EDQUOT { throw failure }
            return file
        } catch {
            guard error.call == "flock", error.errno == EWOULDBLOCK else {
                let isForeign = error.errno == ELOOP
                let reason = "\(path) is a link or of another user; remove it, and Sluice makes a new one"
                throw .unusable(directory: root, reason: isForeign ? reason : "lock: \(error)")
            }
            let bytes = try? io.read(io.open(path, O_RDONLY), at: 0, maximum: 32)
            let text = String(decoding: bytes ?? [], as: UTF8.self)
            throw .inUse(directory: root, process: Int32(text.trimmingCharacters(in: .whitespacesAndNewlines)))
        }
    }
}

/// Why a data directory cannot be used; for the operator, so it includes the path.
package enum DataDirectoryError: Error, Equatable, CustomStringConvertible {
    /// Another process has locked it.
    case inUse(directory: String, process: Int32?)
    case unusable(directory: String, reason: String)

    package var description: String {
        switch self {
        case .inUse(let directory, let process):
            let owner = process.map { "process \($0)" } ?? "another process"
            return "The data directory \(directory) is in use by \(owner). Stop it, or choose another directory."
        case .unusable(let directory, let reason):
            return "The data directory \(directory) cannot be used: \(reason)."
        }
    }
}
