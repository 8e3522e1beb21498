import Dispatch
import HTTPServer
import HTTPWire
import SluiceTesting
import Synchronization
import Testing

/// All connections of these tests are on one loop.
@Suite("Tasks that serve requests", .timeLimit(.minutes(10)))
struct RequestWorkersTests {
    /// Lets everyone pass when enough are waiting.
    private final class Gate: Sendable {
        private let waiting = Mutex<[CheckedContinuation<Void, Never>]>([])
        private let count: Int

        init(opensFor count: Int) { self.count = count }

        func pass() async {
            await withCheckedContinuation { continuation in
                let all = waiting.withLock { waiting in
                    waiting.append(continuation)
                    return waiting.count == count ? waiting : []
                }
                for waiter in all { waiter.resume() }
            }
        }
    }

    /// More than the tasks that are kept for later requests.
    private static let clients = 160

    @Test("requests that wait hold up no other, although all arrived at once; twice on each connection")
    func waiting() async throws {
        let gate = Gate(opensFor: Self.clients)
        let next = Gate(opensFor: Self.clients)
        let mayGoOn = DispatchSemaphore(value: 0)
        let server = try TestServer(loops: 1) { request in
            switch request.head.target.rawPath {
            case "/block": Self.block(mayGoOn)
            case "/first": await gate.pass()
            case "/second": await next.pass()
            default: break
            }
            return .text(request.head.target.rawPath)
        }
        let blocker = try RawClient(port: server.port)
        let clients = try (0..<Self.clients).map { _ in try RawClient(port: server.port) }
        for client in clients {
            try await client.send("GET /connected HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(try await client.readResponse().text == "/connected")
        }
        try await blocker.send("GET /block HTTP/1.1\r\nHost: x\r\n\r\n")
        for client in clients { try await client.send("GET /first HTTP/1.1\r\nHost: x\r\n\r\n") }
        // The loop sees all these requests at once.
        mayGoOn.signal()
        #expect(try await blocker.readResponse().text == "/block")
        for client in clients { #expect(try await client.readResponse().text == "/first") }
        for client in clients { try await client.send("GET /second HTTP/1.1\r\nHost: x\r\n\r\n") }
        for client in clients { #expect(try await client.readResponse().text == "/second") }
        await server.shutDown()
        #expect(server.connectionCount == 0)
    }

    private static func block(_ semaphore: DispatchSemaphore) { semaphore.wait() }
}
