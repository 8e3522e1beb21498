internal import Bytes
internal import CSystem

#if canImport(Glibc)
internal import Glibc
#endif

/// System calls for the storage: they repeat interrupted calls and throw `errno`.
extension OpenFile {
    static func open(_ path: String, _ flags: Int32, mode: UInt32 = 0o600) throws(SystemCallError) -> OpenFile {
        OpenFile(owning: try SystemCallError.check("open") { csys_open(path, flags, mode) })
    }

    /// In bytes.
    func size() throws(SystemCallError) -> Int64 { try usage().size }

    /// Size of the content, and allocated space: more if space was reserved, less if the file has holes.
    func usage() throws(SystemCallError) -> (size: Int64, allocated: Int64) {
        var status = stat()
        _ = try SystemCallError.check("fstat") { fstat(descriptor, &status) }
        // Always units of 512 bytes on Linux (stat(2)).
        return (Int64(status.st_size), Int64(status.st_blocks) * 512)
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// - Returns: Number of bytes written, and why not all of them.
    func write(_ bytes: [UInt8], at offset: Int64) -> (count: Int, failure: SystemCallError?) {
        bytes.withUnsafeBytes { buffer in
            var written = 0
            while written < buffer.count {
                let rest = UnsafeRawBufferPointer(rebasing: buffer[written...])
                do throws(SystemCallError) {
                    let count = try SystemCallError.check("pwrite") {
                        pwrite(descriptor, rest.baseAddress, rest.count, off_t(offset) + off_t(written))
                    }
                    // A result of zero does not say why; treat it as a full disk instead of looping for ever.
                    if count == 0 { return (written, SystemCallError("pwrite", errno: ENOSPC)) }
                    written += count
                } catch {
                    return (written, error)
                }
            }
            return (written, nil)
        }
    }

    /// Reads bytes from `offset`; returns fewer than `maximum` only at the end of the file.
    func read(at offset: Int64, maximum: Int) throws(SystemCallError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: maximum)
        var filled = 0
        while filled < maximum {
            let count = try SystemCallError.check("pread") {
                bytes.withUnsafeMutableBytes { buffer in
                    let room = UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
                    return pread(descriptor, room.baseAddress, room.count, off_t(offset) + off_t(filled))
                }
            }
            if count == 0 { break }
            filled += count
        }
        bytes.removeLast(maximum - filled)
        return bytes
    }

    func truncate(to size: Int64) throws(SystemCallError) {
        _ = try SystemCallError.check("ftruncate") { ftruncate(descriptor, off_t(size)) }
    }

    /// Forces the bytes and the size to stable storage.
    func synchronizeData() throws(SystemCallError) {
        _ = try SystemCallError.check("fdatasync") { fdatasync(descriptor) }
    }

    /// Forces everything to stable storage; for a directory, its entries.
    func synchronizeAll() throws(SystemCallError) {
        _ = try SystemCallError.check("fsync") { fsync(descriptor) }
    }
}

/// Calls on paths; every path comes from `DataDirectory`.
enum Paths {
    static func size(of path: String) throws(SystemCallError) -> Int64 {
        var status = stat()
        _ = try SystemCallError.check("stat") { stat(path, &status) }
        return Int64(status.st_size)
    }

    /// Removes a file; it is not an error if there is none.
    static func remove(_ path: String) throws(SystemCallError) {
        do throws(SystemCallError) {
            _ = try SystemCallError.check("unlink") { unlink(path) }
        } catch  where error.number == ENOENT {
            return
        }
    }

    static func exists(_ path: String) throws(SystemCallError) -> Bool {
        do throws(SystemCallError) {
            _ = try size(of: path)
            return true
        } catch  where error.number == ENOENT {
            return false
        }
    }

    /// Renames a file; replaces an existing one.
    static func rename(_ path: String, to other: String) throws(SystemCallError) {
        _ = try SystemCallError.check("rename") { Glibc.rename(path, other) }
    }

    /// Removes a directory and the files in it; it is not an error if there is none.
    static func removeDirectory(_ path: String) throws(SystemCallError) {
        do throws(SystemCallError) {
            _ = try SystemCallError.check("rmdir") { rmdir(path) }
        } catch {
            if error.number == ENOENT { return }
            guard error.number == ENOTEMPTY || error.number == EEXIST else { throw error }
            for name in try entries(of: path) { try remove(path + "/" + name) }
            _ = try SystemCallError.check("rmdir") { rmdir(path) }
        }
    }

    /// Creates a directory for this user only; it is not an error if it exists.
    ///
    /// - Returns: Whether it was created now.
    @discardableResult
    static func makeDirectory(_ path: String) throws(SystemCallError) -> Bool {
        do throws(SystemCallError) {
            _ = try SystemCallError.check("mkdir") { mkdir(path, 0o700) }
            return true
        } catch  where error.number == EEXIST {
            return false
        }
    }

    /// Makes the names in a directory survive a crash.
    static func synchronizeDirectory(_ path: String) throws(SystemCallError) {
        try OpenFile.open(path, O_RDONLY | O_DIRECTORY).synchronizeAll()
    }

    /// The names in a directory, unordered.
    static func entries(of path: String) throws(SystemCallError) -> [String] {
        guard let directory = opendir(path) else { throw SystemCallError("opendir", errno: errno) }
        defer { closedir(directory) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(directory) else {
                let number = errno
                if number != 0 { throw SystemCallError("readdir", errno: number) }
                return names
            }
            // A zero byte ends `d_name` within its 256 bytes (readdir(3)).
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
    }
}
