internal import CSystem
internal import Glibc
package import SystemIO

/// A listening TCP or Unix socket on one event loop.
///
/// Invariant for `@unchecked`: `channel` is set once, before the listener is shared, and used on its loop.
package final class Listener: @unchecked Sendable {
    /// An accepted connection: a non-blocking descriptor, which the receiver must close, and the peer's address.
    package struct Accepted: Sendable {
        package let descriptor: Int32
        package let peer: SocketAddress
    }

    package let address: SocketAddress
    package let loop: EventLoop
    private let descriptor: Int32
    private let system: Calls
    private var channel: Channel?
    private var isClosed = false
    /// The file of a Unix socket that was made here.
    private var file: SocketFile?

    /// System calls that tests can make fail.
    package struct Calls: Sendable {
        /// accept(2) on the listening descriptor.
        ///
        /// Returns a non-blocking descriptor and the peer; -1 with `errno` on failure.
        package var accept: @Sendable (Int32) -> (descriptor: Int32, peer: SocketAddress?)

        package init(accept: @escaping @Sendable (Int32) -> (descriptor: Int32, peer: SocketAddress?)) {
            self.accept = accept
        }

        package static let real = Calls { descriptor in
            var storage = sockaddr_storage()
            var size = UInt32(MemoryLayout<sockaddr_storage>.size)
            let accepted = csys_accept(descriptor, &storage, &size)
            return (accepted, accepted >= 0 ? SocketAddress(storage) : nil)
        }
    }

    /// Binds and listens.
    ///
    /// - Parameters:
    ///   - address: With port 0 the system chooses a port; `self.address` has the chosen one.
    ///   - loop: Accepts the connections.
    ///   - backlog: Maximum number of connections that wait in the kernel.
    ///   - system: Accepts connections; replaced in tests.
    /// - Throws: The failure of `socket`, `bind` or `listen`; `EADDRINUSE` if a process serves the Unix socket.
    package init(
        _ address: SocketAddress,
        loop: EventLoop,
        backlog: Int32 = 1024,
        system: Calls = .real
    ) throws(SystemError) {
        self.system = system
        let family = address.unixPath != nil ? AF_UNIX : address.host.contains(":") ? AF_INET6 : AF_INET
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        descriptor = Int32(try SystemError.check("socket") { SystemResult(socket(family, type, 0)) })
        self.loop = loop
        do throws(SystemError) {
            if let path = address.unixPath {
                file = try SocketFile(path, of: descriptor, backlog: backlog)
                self.address = address
                return
            }
            var on: Int32 = 1
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
            let descriptor = self.descriptor
            _ = try address.withSockaddr { pointer, size throws(SystemError) in
                try SystemError.check("bind") { SystemResult(bind(descriptor, pointer, size)) }
            }
            try SystemError.check("listen") { SystemResult(listen(descriptor, backlog)) }
            self.address = try Self.boundAddress(of: descriptor)
        } catch {
            Glibc.close(descriptor)
            throw error
        }
    }

    /// Takes over a socket that listens already.
    ///
    /// - Parameters:
    ///   - descriptor: Belongs to the listener from now on.
    ///   - loop: Accepts the connections.
    /// - Throws: `ENOTSOCK`, `EINVAL` if it is not a socket that listens for connections.
    package init(inherited descriptor: Int32, loop: EventLoop) throws(SystemError) {
        self.descriptor = descriptor
        self.loop = loop
        system = .real
        do throws(SystemError) {
            var isListening: Int32 = 0
            var size = socklen_t(MemoryLayout<Int32>.size)
            let result = getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &isListening, &size)
            guard result == 0 else { throw SystemError("getsockopt", errno: errno) }
            guard isListening != 0 else { throw SystemError("getsockopt(SO_ACCEPTCONN)", errno: EINVAL) }
            _ = try SystemError.check("fcntl") { SystemResult(fcntl(descriptor, F_SETFD, FD_CLOEXEC)) }
            let flags = try SystemError.check("fcntl") { SystemResult(fcntl(descriptor, F_GETFL)) }
            _ = try SystemError.check("fcntl") { SystemResult(fcntl(descriptor, F_SETFL, Int32(flags) | O_NONBLOCK)) }
            address = try Self.boundAddress(of: descriptor)
        } catch {
            Glibc.close(descriptor)
            throw error
        }
    }

    private static func boundAddress(of descriptor: Int32) throws(SystemError) -> SocketAddress {
        var storage = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let result = withUnsafeMutablePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
        }
        guard result == 0 else { throw SystemError("getsockname", errno: errno) }
        guard let bound = SocketAddress(storage) else { throw SystemError("getsockname", errno: EAFNOSUPPORT) }
        return bound
    }

    /// Waits for the next connection.
    ///
    /// Failures of accept(2) do not end it: after a failure of one connection it accepts the next, and a resource that
    /// is missing now can be available again later.
    ///
    /// Must be called on the loop.
    ///
    /// - Parameter onFailure: Called for every failure except that there is no connection.
    /// - Returns: `nil` once the listener is closed.
    package func accept(onFailure: (SystemError) -> Void = { _ in }) async -> Accepted? {
        if isClosed { return nil }
        if channel == nil {
            do throws(SystemError) {
                channel = try Channel(descriptor: descriptor, loop: loop, tls: nil)
            } catch {
                // The channel has already closed the descriptor.
                isClosed = true
                onFailure(error)
            }
        }
        guard let channel else { return nil }
        var failures = 0
        while !isClosed {
            let (accepted, peer) = system.accept(descriptor)
            if accepted >= 0 {
                _ = csys_tcp_nodelay(accepted)
                if let peer { return Accepted(descriptor: accepted, peer: peer) }
                Glibc.close(accepted)
                continue
            }
            let code = errno
            if code == EINTR { continue }
            var deadline = Nanoseconds.max
            if code != EAGAIN, code != EWOULDBLOCK {
                onFailure(SystemError("accept", errno: code))
                failures += 1
                // Other connections of this loop need a turn, too.
                if Self.isOfPeer(code), !failures.isMultiple(of: 16) { continue }
                deadline = MonotonicClock.deadline(after: Self.pause)
            }
            channel.willReadOnOtherThread()
            do throws(Channel.WaitFailure) {
                try await channel.waitReadable(until: deadline)
            } catch {
                if error != .timedOut { return nil }
            }
        }
        return nil
    }

    /// Pause after a failure such as missing descriptors; meanwhile new connections wait in the kernel's queue.
    private static let pause = Duration.milliseconds(200)

    /// Whether the failure concerns only the connection that would have been accepted (accept(2)).
    private static func isOfPeer(_ code: Int32) -> Bool {
        switch code {
        case ECONNABORTED, ECONNRESET, EPROTO, EPERM, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH,
            EOPNOTSUPP, ENETUNREACH, ETIMEDOUT:
            true
        default: false
        }
    }

    /// Stops listening; a waiting `accept` returns `nil`.
    ///
    /// Must be called on the loop.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        file?.remove()
        if let channel {
            channel.close()
        } else {
            Glibc.close(descriptor)
        }
    }
}
