internal import Bytes
internal import CSystem
internal import Synchronization
package import Transport

#if canImport(Glibc)
internal import Glibc
#endif

/// Disk space for bytes that wait for the store and have no room in memory: files without names, which end with the
/// process.
package final class Spool: Sendable {
    private struct Contents {
        var free: Int64
        var files = 0
    }

    private let directory: String
    private let pool: BlockingPool
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
        return await pool.run { [self] in
            let descriptor = csys_open_unnamed(directory)
            guard descriptor >= 0 else { return nil }
            contents.withLock { $0.files += 1 }
            return SpoolFile(OpenFile(owning: descriptor), in: self)
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

    fileprivate func write(_ bytes: [UInt8], to file: OpenFile, at offset: Int64) async -> Bool {
        await pool.run {
            var written = 0
            while written < bytes.count {
                let count = bytes.withUnsafeBytes { raw in
                    pwrite(
                        file.descriptor,
                        raw.baseAddress.map { $0 + written },
                        bytes.count - written,
                        off_t(offset) + off_t(written)
                    )
                }
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                written += count
            }
            return true
        }
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
        guard await spool.write(bytes, to: file, at: offset) else {
            spool.release(Int64(bytes.count))
            return false
        }
        size.withLock { $0 += Int64(bytes.count) }
        return true
    }

    /// - Returns: Number of bytes read; 0 on failure.
    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        while true {
            let count = pread(file.descriptor, buffer.baseAddress, buffer.count, off_t(offset))
            if count < 0, errno == EINTR { continue }
            return max(0, count)
        }
    }
}
