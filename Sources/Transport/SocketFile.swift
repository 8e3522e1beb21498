internal import CSystem
internal import Glibc
internal import SystemIO

/// The file of a listening Unix socket.
struct SocketFile {
    private let path: String
    /// Device and number, so that another process's file with the same name stays.
    private let identity: [UInt64]

    /// Binds `descriptor` to a file that takes the place of one without a process, and listens.
    ///
    /// The socket gets its name when it already listens, so no client is refused in between. The owner and the group can
    /// connect.
    ///
    /// - Throws: `EADDRINUSE` if a process accepts connections there; the failure of `bind`, `listen` or `rename`.
    init(_ path: String, of descriptor: Int32, backlog: Int32) throws(SystemError) {
        self.path = path
        let system = LinuxCalls()
        guard !Self.isServed(path) else { throw SystemError("bind", errno: EADDRINUSE) }
        let new = path + ".new"
        _ = system.unlink(FilePlace(new))
        _ = try SocketAddress(unixPath: new).withSockaddr { pointer, size throws(SystemError) in
            try SystemError.check("bind") { SystemResult(bind(descriptor, pointer, size)) }
        }
        do throws(SystemError) {
            try Self.admitGroup(to: new)
            _ = try SystemError.check("listen") { SystemResult(listen(descriptor, backlog)) }
            guard let identity = Self.identity(of: new) else { throw SystemError("stat", errno: errno) }
            self.identity = identity
            // A directory or a file of another kind is not replaced.
            if let kind = Self.kind(of: path), kind != S_IFSOCK { throw SystemError("bind", errno: EEXIST) }
            _ = try SystemError.check("rename") { system.rename(FilePlace(new), to: FilePlace(path)) }
        } catch {
            _ = system.unlink(FilePlace(new))
            throw error
        }
    }

    /// Lets the owner and the group connect.
    ///
    /// Follows no link: whoever may write in the directory could have put one in the place of the socket.
    ///
    /// - Throws: `EEXIST` if it is not a socket.
    static func admitGroup(to path: String) throws(SystemError) {
        _ = try SystemError.check("chmod") { SystemResult(csys_chmod_socket(path, 0o660)) }
    }

    /// Removes the file, if it is still the one of this socket.
    func remove() {
        if Self.identity(of: path) == identity { _ = LinuxCalls().unlink(FilePlace(path)) }
    }

    private static func isServed(_ path: String) -> Bool {
        let probe = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard probe >= 0 else { return false }
        defer { Glibc.close(probe) }
        let result = try? SocketAddress(unixPath: path).withSockaddr { pointer, size throws(SystemError) in
            connect(probe, pointer, size)
        }
        return result == 0
    }

    private static func identity(of path: String) -> [UInt64]? {
        var status = stat()
        return lstat(path, &status) == 0 ? [UInt64(status.st_dev), UInt64(status.st_ino)] : nil
    }

    private static func kind(of path: String) -> mode_t? {
        var status = stat()
        return lstat(path, &status) == 0 ? status.st_mode & S_IFMT : nil
    }
}
