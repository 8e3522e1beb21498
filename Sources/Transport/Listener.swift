internal import CSystem
internal import Glibc

/// A listening TCP socket on one event loop.
///
/// Invariant for `@unchecked`: `channel` is set once, before anything else can see the listener, and used on its loop.
package final class Listener: @unchecked Sendable {
    /// A connection that was taken: a non-blocking descriptor, which the receiver must close, and who it is.
    package struct Accepted: Sendable {
        package let descriptor: Int32
        package let peer: SocketAddress
    }

    package let address: SocketAddress
    package let loop: EventLoop
    private let descriptor: Int32
    private var channel: Channel?
    private var isClosed = false

    /// Binds and listens.
    ///
    /// - Parameters:
    ///   - address: Port 0 lets the system choose; `self.address` tells which it chose.
    ///   - loop: Where connections are accepted.
    ///   - backlog: Connections that may wait in the kernel.
    /// - Throws: The failure of `socket`, `bind` or `listen`.
    package init(_ address: SocketAddress, loop: EventLoop, backlog: Int32 = 1024) throws(SystemError) {
        let family = address.host.contains(":") ? AF_INET6 : AF_INET
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        descriptor = try SystemError.check("socket") { socket(family, type, 0) }
        self.loop = loop
        do throws(SystemError) {
            var on: Int32 = 1
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
            let descriptor = self.descriptor
            try address.withSockaddr { pointer, size throws(SystemError) in
                _ = try SystemError.check("bind") { bind(descriptor, pointer, size) }
            }
            try SystemError.check("listen") { listen(descriptor, backlog) }
            var storage = sockaddr_storage()
            var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let result = withUnsafeMutablePointer(to: &storage) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
            }
            guard result == 0, let bound = SocketAddress(storage) else {
                throw SystemError("getsockname", errno: errno)
            }
            self.address = bound
        } catch {
            Glibc.close(descriptor)
            throw error
        }
    }

    /// The next connection; `nil` once the listener is closed.
    ///
    /// On the loop.
    package func accept() async -> Accepted? {
        if isClosed { return nil }
        if channel == nil { channel = try? Channel(descriptor: descriptor, loop: loop, tls: nil) }
        guard let channel else { return nil }
        while !isClosed {
            var storage = sockaddr_storage()
            var size = UInt32(MemoryLayout<sockaddr_storage>.size)
            let accepted = csys_accept(descriptor, &storage, &size)
            if accepted >= 0 {
                _ = csys_tcp_nodelay(accepted)
                if let peer = SocketAddress(storage) { return Accepted(descriptor: accepted, peer: peer) }
                Glibc.close(accepted)
                continue
            }
            var deadline = Nanoseconds.max
            switch errno {
            case EAGAIN, EWOULDBLOCK: channel.willReadElsewhere()
            case EINTR, ECONNABORTED, EPROTO, EPERM: continue
            case EMFILE, ENFILE, ENOBUFS, ENOMEM:
                // No descriptor to be had: those who wait stay in the kernel's queue until some are given back.
                channel.willReadElsewhere()
                deadline = MonotonicClock.deadline(after: .milliseconds(200))
            default: return nil
            }
            do throws(Channel.WaitFailure) {
                try await channel.waitReadable(until: deadline)
            } catch {
                if error != .timedOut { return nil }
            }
        }
        return nil
    }

    /// Stops listening; a waiting `accept` returns `nil`.
    ///
    /// On the loop.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        if let channel {
            channel.close()
        } else {
            Glibc.close(descriptor)
        }
    }
}
