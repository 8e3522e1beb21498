/// The system calls that move bytes and change files: the seam between Sluice and the kernel.
///
/// `LinuxCalls` is the real one; tests replace it to make calls fail. Each call does what the call of the same name in
/// section 2 of the manual does, once: repeating and checking is the work of the callers.
///
/// What OpenSSL, libcurl, SQLite and libpq do inside is not behind this seam.
package protocol SystemCalls: Sendable {
    // Sockets; never block, unless a timeout was set on the socket.

    func recv(_ socket: Int32, into buffer: UnsafeMutableRawBufferPointer) -> SystemResult
    func send(_ socket: Int32, _ bytes: UnsafeRawBufferPointer, flags: Int32) -> SystemResult

    // From a socket to a file, and from a file to a socket.

    /// splice(2), without blocking on either.
    func splice(socket: Int32, toPipe pipe: Int32, count: Int) -> SystemResult
    func splice(pipe: Int32, toFile file: Int32, at offset: Int64, count: Int) -> SystemResult
    func sendfile(_ file: Int32, at offset: Int64, count: Int, to socket: Int32) -> SystemResult

    // Open files.

    func open(_ place: FilePlace, flags: Int32, mode: UInt32) -> SystemResult
    /// open(2) with O_TMPFILE: a file without a name in this directory.
    func openUnnamed(in directory: FilePlace) -> SystemResult
    func close(_ file: Int32) -> SystemResult
    func fstat(_ file: Int32, _ status: inout FileStatus) -> SystemResult
    func pread(_ file: Int32, at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> SystemResult
    func pwrite(_ file: Int32, at offset: Int64, _ bytes: UnsafeRawBufferPointer) -> SystemResult
    func ftruncate(_ file: Int32, to size: Int64) -> SystemResult
    /// fallocate(2), without changing the size.
    func fallocate(_ file: Int32, at offset: Int64, count: Int64) -> SystemResult
    func fdatasync(_ file: Int32) -> SystemResult
    func fsync(_ file: Int32) -> SystemResult
    /// sync_file_range(2): starts writing the range to the disk.
    func startWriteback(_ file: Int32, at offset: Int64, count: Int64) -> SystemResult
    /// sync_file_range(2): writes everything from `offset` to the disk and waits; the disk may still hold it in its
    /// cache.
    func writeOut(_ file: Int32, from offset: Int64) -> SystemResult
    func copyFileRange(
        _ input: Int32,
        at inputOffset: Int64,
        to output: Int32,
        at outputOffset: Int64,
        count: Int
    ) -> SystemResult
    func fgetxattr(_ file: Int32, _ name: String, into buffer: UnsafeMutableRawBufferPointer) -> SystemResult
    func fsetxattr(_ file: Int32, _ name: String, _ value: UnsafeRawBufferPointer) -> SystemResult
    /// fstatfs(2): 1 if the file system is in memory (tmpfs, ramfs), otherwise 0.
    func isInMemory(_ file: Int32) -> SystemResult
    /// flock(2), exclusively and without waiting.
    func flock(_ file: Int32) -> SystemResult

    // Paths.

    func stat(_ place: FilePlace, _ status: inout FileStatus) -> SystemResult
    func rename(_ place: FilePlace, to other: FilePlace) -> SystemResult
    func unlink(_ place: FilePlace) -> SystemResult
    func mkdir(_ place: FilePlace, mode: UInt32) -> SystemResult
    func rmdir(_ place: FilePlace) -> SystemResult
    /// opendir(3) and readdir(3): adds all names but `.` and `..`, unordered.
    func list(_ directory: FilePlace, into names: inout [String]) -> SystemResult
}

/// What stat(2) says of a file.
package struct FileStatus: Sendable {
    /// In bytes.
    package var size: Int64 = 0
    /// Space on the disk in bytes: more than `size` if space was reserved, less if the file has holes.
    package var allocated: Int64 = 0
    /// Number of names.
    package var links: Int = 0
    /// Type and permissions, as `st_mode` has them.
    package var mode: UInt32 = 0
    /// The id of the user to whom it belongs.
    package var owner: UInt32 = 0
    package var group: UInt32 = 0
    /// When bytes were last written, in Unix milliseconds.
    package var modifiedAt: Int64 = 0

    package init() {}
}
