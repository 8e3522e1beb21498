internal import Glibc
internal import SystemIO

/// A TCP client for tests that sends exactly the given bytes.
///
/// Each call ends within 5 minutes, so that a fault ends the run, although tests on a busy machine may wait long.
///
/// Calls block threads of their own pool: the few threads of Swift's default executor are for the tests.
///
/// Invariant for `@unchecked`: only one reader uses `buffer`; another thread may send meanwhile.
package final class RawClient: @unchecked Sendable {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// A response as received: the head, then the content according to its framing.
    package struct Reply {
        package var status: Int
        /// Status line and fields, without the empty line.
        package var head: String
        package var body: [UInt8]

        package var text: String { String(decoding: body, as: UTF8.self) }

        /// The first value of a field; the name is case-insensitive.
        package func field(_ name: String) -> String? {
            for line in head.split(separator: "\r\n").dropFirst() {
                guard let colon = line.firstIndex(of: ":") else { continue }
                if line[..<colon].lowercased() == name.lowercased() {
                    return String(line[line.index(after: colon)...].drop { $0 == " " })
                }
            }
            return nil
        }
    }

    private static let pool = BlockingPool(threads: 64, label: "raw-client")

    private let descriptor: Int32
    private var buffer: [UInt8] = []

    package init(port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var limit = timeval(tv_sec: 300, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let descriptor = self.descriptor
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if result != 0 { throw Failure(description: "connect: \(String(cString: strerror(errno)))") }
    }

    deinit {
        close(descriptor)
    }

    package func send(_ text: String) async throws { try await send(Array(text.utf8)) }

    package func send(_ bytes: [UInt8]) async throws {
        try await Self.pool.run(throwing: { try self.sendNow(bytes) })
    }

    private func sendNow(_ bytes: [UInt8]) throws {
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                Glibc.send(
                    descriptor,
                    buffer.baseAddress.map { $0 + offset },
                    bytes.count - offset,
                    Int32(MSG_NOSIGNAL)
                )
            }
            if count < 0 { throw Failure(description: "send: \(String(cString: strerror(errno)))") }
            offset += count
        }
    }

    /// Closes the connection with a TCP reset.
    package func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    package func shutDownWriting() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Reads until the server closes the connection.
    package func readToEnd() async throws -> [UInt8] {
        try await Self.pool.run(throwing: { try self.readToEndNow() })
    }

    private func readToEndNow() throws -> [UInt8] {
        while try fill() {}
        defer { buffer = [] }
        return buffer
    }

    /// Whether the server has closed the connection and all data was read.
    package func isAtEnd() async throws -> Bool {
        try await Self.pool.run(throwing: { try self.isAtEndNow() })
    }

    private func isAtEndNow() throws -> Bool {
        if !buffer.isEmpty { return false }
        return try !fill()
    }

    /// Reads up to and including the empty line that ends a head.
    package func readHead() async throws -> String {
        try await Self.pool.run(throwing: { try self.readHeadNow() })
    }

    private func readHeadNow() throws -> String {
        let end = Array("\r\n\r\n".utf8)
        var scanned = 0
        while true {
            if buffer.count >= 4 {
                for index in max(0, scanned - 3)...(buffer.count - 4) where Array(buffer[index..<index + 4]) == end {
                    let head = String(decoding: buffer[..<index], as: UTF8.self)
                    buffer.removeFirst(index + 4)
                    return head
                }
            }
            scanned = buffer.count
            if try !fill() { throw Failure(description: "the connection ended inside a head") }
        }
    }

    /// Reads one final response; skips interim responses.
    ///
    /// - Parameter isHead: Whether it responds to a HEAD request, and so has no content.
    /// - Returns: The response with its whole content.
    /// - Throws: `Failure` if the connection closes before.
    package func readResponse(isHead: Bool = false) async throws -> Reply {
        try await Self.pool.run(throwing: { try self.readResponseNow(isHead: isHead) })
    }

    private func readResponseNow(isHead: Bool) throws -> Reply {
        while true {
            let head = try readHeadNow()
            let parts = head.split(separator: " ", maxSplits: 2)
            guard parts.count >= 2, let status = Int(parts[1]) else {
                throw Failure(description: "no status line: \(head)")
            }
            if status < 200 { continue }
            var response = Reply(status: status, head: head, body: [])
            if isHead || status == 204 || status == 304 { return response }
            if let length = response.field("Content-Length").flatMap({ Int($0) }) {
                response.body = try readNow(length)
            } else if response.field("Transfer-Encoding") == "chunked" {
                response.body = try readChunked()
            } else {
                response.body = try readToEndNow()
            }
            return response
        }
    }

    package func read(_ count: Int) async throws -> [UInt8] {
        try await Self.pool.run(throwing: { try self.readNow(count) })
    }

    private func readNow(_ count: Int) throws -> [UInt8] {
        while buffer.count < count {
            if try !fill() {
                throw Failure(description: "the connection ended after \(buffer.count) of \(count) bytes")
            }
        }
        defer { buffer.removeFirst(count) }
        return Array(buffer[..<count])
    }

    private func readLine() throws -> String {
        var line: [UInt8] = []
        while true {
            let byte = try readNow(1)[0]
            line.append(byte)
            if byte == 10 { return String(decoding: line.dropLast(2), as: UTF8.self) }
        }
    }

    private func readChunked() throws -> [UInt8] {
        var body: [UInt8] = []
        while true {
            guard let size = Int(try readLine(), radix: 16) else { throw Failure(description: "no chunk size") }
            if size == 0 { break }
            body += try readNow(size)
            _ = try readLine()
        }
        while try !readLine().isEmpty {}
        return body
    }

    /// - Returns: `false` when the connection is closed or reset.
    private func fill() throws -> Bool {
        var piece = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &piece, piece.count, 0)
        if count < 0 {
            if errno == ECONNRESET { return false }
            throw Failure(description: "recv: \(String(cString: strerror(errno)))")
        }
        buffer.append(contentsOf: piece[..<count])
        return count > 0
    }
}
