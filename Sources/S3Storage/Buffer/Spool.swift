internal import Bytes
internal import Synchronization
package import SystemIO
internal import UploadModel

/// Disk space for bytes that wait for the store and have no room in memory: files without names, which end with the
/// process.
///
/// The files of one user have at most half of it together; a single file may have more, because parts can be that large.
package final class Spool: Sendable {
    private struct Contents {
        var free: Int64
        var files = 0
        /// By user; no use without files.
        var uses: [SubjectName: Use] = [:]
    }

    private struct Use {
        var files = 0
        var bytes: Int64 = 0
    }

    private let directory: String
    let pool: BlockingPool
    let capacity: Int64
    private let contents: Mutex<Contents>

    /// - Parameters:
    ///   - directory: Must exist.
    ///   - capacity: Maximum bytes in all files together; 0 disables the spool.
    ///   - pool: Runs file operations.
    package init(directory: String, capacity: Int64, pool: BlockingPool) {
        self.directory = directory
        self.capacity = capacity
        self.pool = pool
        contents = Mutex(Contents(free: capacity))
    }

    /// Number of files created since the start.
    package var filesMade: Int { contents.withLock { $0.files } }

    /// Creates a file.
    ///
    /// - Parameter user: Whose bytes it takes.
    /// - Returns: `nil` if there is no room, the user has a share already, or it cannot be created.
    func makeFile(for user: SubjectName? = StorageUser.current) async -> SpoolFile? {
        let isFree = contents.withLock { contents in
            contents.free > 0 && user.flatMap { contents.uses[$0] }?.bytes ?? 0 < share
        }
        guard isFree else { return nil }
        return await pool.run { [self] io in
            guard let file = try? io.openUnnamed(in: directory) else { return nil }
            contents.withLock { contents in
                contents.files += 1
                if let user { contents.uses[user, default: Use()].files += 1 }
            }
            return SpoolFile(file, in: self, of: user)
        }
    }

    /// The most bytes of a user in several files.
    private var share: Int64 { max(1, capacity / 2) }

    fileprivate func take(_ bytes: Int64, for user: SubjectName?) -> Bool {
        contents.withLock { contents in
            guard contents.free >= bytes else { return false }
            if let user, let use = contents.uses[user] {
                guard use.files < 2 || use.bytes + bytes <= share else { return false }
                contents.uses[user]?.bytes += bytes
            }
            contents.free -= bytes
            return true
        }
    }

    fileprivate func release(_ bytes: Int64, of user: SubjectName?, withFile: Bool) {
        contents.withLock { contents in
            contents.free = min(capacity, contents.free + bytes)
            guard let user, var use = contents.uses[user] else { return }
            use.bytes -= bytes
            if withFile { use.files -= 1 }
            contents.uses[user] = use.files > 0 ? use : nil
        }
    }
}

/// A file of a spool; its space is released with the last reference.
final class SpoolFile: Sendable {
    private let file: OpenFile
    private let spool: Spool
    private let user: SubjectName?
    private let size = Mutex<Int64>(0)

    fileprivate init(_ file: OpenFile, in spool: Spool, of user: SubjectName?) {
        self.file = file
        self.spool = spool
        self.user = user
    }

    deinit { spool.release(size.withLock { $0 }, of: user, withFile: true) }

    /// Appends bytes.
    ///
    /// - Returns: `false` if there is no room for them or the disk fails; earlier bytes are unaffected.
    func append(_ bytes: [UInt8]) async -> Bool {
        guard spool.take(Int64(bytes.count), for: user) else { return false }
        let offset = size.withLock { $0 }
        let failure = await spool.pool.run { [file] io in io.write(bytes, to: file, at: offset).failure }
        guard failure == nil else {
            spool.release(Int64(bytes.count), of: user, withFile: false)
            return false
        }
        size.withLock { $0 += Int64(bytes.count) }
        return true
    }

    /// Reads bytes on the pool and passes them on there; fewer than `maximum` at the end, none on failure.
    ///
    /// - Parameters:
    ///   - offset: In the file.
    ///   - maximum: At most the size of a slab.
    ///   - body: Called on a thread of the pool with the slab and the number of bytes in it.
    func read(at offset: Int64, maximum: Int, _ body: @escaping @Sendable (Slab, Int) -> Void) {
        spool.pool.submit { [file] io in
            let slab = SlabStore.shared.make()
            let room = UnsafeMutableRawBufferPointer(rebasing: slab.room[..<maximum])
            body(slab, (try? io.read(file, at: offset, into: room)) ?? 0)
        }
    }

    /// Reads bytes into a slab that nothing else uses meanwhile.
    ///
    /// - Returns: Whether the range was filled.
    func read(at offset: Int64, into slab: Slab, _ range: Range<Int>) async -> Bool {
        await spool.pool.run { [file] io in
            let room = UnsafeMutableRawBufferPointer(rebasing: slab.room[range])
            return (try? io.read(file, at: offset, into: room)) == range.count
        }
    }
}
