internal import Glibc
package import SystemIO

/// A numeric address and a port, or the path of a Unix socket.
package struct SocketAddress: Sendable, Equatable, CustomStringConvertible {
    /// Numeric IPv4 or IPv6 address, without brackets; `unix:` and the path of a Unix socket, of which a client has none.
    package let host: String
    /// 0 for a Unix socket.
    package let port: UInt16

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    package init(unixPath: String) {
        self.init(host: Self.unix + unixPath, port: 0)
    }

    /// What the host of every Unix socket begins with.
    package static let unix = "unix:"

    package var unixPath: String? { host.hasPrefix(Self.unix) ? String(host.dropFirst(Self.unix.count)) : nil }

    /// The bytes of a path that the kernel accepts, without the zero at its end.
    package static let maximumUnixPath = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

    package var description: String {
        if unixPath != nil { return host }
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// Calls `body` with the address as a `sockaddr`.
    ///
    /// - Throws: `EAFNOSUPPORT` if `host` is not a numeric address, `ENAMETOOLONG` for a path that is too long.
    func withSockaddr<Result>(
        _ body: (UnsafePointer<sockaddr>, socklen_t) throws(SystemError) -> Result
    ) throws(SystemError) -> Result {
        if let unixPath {
            var local = sockaddr_un()
            local.sun_family = sa_family_t(AF_UNIX)
            guard unixPath.utf8.count <= Self.maximumUnixPath else { throw SystemError("bind", errno: ENAMETOOLONG) }
            withUnsafeMutableBytes(of: &local.sun_path) { $0.copyBytes(from: unixPath.utf8) }
            return try Self.rebound(&local, body)
        }
        var v4 = sockaddr_in()
        if inet_pton(AF_INET, host, &v4.sin_addr) == 1 {
            v4.sin_family = sa_family_t(AF_INET)
            v4.sin_port = port.bigEndian
            return try Self.rebound(&v4, body)
        }
        var v6 = sockaddr_in6()
        if inet_pton(AF_INET6, host, &v6.sin6_addr) == 1 {
            v6.sin6_family = sa_family_t(AF_INET6)
            v6.sin6_port = port.bigEndian
            return try Self.rebound(&v6, body)
        }
        throw SystemError("inet_pton", errno: EAFNOSUPPORT)
    }

    /// The address from a `sockaddr` that `accept` or `getsockname` has filled in.
    init?(_ storage: sockaddr_storage) {
        var storage = storage
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let family = Int32(storage.ss_family)
        if family == AF_UNIX {
            let path = withUnsafeBytes(of: &storage) { bytes in
                bytes.dropFirst(MemoryLayout<sa_family_t>.size).prefix(Self.maximumUnixPath).prefix { $0 != 0 }
            }
            self.init(unixPath: String(decoding: path, as: UTF8.self))
            return
        }
        let port: UInt16? = withUnsafeMutableBytes(of: &storage) { bytes in
            switch family {
            case AF_INET:
                var address = bytes.load(as: sockaddr_in.self)
                inet_ntop(family, &address.sin_addr, &text, socklen_t(text.count))
                return UInt16(bigEndian: address.sin_port)
            case AF_INET6:
                var address = bytes.load(as: sockaddr_in6.self)
                inet_ntop(family, &address.sin6_addr, &text, socklen_t(text.count))
                return UInt16(bigEndian: address.sin6_port)
            default: return nil
            }
        }
        guard let port else { return nil }
        let host = String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        // An IPv4 peer of an IPv6 socket is shown as IPv4.
        let isMapped = host.hasPrefix("::ffff:") && host.contains(".")
        self.init(host: isMapped ? String(host.dropFirst(7)) : host, port: port)
    }

    private static func rebound<Address, Result>(
        _ address: inout Address,
        _ body: (UnsafePointer<sockaddr>, socklen_t) throws(SystemError) -> Result
    ) throws(SystemError) -> Result {
        let size = socklen_t(MemoryLayout<Address>.size)
        // Every sockaddr_* begins with the members of sockaddr; the kernel reads `size` bytes of it.
        let result: Swift.Result<Result, SystemError> = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { rebound in
                do throws(SystemError) {
                    return .success(try body(rebound, size))
                } catch {
                    return .failure(error)
                }
            }
        }
        return try result.get()
    }
}

extension SocketAddress {
    /// Resolves a host name to its first address; also accepts a numeric address.
    ///
    /// Blocks during the look-up.
    package init(resolving host: String, port: UInt16) throws(SystemError) {
        let numeric = SocketAddress(host: host, port: port)
        if numeric.unixPath != nil {
            self = numeric
            return
        }
        if (try? numeric.withSockaddr { _, _ throws(SystemError) in }) != nil {
            self = numeric
            return
        }
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &list) == 0, let first = list else {
            throw SystemError("getaddrinfo(\(host))", errno: EADDRNOTAVAIL)
        }
        defer { freeaddrinfo(list) }
        var storage = sockaddr_storage()
        guard let address = first.pointee.ai_addr, Int(first.pointee.ai_addrlen) <= MemoryLayout<sockaddr_storage>.size
        else {
            throw SystemError("getaddrinfo(\(host))", errno: EADDRNOTAVAIL)
        }
        withUnsafeMutableBytes(of: &storage) { bytes in
            bytes.copyMemory(from: UnsafeRawBufferPointer(start: address, count: Int(first.pointee.ai_addrlen)))
        }
        guard let found = SocketAddress(storage) else {
            throw SystemError("getaddrinfo(\(host))", errno: EAFNOSUPPORT)
        }
        self.init(host: found.host, port: port)
    }
}
