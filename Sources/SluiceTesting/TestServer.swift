internal import Bytes
internal import HTTPServer
package import HTTPWire
internal import Synchronization
internal import SystemIO
internal import Transport

/// A real HTTP server on 127.0.0.1 that imitates a cloud service.
///
/// Instance metadata, container agents and token services cannot run here; the responses are taken from their
/// documentation.
package final class TestServer: Sendable {
    /// A request as received.
    package struct Call: Sendable {
        package var method: String
        package var path: String
        /// Still percent-encoded; can be empty.
        package var query: String
        package var fields: HTTPFields
        package var body: String

        /// The value of a field.
        package func field(_ name: String) -> String? { FieldName(name).flatMap { fields[$0] } }
    }

    package struct Reply: Sendable {
        package var status: Int
        package var body: String
        package var fields: [(String, String)]

        package init(_ status: Int, _ body: String = "", _ fields: [(String, String)] = []) {
            (self.status, self.body, self.fields) = (status, body, fields)
        }
    }

    private final class Record: Sendable {
        let calls = Mutex<[Call]>([])
    }

    package let port: UInt16
    private let record: Record
    private let server: HTTPServer
    private let loops: EventLoopGroup
    private let running: Task<Void, Never>

    /// - Parameter response: Called with each request and the number of requests before it.
    /// - Throws: `SystemError` if no port is available.
    package init(_ response: @escaping @Sendable (Call, Int) async -> Reply) throws {
        let record = Record()
        self.record = record
        loops = try EventLoopGroup(count: 1)
        let server = try HTTPServer(
            address: SocketAddress(host: "127.0.0.1", port: 0),
            tls: nil,
            configuration: ServerConfiguration(),
            loops: loops,
            pool: BlockingPool(threads: 2, label: "test"),
            handler: Handler(record: record, response: response),
            observer: Nobody()
        )
        self.server = server
        port = server.address.port
        running = Task { await server.run() }
    }

    package var url: String { "http://127.0.0.1:\(port)" }

    package var calls: [Call] { record.calls.withLock { $0 } }

    package func shutDown() async {
        await server.shutDown()
        await running.value
        await loops.close()
    }

    private struct Handler: RequestHandler {
        let record: Record
        let response: @Sendable (Call, Int) async -> Reply

        func respond(to request: Request) async -> Response {
            let body = (try? await request.body.collect(limit: 1 << 20)) ?? []
            let call = Call(
                method: request.head.method.rawValue,
                path: request.head.target.rawPath,
                query: request.head.target.rawQuery ?? "",
                fields: request.head.fields,
                body: String(decoding: body, as: UTF8.self)
            )
            let number = record.calls.withLock { calls in
                calls.append(call)
                return calls.count - 1
            }
            let response = await response(call, number)
            var fields = HTTPFields()
            for (name, value) in response.fields { if let name = FieldName(name) { fields.append(name, value) } }
            return Response(Status(response.status), fields, .bytes(Array(response.body.utf8)))
        }
    }

    private struct Nobody: ServerObserver {
        func connectionOpened() {}
        func connectionClosed() {}
        func requestFinished(_ summary: RequestSummary) {}
    }
}
