import Glibc
import Synchronization
import Transport

/// A TCP server on 127.0.0.1 that says what it is told, byte for byte, to each connection in turn.
final class RawServer: Sendable {
    /// What it does once it has a request head.
    enum Step {
        case send(String)
        case sendBytes([UInt8])
        /// Waits until the client closes.
        case wait
        /// Closes with a reset.
        case reset
    }

    private final class Heads: Sendable {
        let list = Mutex<[String]>([])
    }

    let port: UInt16
    private let listener: Int32
    private let pool: BlockingPool
    private let heads: Heads
    private let running: Task<Void, Never>

    /// - Parameter connections: The steps of each connection; after the last, none is accepted any more.
    /// - Throws: `SystemError` when there is no port.
    init(_ connections: [[Step]]) throws {
        let pool = BlockingPool(threads: 1, label: "raw-server")
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                bind(listener, raw, size) == 0 && listen(listener, 128) == 0 && getsockname(listener, raw, &size) == 0
            }
        }
        guard bound else { throw SystemError("bind", errno: errno) }
        self.listener = listener
        self.pool = pool
        port = UInt16(bigEndian: address.sin_port)
        let heads = Heads()
        self.heads = heads
        running = Task {
            await pool.run {
                for steps in connections {
                    let connection = accept(listener, nil, nil)
                    if connection < 0 { return }
                    Self.serve(connection, steps) { head in heads.list.withLock { $0.append(head) } }
                }
            }
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    /// The heads of the requests so far.
    var requests: [String] { heads.list.withLock { $0 } }

    /// Returns when all connections are served.
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
