import Bytes
import HTTPServer
import HTTPWire
import SluiceTesting
import Synchronization
import Testing

@Suite("Responses without an end", .timeLimit(.minutes(10)))
struct EndlessResponseTests {
    /// Counts events and lets tests wait for them.
    private final class Bell: Sendable {
        private let stream = AsyncStream<Void>.makeStream()

        func ring() { stream.continuation.yield() }

        func wait() async {
            for await _ in stream.stream { return }
        }
    }

    /// Responds to `/` with one line and then nothing until the client disconnects; to anything else with its path.
    private func handler(_ over: Bell) -> @Sendable (Request) async -> Response {
        { request in
            guard request.head.target.rawPath == "/" else { return .text(request.head.target.rawPath) }
            return Response(
                200,
                [:],
                .stream(length: nil) { sink in
                    let gone = Bell()
                    try await sink.write(Array("begin".utf8))
                    sink.whenGone { gone.ring() }
                    await gone.wait()
                    over.ring()
                    return HTTPFields()
                }
            )
        }
    }

    @Test("a client that disconnects is detected at once", arguments: [true, false])
    func clientGone(byReset: Bool) async throws {
        let over = Bell()
        let server = try TestServer(handler: handler(over))
        var client: RawClient? = try RawClient(port: server.port)
        try await client?.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        _ = try await client?.readHead()
        if byReset { client?.reset() } else { client?.shutDownWriting() }
        client = nil
        await over.wait()
        await server.shutDown()
    }

    @Test("a stopping server ends the response properly without waiting")
    func stop() async throws {
        let over = Bell()
        let server = try TestServer(handler: handler(over))
        let client = try RawClient(port: server.port)
        try await client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        _ = try await client.readHead()
        async let stopped: Void = server.shutDown()
        await over.wait()
        #expect(try await String(decoding: client.readToEnd(), as: UTF8.self) == "5\r\nbegin\r\n0\r\n\r\n")
        await stopped
    }

    @Test("a request that arrives meanwhile does not end it, and is served afterwards")
    func pipelined() async throws {
        let gone = Mutex<(@Sendable () -> Void)?>(nil)
        let ready = Bell()
        let release = Bell()
        let server = try TestServer { request in
            guard request.head.target.rawPath == "/" else { return .text(request.head.target.rawPath) }
            return Response(
                200,
                [:],
                .stream(length: nil) { sink in
                    try await sink.write(Array("begin".utf8))
                    sink.whenGone { gone.withLock { $0 }?() }
                    ready.ring()
                    await release.wait()
                    return HTTPFields()
                }
            )
        }
        let wasReported = Atomic<Bool>(false)
        gone.withLock { $0 = { wasReported.store(true, ordering: .sequentiallyConsistent) } }
        let client = try RawClient(port: server.port)
        try await client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await ready.wait()
        try await client.send("GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
        release.ring()
        #expect(try await client.readResponse().text == "begin")
        #expect(try await client.readResponse().text == "/next")
        let isEarly = wasReported.load(ordering: .sequentiallyConsistent)
        #expect(!isEarly)
        await server.shutDown()
    }
}
