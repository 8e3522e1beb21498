import Bytes
import Foundation
import Glibc
import HTTPServer
import HTTPWire
import SluiceTesting
import Synchronization
import SystemIO
import Testing

@testable import Transport

/// One loop, one connection that always has more to read, and another one.
@Suite("Fairness between connections", .timeLimit(.minutes(10)))
struct FairnessTests {
    struct Flood: Sendable, CustomTestStringConvertible {
        let name: String
        /// Comes once.
        let start: String
        /// Comes for ever.
        let piece: String

        var testDescription: String { name }
    }

    private static let fields = "HTTP/1.1\r\nHost: x\r\n"

    private static let floods = [
        Flood(name: "content", start: "POST /take \(fields)Content-Length: 1000000000000000\r\n\r\n", piece: " "),
        Flood(name: "chunks", start: "POST /take \(fields)Transfer-Encoding: chunked\r\n\r\n", piece: "1\r\n \r\n"),
        Flood(name: "unread content", start: "POST / \(fields)Content-Length: 1000000000000000\r\n\r\n", piece: " "),
        Flood(name: "requests", start: "", piece: "GET / \(fields)\r\n"),
    ]

    /// Reads the content of requests for `/take`.
    private struct Handler: RequestHandler {
        func respond(to request: Request) async -> Response {
            if request.head.target.rawPath == "/take" {
                do { while try await request.body.next(maximum: 65_536) != nil {} } catch { return .text("cut off") }
            }
            return .text("whole")
        }
    }

    private final class Flag: Sendable {
        private let contents = Mutex(false)

        var isSet: Bool { contents.withLock { $0 } }

        func set() { contents.withLock { $0 = true } }
    }

    @Test("a connection that always has more to read does not keep others from being served", arguments: floods)
    func others(_ flood: Flood) async throws {
        signal(SIGPIPE, SIG_IGN)
        let (calls, isServed, hasEnded) = (ScriptedCalls(), Flag(), Flag())
        calls.flood(Array(flood.piece.utf8), after: flood.start.utf8.count) { !isServed.isSet && !hasEnded.isSet }
        // Only so that the test ends if others are kept from being served.
        let end = Task {
            try await Task.sleep(for: .seconds(60))
            hasEnded.set()
        }
        defer { end.cancel() }
        let loops = EventLoopGroup([EventLoop(label: "test", readiness: try EpollSet(), calls: calls)])
        let server = try HTTPServer(
            address: SocketAddress(host: "127.0.0.1", port: 0),
            tls: nil,
            configuration: ServerConfiguration.patient,
            loops: loops,
            pool: BlockingPool.ofTests,
            handler: Handler(),
            observer: TestServer.Recorder()
        )
        let running = Task { await server.run() }
        let flooder = try RawClient(port: server.address.port)
        try await flooder.send(flood.start + String(repeating: flood.piece, count: 65_536 / flood.piece.utf8.count))
        while calls.floodedReads < 10, !hasEnded.isSet { await Task.yield() }
        let other = try RawClient(port: server.address.port)
        try await other.send("GET / \(Self.fields)\r\n")
        #expect(try await other.readResponse().text == "whole")
        isServed.set()
        #expect(!hasEnded.isSet, "the other was served only when the flood had ended")
        flooder.reset()
        await server.shutDown()
        await running.value
        await loops.close()
    }
}
