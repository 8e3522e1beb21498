import HTTPServer
import HTTPWire
import Signing
import Synchronization
import SystemIO
import Testing
import Transport
import UploadModel

@testable import Callbacks

@Suite("Sending callbacks", .timeLimit(.minutes(10)))
struct CallbackClientTests {
    /// An app on its own port with a fixed response.
    private final class App: RequestHandler, ServerObserver {
        private let response: Response
        private let heads = Mutex<[RequestHead]>([])

        init(_ response: Response) { self.response = response }

        var calls: [RequestHead] { heads.withLock { $0 } }

        func respond(to request: Request) async -> Response {
            heads.withLock { $0.append(request.head) }
            return response
        }

        func connectionOpened() {}
        func connectionClosed() {}
        func requestFinished(_ summary: RequestSummary) {}
    }

    /// An app that answers at `/slow` only when it is told to.
    private final class SlowApp: RequestHandler, ServerObserver {
        private let state = Mutex((waiting: 0, isOpen: false))

        var waiting: Int { state.withLock { $0.waiting } }

        func open() { state.withLock { $0.isOpen = true } }

        func respond(to request: Request) async -> Response {
            if request.head.target.rawPath == "/slow" {
                state.withLock { $0.waiting += 1 }
                while !state.withLock({ $0.isOpen }) { await Task.yield() }
            }
            return Response(200, ["Content-Type": "application/json"], .bytes(Array("{}".utf8)))
        }

        func connectionOpened() {}
        func connectionClosed() {}
        func requestFinished(_ summary: RequestSummary) {}
    }

