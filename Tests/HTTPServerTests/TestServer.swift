import Bytes
import Foundation
import HTTPServer
import HTTPWire
import Synchronization
import SystemIO
import Transport

/// A server with its own port, for one test.
final class TestServer: Sendable {
    let port: UInt16
    let observer = Recorder()
    private let server: HTTPServer
    private let loops: EventLoopGroup
    private let running: Task<Void, Never>

    init(
        loops count: Int = 2,
        configure: (inout ServerConfiguration) -> Void = { _ in },
        refusals: ServerRefusal.Writer? = nil,
        handler: @escaping @Sendable (Request) async -> Response
    ) throws {
        signal(SIGPIPE, SIG_IGN)
        var configuration = ServerConfiguration.patient
        configure(&configuration)
        loops = try EventLoopGroup(count: count)
        let server = try HTTPServer(
            address: SocketAddress(host: "127.0.0.1", port: 0),
            tls: nil,
            configuration: configuration,
            loops: loops,
            pool: BlockingPool(threads: 4, label: "test"),
            handler: ClosureHandler(closure: handler),
            observer: observer,
            refusals: refusals
        )
        self.server = server
        port = server.address.port
        running = Task { await server.run() }
    }

    var connectionCount: Int { server.connectionCount }

    /// Waits until connections have lost their tasks this many times.
    func parked(_ count: UInt64) async throws {
        while server.parkedConnections < count { try await Task.sleep(for: .milliseconds(2)) }
    }

    func shutDown() async {
        await server.shutDown()
        await running.value
        await loops.close()
    }

    struct ClosureHandler: RequestHandler {
        let closure: @Sendable (Request) async -> Response

        func respond(to request: Request) async -> Response { await closure(request) }
    }

    final class Recorder: ServerObserver {
        private let summaries = Mutex<[RequestSummary]>([])
        private let connections = Mutex((now: 0, most: 0))

        var all: [RequestSummary] { summaries.withLock { $0 } }
        /// The maximum number of concurrent connections.
        var mostConnections: Int { connections.withLock { $0.most } }

        func connectionOpened() {
            connections.withLock {
                $0.now += 1
                $0.most = max($0.most, $0.now)
            }
        }

        func connectionClosed() { connections.withLock { $0.now -= 1 } }
        func requestFinished(_ summary: RequestSummary) { summaries.withLock { $0.append(summary) } }
    }
}

extension ServerConfiguration {
    /// Without timeouts that a slow client could exceed: tests share a busy machine with hundreds of others.
    static var patient: ServerConfiguration {
        var configuration = ServerConfiguration()
        configuration.headTimeout = .seconds(300)
        configuration.idleTimeout = .seconds(300)
        configuration.bodyTimeout = .seconds(300)
        configuration.writeTimeout = .seconds(300)
        configuration.shutdownGrace = .seconds(300)
        configuration.drainTimeout = .seconds(300)
        configuration.lingerTimeout = .seconds(300)
        configuration.lingerIdleTimeout = .seconds(300)
        return configuration
    }
}

extension BlockingPool {
    /// Writes the files of tests.
    static let ofTests = BlockingPool(threads: 4, label: "test-files")
}

extension Response {
    static func text(_ text: String, _ status: Status = 200) -> Response {
        Response(status, ["Content-Type": "text/plain"], .bytes(Array(text.utf8)))
    }
}

/// Responds with the received content, or with what ended it.
func echo(_ request: Request) async -> Response {
    do throws(SourceFailure) {
        let body = try await request.body.collect(limit: 64 << 20)
        var response = Response(200, ["Content-Type": "application/octet-stream"], .bytes(body))
        if let trailer = request.body.trailers["X-Digest"] { response.fields["X-Trailer"] = trailer }
        return response
    } catch {
        return .text("\(error)", 400)
    }
}

/// A file that is removed with the test.
final class ScratchFile: Sendable {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("sluice-\(UUID().uuidString)").path
    let descriptor: Int32

    init(_ bytes: [UInt8] = []) {
        descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        _ = bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, bytes.count, 0) }
    }

    /// The same file, to pass on.
    var file: OpenFile { OpenFile(owning: dup(descriptor)) }

    var bytes: [UInt8] { FileManager.default.contents(atPath: path).map { [UInt8]($0) } ?? [] }

    var size: Int {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? Int(status.st_size) : 0
    }

    func empty() { ftruncate(descriptor, 0) }

    deinit {
        close(descriptor)
        unlink(path)
    }
}

/// Bytes without short repetitions, the same in each run.
func pattern(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    // The initialiser writes the count into the one empty array that all threads share: the thread sanitizer reports it.
    if count == 0 { return [] }
    var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, size in
        for index in 0..<count {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            buffer[index] = UInt8(truncatingIfNeeded: state)
        }
        size = count
    }
}
