import HTTPServer
import HTTPWire
import SystemIO
import Transport

/// A server with its own port, for one test.
final class TestServer: Sendable {
    let port: UInt16
    private let server: HTTPServer
    private let loops: EventLoopGroup
    private let running: Task<Void, Never>

    init(handler: @escaping @Sendable (Request) async -> Response) throws {
        loops = try EventLoopGroup(count: 1)
        let server = try HTTPServer(
            address: SocketAddress(host: "127.0.0.1", port: 0),
            tls: nil,
            configuration: ServerConfiguration(),
            loops: loops,
            pool: BlockingPool(threads: 2, label: "test"),
            handler: ClosureHandler(closure: handler),
            observer: Nobody()
        )
        self.server = server
        port = server.address.port
        running = Task { await server.run() }
    }

    func shutDown() async {
        await server.shutDown()
        await running.value
        await loops.close()
    }

    private struct ClosureHandler: RequestHandler {
        let closure: @Sendable (Request) async -> Response

        func respond(to request: Request) async -> Response { await closure(request) }
    }

    private struct Nobody: ServerObserver {
        func connectionOpened() {}
        func connectionClosed() {}
        func requestFinished(_ summary: RequestSummary) {}
    }
}
