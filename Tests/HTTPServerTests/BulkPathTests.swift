import Bytes
import HTTPServer
import HTTPWire
import SluiceTesting
import Synchronization
import SystemIO
import Testing

@testable import Transport

/// What a fast upload asks of the kernel besides moving its bytes.
@Suite("Fast uploads into a file", .timeLimit(.minutes(10)))
struct BulkPathTests {
    private struct Handler: RequestHandler {
        let file: OpenFile
        let pool: BlockingPool

        func respond(to request: Request) async -> Response {
            guard request.head.method == .put else { return .text("small") }
            let outcome = await request.body.transfer(to: file, at: 0, limit: .max, on: pool)
            return .text("\(outcome.moved) \(outcome.end)")
        }
    }

    private final class Bench: Sendable {
        let calls = ScriptedCalls()
        let file = ScratchFile()
        let port: UInt16
        private let server: HTTPServer
        private let loops: EventLoopGroup
        private let running: Task<Void, Never>

        init() throws {
            loops = EventLoopGroup([EventLoop(label: "test", readiness: try EpollSet(), calls: calls)])
            let pool = BlockingPool(threads: 2, label: "test", calls: calls)
            let server = try HTTPServer(
                address: SocketAddress(host: "127.0.0.1", port: 0),
                tls: nil,
                configuration: ServerConfiguration.patient,
                loops: loops,
                pool: pool,
                handler: Handler(file: file.file, pool: pool),
                observer: TestServer.Recorder()
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
    }

    private static func head(_ count: Int) -> [UInt8] {
        Array("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: \(count)\r\n\r\n".utf8)
    }

    /// Sends a content with a pause in its middle, again and again until the machine was quick enough for it to be fast.
    private func upload(_ bytes: [UInt8], to bench: Bench, until isFast: () -> Bool) async throws {
        let client = try RawClient(port: bench.port)
        for _ in 0..<100 {
            bench.file.empty()
            try await client.send(Self.head(bytes.count) + bytes[..<(bytes.count / 2)])
            while bench.file.size < bytes.count / 2 { await Task.yield() }
            try await client.send(Array(bytes[(bytes.count / 2)...]))
            #expect(try await client.readResponse().text == "\(bytes.count) endOfSource")
            #expect(bench.file.bytes == bytes)
            try await client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(try await client.readResponse().text == "small")
            if isFast() { return }
        }
        Issue.record("no content of 100 was received fast")
    }

    @Test("disk blocks are set aside while bytes come fast; nothing depends on it", arguments: [false, true])
    func blocks(fails: Bool) async throws {
        let bench = try Bench()
        if fails { bench.calls.plan(0, of: "fallocate", .fails(28), times: .max) }
        try await upload(pattern(10_000_000), to: bench) { bench.calls.names.contains("fallocate") }
        await bench.shutDown()
    }
}
