import Glibc
import Synchronization
import SystemIO

/// A TCP server on 127.0.0.1 that sends given bytes on each connection in turn.
final class RawServer: Sendable {
    /// What it does after it has received a request head.
    enum Step {
        case send(String)
        case sendBytes([UInt8])
        /// Waits until the client closes the connection.
        case wait
        /// Closes the connection with a reset.
        case reset
    }

    private final class Heads: Sendable {
        let list = Mutex<[String]>([])
    }

    private let listener: ListeningSocket
    private let pool: BlockingPool
    private let heads: Heads
    private let running: Task<Void, Never>

    /// - Parameter connections: The steps of each connection; after the last one it accepts no more.
    /// - Throws: `SystemError` if there is no free port.
    init(_ connections: [[Step]]) throws {
        let pool = BlockingPool(threads: 1, label: "raw-server")
        let listener = try ListeningSocket()
        self.listener = listener
        self.pool = pool
        let heads = Heads()
        self.heads = heads
        running = Task {
            await pool.run {
                for steps in connections {
                    guard let connection = listener.accept() else { return }
                    Self.serve(connection, steps) { head in heads.list.withLock { $0.append(head) } }
                }
            }
        }
    }

    deinit { listener.end() }

    var port: UInt16 { listener.port }

    /// The heads of the requests so far.
    var requests: [String] { heads.list.withLock { $0 } }

    /// Returns when all connections have been served.
    func finish() async { await running.value }

    private static func serve(_ connection: Int32, _ steps: [Step], _ record: (String) -> Void) {
        defer { close(connection) }
        var limit = timeval(tv_sec: 300, tv_usec: 0)
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var head: [UInt8] = []
        var byte: UInt8 = 0
        while !head.suffix(4).elementsEqual([13, 10, 13, 10]) {
            guard recv(connection, &byte, 1, 0) == 1 else { return }
            head.append(byte)
        }
        record(String(decoding: head, as: UTF8.self))
        for step in steps {
            switch step {
            case .send(let text): write(connection, Array(text.utf8))
            case .sendBytes(let bytes): write(connection, bytes)
            case .wait: while recv(connection, &byte, 1, 0) == 1 {}
            case .reset:
                var option = linger(l_onoff: 1, l_linger: 0)
                setsockopt(connection, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
                return
            }
        }
    }

    private static func write(_ connection: Int32, _ bytes: [UInt8]) {
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes { raw in
                send(connection, raw.baseAddress.map { $0 + offset }, bytes.count - offset, Int32(MSG_NOSIGNAL))
            }
            if count <= 0 { return }
            offset += count
        }
    }
}
