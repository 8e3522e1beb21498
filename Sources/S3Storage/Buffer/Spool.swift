internal import Synchronization
package import SystemIO

/// Disk space for bytes that wait for the store and have no room in memory: files without names, which end with the
/// process.
package final class Spool: Sendable {
    private struct Contents {
        var free: Int64
        var files = 0
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

    /// Creates a file; `nil` if there is no room or it cannot be created.
    func makeFile() async -> SpoolFile? {
        guard contents.withLock({ $0.free > 0 }) else { return nil }
        return await pool.run { [self] io in
            guard let file = try? io.openUnnamed(in: directory) else { return nil }
            contents.withLock { $0.files += 1 }
            return SpoolFile(file, in: self)
        }
    }

    fileprivate func take(_ bytes: Int64) -> Bool {
        contents.withLock { contents in
            guard contents.free >= bytes else { return false }
            contents.free -= bytes
            return true
        }
    }

    fileprivate func release(_ bytes: Int64) {
        contents.withLock { $0.free = min(capacity, $0.free + bytes) }
    }
}

/// A file of a spool; its space is released with the last reference.
final class SpoolFile: Sendable {
    private let file: OpenFile
    private let spool: Spool
    private let size = Mutex<Int64>(0)

    fileprivate init(_ file: OpenFile, in spool: Spool) {
        self.file = file
        self.spool = spool
    }

    deinit { spool.release(size.withLock { $0 }) }

    /// Appends bytes.
    ///
    /// - Returns: `false` if there is no room for them or the disk fails; earlier bytes are unaffected.
    func append(_ bytes: [UInt8]) async -> Bool {
        guard spool.take(Int64(bytes.count)) else { return false }
        let offset = size.withLock { $0 }
        let failure = await spool.pool.run { [file] io in io.write(bytes, to: file, at: offset).failure }
        guard failure == nil else {
            spool.release(Int64(bytes.count))
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
