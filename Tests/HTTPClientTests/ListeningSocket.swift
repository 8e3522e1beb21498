import Glibc
import Synchronization
import SystemIO

/// A socket that listens on a free port of 127.0.0.1.
///
/// It is closed when the last reference is released, not when it ends: otherwise a thread that is about to accept could
/// accept on the next server's socket with the same number.
final class ListeningSocket: Sendable {
    let port: UInt16
    private let descriptor: Int32
    private let ended = Mutex(false)

    /// - Throws: `SystemError` if there is no free port.
    init() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                bind(descriptor, raw, size) == 0 && listen(descriptor, 128) == 0
                    && getsockname(descriptor, raw, &size) == 0
            }
        }
        guard bound else {
            let number = errno
            close(descriptor)
            throw SystemError("bind", errno: number)
        }
        self.descriptor = descriptor
        port = UInt16(bigEndian: address.sin_port)
    }

    deinit { close(descriptor) }

    /// Waits for a connection; `nil` once the socket has ended.
    func accept() -> Int32? {
        while true {
            let connection = Glibc.accept(descriptor, nil, nil)
            if connection >= 0 { return connection }
            if ended.withLock({ $0 }) { return nil }
            usleep(1000)
        }
    }

    /// Wakes waiting threads.
    func end() {
        ended.withLock { $0 = true }
        shutdown(descriptor, Int32(SHUT_RDWR))
    }
}
