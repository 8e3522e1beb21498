import Foundation
import Glibc
import Synchronization
import SystemIO

/// A TCP server on 127.0.0.1; a closure serves each connection on its own thread.
final class SocketServer: Sendable {
    private let listener: ListeningSocket
    private let accepted: Accepted

    private final class Accepted: Sendable {
        let count = Mutex(0)
    }

    /// - Parameter serve: Called for each connection with its number, from 0; the connection closes when it returns.
    /// - Throws: `SystemError` if there is no free port.
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

    /// Number of connections so far.
    var connections: Int { accepted.count.withLock { $0 } }

    /// One connection; used only by its thread.
    final class Peer {
        private let connection: Int32
        private var buffered: [UInt8] = []

        fileprivate init(_ connection: Int32) {
            self.connection = connection
            // Longer than any test, so that every thread ends.
            var limit = timeval(tv_sec: 300, tv_usec: 0)
            setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
            setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        }

        /// Reads up to and including the empty line; `nil` if the client closed the connection before it.
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

        /// Reads this many bytes, or fewer if the client closed the connection.
        func read(_ count: Int) -> [UInt8] {
            while buffered.count < count, receive() {}
            let read = Array(buffered.prefix(count))
            buffered.removeFirst(read.count)
            return read
        }

        /// Reads until the client has closed the connection.
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

        /// Closes the connection so that later bytes cause a reset.
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