    @Test("callbacks of one user leave places for those of others")
    func turns() async throws {
        let app = SlowApp()
        let loops = try EventLoopGroup(count: 1)
        let server = try HTTPServer(
            address: SocketAddress(host: "127.0.0.1", port: 0),
            tls: nil,
            configuration: ServerConfiguration(),
            loops: loops,
            pool: BlockingPool(threads: 1, label: "test"),
            handler: app,
            observer: app
        )
        let running = Task { await server.run() }
        let place = "127.0.0.1:\(server.address.port)"
        let client = CallbackClient(
            [try #require(CallbackHost(place))],
            signer: WebhookSigner(key: [UInt8](repeating: 1, count: 32)),
            clock: SystemClock(),
            limit: .seconds(600),
            maximumCalls: 2
        ) { _ in }
        let send = { @Sendable (subject: String, path: String) async -> Bool in
            let type = "application/json"
            var message = CallbackMessage(id: "msg_1", host: nil, contentType: type, content: [0x7B, 0x7D])
            message.subject = subject
            return (try? await client.send(message, to: "http://\(place)\(path)")) != nil
        }
        let slow = (0..<3).map { _ in Task { await send("eve", "/slow") } }
        while app.waiting == 0 { await Task.yield() }
        for _ in 0..<3 { #expect(await send("bob", "/")) }
        #expect(app.waiting == 1)
        app.open()
        for task in slow { #expect(await task.value) }
        client.close()
        await server.shutDown()
        await running.value
        await loops.close()
    }

    /// The outcome of a callback to an app with this response.
    ///
    /// - Parameters:
    ///   - host: As in the settings, with `0` for the port of the app.
    ///   - url: With `0` for the port of the app.
    ///   - response: The app's response.
    ///   - named: The host that the client names.
    /// - Returns: The response or the failure, and the requests that the app received.
    /// - Throws: If the app cannot be started.
    private func call(
        _ host: String,
        _ url: String,
        _ response: Response = Response(200, ["Content-Type": "application/json"], .bytes(Array("{}".utf8))),
        naming named: String? = nil
    ) async throws -> (Result<CallbackResponse, CallbackFailure>, [RequestHead]) {
        let app = App(response)
        let loops = try EventLoopGroup(count: 1)
        let server = try HTTPServer(
            address: SocketAddress(host: "127.0.0.1", port: 0),
            tls: nil,
            configuration: ServerConfiguration(),
            loops: loops,
            pool: BlockingPool(threads: 1, label: "test"),
            handler: app,
            observer: app
        )
        let running = Task { await server.run() }
        let port = String(server.address.port)
        let client = CallbackClient(
            [try #require(CallbackHost(host.replacing(":0", with: ":" + port)))],
            signer: WebhookSigner(key: [UInt8](repeating: 1, count: 32)),
            clock: SystemClock(),
            // This test is not about timing.
            limit: .seconds(600)
        ) { _ in }
        let target = url.replacing(":0", with: ":" + port)
        #expect(client.problem(with: target) == nil)
        let message = CallbackMessage(id: "msg_1", host: named, contentType: "application/json", content: [0x7B, 0x7D])
        let result: Result<CallbackResponse, CallbackFailure>
        do throws(CallbackFailure) {
            result = .success(try await client.send(message, to: target))
        } catch {
            result = .failure(error)
        }
        client.close()
        await server.shutDown()
        await running.value
        await loops.close()
        return (result, app.calls)
    }

    @Test("a callback is a signed POST without data about the client")
    func request() async throws {
        let (result, calls) = try await call("127.0.0.1:0", "http://127.0.0.1:0/a%20b?c=d", naming: "app.example")
        #expect(result == .success(CallbackResponse(status: 200, length: 2, body: [0x7B, 0x7D])))
        let head = try #require(calls.first)
        #expect(calls.count == 1 && head.method == .post && head.fields["Host"] == "app.example")
        #expect(head.target.rawPath == "/a%20b" && head.target.rawQuery == "c=d")
        let names = Set(head.fields.entries.indices.map { head.fields.name(at: $0).lowercased() })
        #expect(
            names == [
                "host", "user-agent", "accept", "content-type", "content-length", "webhook-id", "webhook-timestamp",
                "webhook-signature",
            ]
        )
        #expect(head.fields["webhook-id"] == "msg_1" && head.fields["Content-Type"] == "application/json")
    }

    @Test("a redirect is not followed")
    func redirect() async throws {
        let (result, calls) = try await call("127.0.0.1:0", "http://127.0.0.1:0/", Response(307, ["Location": "/x"]))
        #expect(result == .success(CallbackResponse(status: 307, length: 0, body: [])) && calls.count == 1)
    }

    @Test("a response over 1 MiB is refused")
    func tooLarge() async throws {
        let content = [UInt8](repeating: 0x20, count: CallbackResponse.maximumBytes + 1)
        let (result, _) = try await call("127.0.0.1:0", "http://127.0.0.1:0/", Response(200, [:], .bytes(content)))
        #expect(result == .failure(.tooLarge))
    }

    @Test("without a response, the failure says why")
    func noResponse() async throws {
        let (result, calls) = try await call("127.0.0.1:0", "https://127.0.0.1:0/")
        let reason = "the TLS handshake failed, or the certificate of the host is not valid"
        #expect(result == .failure(.noResponse(reason)) && calls.isEmpty)
    }

    @Test("for hosts that match a wildcard, only public addresses are connected to")
    func privateAddress() async throws {
        let (result, calls) = try await call("*.localhost:0", "http://a.localhost:0/")
        #expect(result == .failure(.unreachable) && calls.isEmpty)
        #expect(try await call("a.localhost:0", "http://a.localhost:0/").1.count == 1)
    }

    @Test("URLs of other hosts, with passwords, or of no host at all are refused")
    func problems() throws {
        let host = try #require(CallbackHost("app.example.com"))
        let signer = WebhookSigner(key: [UInt8](repeating: 1, count: 32))
        let client = CallbackClient([host], signer: signer, clock: SystemClock()) { _ in }
        #expect(client.problem(with: "http://app.example.com/é") == .malformed)
        for url in [
            "http://u:p@app.example.com/", "http://u@app.example.com/", "http:///x", "http://", "/x",
            "ftp://app.example.com/", "http://app.example.com:x/",
        ] {
            #expect(client.problem(with: url) == .malformed, "\(url)")
        }
        #expect(client.problem(with: "http://other.example.com/") == .notAllowed)
        #expect(client.problem(with: "https://app.example.com/a?b=c") == nil)
        #expect(client.mayName(host: "APP.example.com:81") && !client.mayName(host: "other.example.com"))
        #expect(!client.mayName(host: "app.example.com\r\nX: y"))
    }
}
