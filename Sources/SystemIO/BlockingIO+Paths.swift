internal import CSystem
internal import Glibc

/// Calls on paths.
extension BlockingIO {
    /// What the path names, after all symbolic links unless it is below an anchored directory.
    package func status(of path: String) throws(SystemError) -> FileStatus {
        var status = FileStatus()
        try SystemError.check("stat") { calls.stat(place(path), &status) }
        return status
    }

    /// In bytes.
    package func size(of path: String) throws(SystemError) -> Int64 { try status(of: path).size }

    /// Checks that this process may execute a file.
    ///
    /// - Throws: The failure of `access`: EACCES without the permission, or if the file system is mounted with `noexec`.
    package func checkExecutable(_ path: String) throws(SystemError) {
        try SystemError.check("access") { SystemResult(access(path, X_OK)) }
    }

    /// Whether the file system of the path is mounted for reading only.
    package func isReadOnly(_ path: String) throws(SystemError) -> Bool {
        var status = statvfs()
        try SystemError.check("statvfs") { SystemResult(statvfs(path, &status)) }
        return status.f_flag & UInt(ST_RDONLY) != 0
    }

    package func exists(_ path: String) throws(SystemError) -> Bool {
        do throws(SystemError) {
            _ = try size(of: path)
            return true
        } catch  where error.errno == ENOENT {
            return false
        }
    }

    /// Renames a file; replaces an existing one.
    package func rename(_ path: String, to other: String) throws(SystemError) {
        try SystemError.check("rename") { calls.rename(place(path), to: place(other)) }
    }

    /// Removes a file.
    ///
    /// A missing file is not an error.
    package func remove(_ path: String) throws(SystemError) {
        do throws(SystemError) {
            try SystemError.check("unlink") { calls.unlink(place(path)) }
        } catch  where error.errno == ENOENT {
            return
        }
    }

    /// Creates a directory for this user only; it is not an error if it exists.
    ///
    /// - Returns: Whether it was created now.
    @discardableResult
    package func makeDirectory(_ path: String) throws(SystemError) -> Bool {
        do throws(SystemError) {
            try SystemError.check("mkdir") { calls.mkdir(place(path), mode: 0o700) }
            return true
        } catch  where error.errno == EEXIST {
            return false
        }
    }

    /// Removes a directory without entries.
    package func removeEmptyDirectory(_ path: String) throws(SystemError) {
        try SystemError.check("rmdir") { calls.rmdir(place(path)) }
    }

    /// Removes a directory and the files in it.
    ///
    /// A missing directory is not an error.
    package func removeDirectory(_ path: String) throws(SystemError) {
        do throws(SystemError) {
            try removeEmptyDirectory(path)
        } catch {
            if error.errno == ENOENT { return }
            guard error.errno == ENOTEMPTY || error.errno == EEXIST else { throw error }
            for name in try entries(of: path) { try remove(path + "/" + name) }
            try removeEmptyDirectory(path)
        }
    }

    /// Makes the names in a directory survive a crash.
    package func synchronizeDirectory(_ path: String) throws(SystemError) {
        let directory = try open(path, O_RDONLY | O_DIRECTORY)
        try synchronizeAll(of: directory)
    }

    /// Makes everything that was written to the file system of a directory survive a crash.
    package func synchronizeFileSystem(of path: String) throws(SystemError) {
        let directory = try open(path, O_RDONLY | O_DIRECTORY)
        try SystemError.check("syncfs") { SystemResult(csys_syncfs(directory.descriptor)) }
    }

    /// The names in a directory, unordered.
    package func entries(of path: String) throws(SystemError) -> [String] {
        var names: [String] = []
        try SystemError.check("readdir") {
            // Again from the start, if a signal interrupted it.
            names = []
            return calls.list(place(path), into: &names)
        }
        return names
    }
}

/// Attributes and locks.
extension BlockingIO {
    /// Reads an extended attribute (xattr(7)).
    ///
    /// - Throws: The failure of `fgetxattr`, such as ENODATA if there is no such attribute, or ERANGE if it has more
    ///   than `maximum` bytes.
    package func attribute(_ name: String, of file: OpenFile, maximum: Int) throws(SystemError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: maximum)
        let count = try SystemError.check("fgetxattr") {
            bytes.withUnsafeMutableBytes { calls.fgetxattr(file.descriptor, name, into: $0) }
        }
        bytes.removeLast(maximum - count)
        return bytes
    }

    /// Creates or replaces an extended attribute.
    package func setAttribute(_ name: String, of file: OpenFile, to value: [UInt8]) throws(SystemError) {
        try SystemError.check("fsetxattr") {
            value.withUnsafeBytes { calls.fsetxattr(file.descriptor, name, $0) }
        }
    }

    /// Whether each change of a file is written to other blocks, as by Btrfs.
    package func copiesOnWrite(_ file: OpenFile) -> Bool { csys_copies_on_write(file.descriptor) == 1 }

    /// Makes an empty file of such a file system overwrite its blocks in place.
    ///
    /// Otherwise each change needs free blocks, and one of a mapped page ends the process if there are none.
    package func overwriteInPlace(_ file: OpenFile) { _ = csys_overwrite_in_place(file.descriptor) }

    /// Whether the file system of the file is in memory (tmpfs, ramfs).
    package func isInMemory(_ file: OpenFile) throws(SystemError) -> Bool {
        try SystemError.check("fstatfs") { calls.isInMemory(file.descriptor) } == 1
    }

    /// Takes an exclusive advisory lock for as long as the file is open, without waiting.
    package func lock(_ file: OpenFile) throws(SystemError) {
        try SystemError.check("flock") { calls.flock(file.descriptor) }
    }
}
