internal import Glibc
package import SystemIO

extension SocketAddress {
    /// Whether this process could listen at the address now; nothing is changed.
    ///
    /// - Throws: The failure of `bind`, such as `EADDRINUSE`, `EACCES` and `EADDRNOTAVAIL`. Of a Unix socket: `EADDRINUSE`
    ///   if a process serves it, or why its directory cannot be used.
    package func checkBindable() throws(SystemError) {
        let family = unixPath != nil ? AF_UNIX : host.contains(":") ? AF_INET6 : AF_INET
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = Int32(try SystemError.check("socket") { SystemResult(socket(family, type, 0)) })
        defer { close(descriptor) }
        if let unixPath {
            let isServed = try withSockaddr { pointer, size throws(SystemError) in
                connect(descriptor, pointer, size) == 0
            }
            guard !isServed else { throw SystemError("bind", errno: EADDRINUSE) }
            let folder = unixPath.lastIndex(of: "/").map { String(unixPath[..<$0]) } ?? ""
            try SystemError.check("access") { SystemResult(access(folder.isEmpty ? "/" : folder, W_OK | X_OK)) }
            return
        }
        // As a listener does: connections that have ended do not matter.
        var on: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        _ = try withSockaddr { pointer, size throws(SystemError) in
            try SystemError.check("bind") { SystemResult(bind(descriptor, pointer, size)) }
        }
    }
}
