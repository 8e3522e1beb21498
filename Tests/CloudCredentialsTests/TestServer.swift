import Bytes
import HTTPServer
import HTTPWire
import Synchronization
import Transport

/// A real HTTP server on 127.0.0.1 that plays a service of AWS.
///
/// The metadata of an instance, the agent of a container and the token service can not be run here; what they answer is taken
/// from their documentation.
final class TestServer: Sendable {
    /// A request as it came.
    struct Call: Sendable {
        var method: String
        var path: String
        var fields: HTTPFields
        var body: String
    }

    struct Answer: Sendable {
        var status: Int
        var body: String

        init(_ status: Int, _ body: String = "") { (self.status, self.body) = (status, body) }
    }

    private final class Record: Sendable {
        let calls = Mutex<[Call]>([])
    }

    let port: UInt16
    private let record: Record
    private let server: HTTPServer
    private let loops: EventLoopGroup
    private let running: Task<Void, Never>

    /// - Parameter answer: Asked with each request and how many came before it.
    /// - Throws: `SystemError` when there is no port.
    init(_ answer: @escaping @Sendable (Call, Int) async -> Answer) throws {
        let record = Record()
        self.record = record
        loops = try EventLoopGroup(count: 1)
        let server = try HTTPServer(
            address: SocketAddress(host: "127.0.0.1", port: 0),
            tls: nil,
            configuration: ServerConfiguration(),
            loops: loops,
            pool: BlockingPool(threads: 2, label: "test"),
            handler: Handler(record: record, answer: answer),
            observer: Nobody()
        )
        self.server = server
        port = server.address.port
        running = Task { await server.run() }
    }

    var url: String { "http://127.0.0.1:\(port)" }

    var calls: [Call] { record.calls.withLock { $0 } }

    func shutDown() async {
        await server.shutDown()
        await running.value
        await loops.close()
    }

    private struct Handler: RequestHandler {
        let record: Record
        let answer: @Sendable (Call, Int) async -> Answer

        func respond(to request: Request) async -> Response {
            let body = (try? await request.body.collect(limit: 1 << 20)) ?? []
            let call = Call(
                method: request.head.method.rawValue,
                path: request.head.target.rawPath,
                fields: request.head.fields,
                body: String(decoding: body, as: UTF8.self)
            )
            let number = record.calls.withLock { calls in
                calls.append(call)
                return calls.count - 1
            }
            let answer = await answer(call, number)
            return Response(Status(answer.status), HTTPFields(), .bytes(Array(answer.body.utf8)))
        }
    }

    private struct Nobody: ServerObserver {
        func connectionOpened() {}
        func connectionClosed() {}
        func requestFinished(_ summary: RequestSummary) {}
    }
}
