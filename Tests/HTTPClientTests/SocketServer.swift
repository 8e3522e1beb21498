import Foundation
import Glibc
import Synchronization

/// A TCP server on 127.0.0.1 whose every connection is served by a closure on a thread of its own.
final class SocketServer: Sendable {
    private let listener: ListeningSocket
    private let accepted: Accepted

    private final class Accepted: Sendable {
        let count = Mutex(0)
    }

    /// - Parameter serve: Called for each connection with its number, from 0; the connection closes when it returns.
    /// - Throws: `SystemError` when there is no port.
    init(_ serve: @escaping @Sendable (Peer, Int) -> Void) throws {
        let listener = try ListeningSocket()
        let accepted = Accepted()
        self.listener = listener
        self.accepted = accepted
        Thread.detachNewThread {
            while let connection = listener.accept() {
                let number = accepted.count.withLock { count in
                    count += 1
                    return count - 1
                }
                Thread.detachNewThread {
                    let peer = Peer(connection)
                    serve(peer, number)
                    peer.end()
                }
            }
        }
    }

    deinit { listener.end() }

    var port: UInt16 { listener.port }

    /// Connections so far.
    var connections: Int { accepted.count.withLock { $0 } }

    /// One connection; used by its thread only.
    final class Peer {
        private let connection: Int32
        private var buffered: [UInt8] = []

        fileprivate init(_ connection: Int32) {
            self.connection = connection
            // Longer than any test, so that no thread stays.
            var limit = timeval(tv_sec: 300, tv_usec: 0)
            setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
            setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        }

        /// Up to the empty line, with it; `nil` when the client closed before.
        func head() -> String? {
            let end: [UInt8] = [13, 10, 13, 10]
            while true {
                if buffered.count >= 4 {
                    for start in 0...(buffered.count - 4) where buffered[start..<(start + 4)].elementsEqual(end) {
                        let head = String(decoding: buffered[..<(start + 4)], as: UTF8.self)
                        buffered.removeFirst(start + 4)
                        return head
                    }
                }
                guard receive() else { return nil }
            }
        }

        /// So many bytes, or fewer when the client closed.
        func read(_ count: Int) -> [UInt8] {
            while buffered.count < count, receive() {}
            let read = Array(buffered.prefix(count))
            buffered.removeFirst(read.count)
            return read
        }

        /// Until the client has closed.
        func readAll() { while receive() { buffered = [] } }

        func write(_ text: String) { write(Array(text.utf8)) }

        func write(_ bytes: [UInt8]) {
            var offset = 0
            while offset < bytes.count {
                let count = bytes.withUnsafeBytes { raw in
                    Glibc.send(
                        connection,
                        raw.baseAddress.map { $0 + offset },
                        bytes.count - offset,
                        Int32(MSG_NOSIGNAL)
                    )
                }
                if count <= 0 { return }
                offset += count
            }
        }

        /// What comes after it is answered with a reset.
        func resetOnClose() {
            var option = linger(l_onoff: 1, l_linger: 0)
            setsockopt(connection, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        }

        private func receive() -> Bool {
            var room = [UInt8](repeating: 0, count: 256 << 10)
            let count = recv(connection, &room, room.count, 0)
            guard count > 0 else { return false }
            buffered += room[..<count]
            return true
        }

        fileprivate func end() { close(connection) }
    }
}
