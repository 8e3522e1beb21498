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

/// An exchange over a real socket with a fault at each of its system calls.
@Suite("Faults of system calls of the server", .timeLimit(.minutes(10)))
struct SystemCallFaultTests {
    private static let upload = pattern(200_000)
    private static let download = pattern(300_000, seed: 2)

    /// Reports the readiness of a descriptor again when a script asks for it.
    private final class RearmingSet: ReadinessSet, Sendable {
        private let epoll: EpollSet
        private let tokens = Mutex<[Int32: UInt64]>([:])

        init() throws { epoll = try EpollSet() }

        func add(_ descriptor: Int32, token: UInt64) throws(SystemError) {
            try epoll.add(descriptor, token: token)
            tokens.withLock { $0[descriptor] = token }
        }

        func remove(_ descriptor: Int32) {
            tokens.withLock { $0[descriptor] = nil }
            epoll.remove(descriptor)
        }

        func mute(_ descriptor: Int32, token: UInt64, _ isMute: Bool) {
            epoll.mute(descriptor, token: token, isMute)
        }

        func wait(milliseconds: Int32, _ body: (UInt64, Readiness) -> Void) {
            epoll.wait(milliseconds: milliseconds, body)
        }

        func wake() { epoll.wake() }

        func rearm(_ descriptor: Int32) {
            if let token = tokens.withLock({ $0[descriptor] }) { epoll.mute(descriptor, token: token, false) }
        }
    }

    private struct Handler: RequestHandler {
        let received: ScratchFile
        let sent: OpenFile
        let pool: BlockingPool

        func respond(to request: Request) async -> Response {
            switch request.head.target.rawPath {
            case "/file": return Response(200, [:], .file(FileRegion(file: sent, offset: 0, length: 300_000)))
            case "/small": return .text("small")
            default:
                let outcome = await request.body.transfer(to: received.file, at: 0, limit: .max, on: pool)
                return .text("\(outcome.moved) \(outcome.end)")
            }
        }
    }

    /// A server whose calls fail as planned.
    private final class Bench: Sendable {
        let calls = ScriptedCalls()
        let received = ScratchFile()
        let port: UInt16
        private let source = ScratchFile(SystemCallFaultTests.download)
        private let server: HTTPServer
        private let loops: EventLoopGroup
        private let running: Task<Void, Never>

        init() throws {
            signal(SIGPIPE, SIG_IGN)
            let readiness = try RearmingSet()
            calls.afterSocketFaults { readiness.rearm($0) }
            loops = EventLoopGroup([EventLoop(label: "test", readiness: readiness, calls: calls)])
            let pool = BlockingPool(threads: 2, label: "test", calls: calls)
            let server = try HTTPServer(
                address: SocketAddress(host: "127.0.0.1", port: 0),
                tls: nil,
                configuration: ServerConfiguration.patient,
                loops: loops,
                pool: pool,
                handler: Handler(received: received, sent: source.file, pool: pool),
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

    /// What the client saw; `nil` for a response that did not arrive whole.
    private struct Seen {
        var put: String?
        var small: String?
        var file: [UInt8]?

        var isWhole: Bool {
            put == "200000 endOfSource" && small == "small" && file == SystemCallFaultTests.download
        }
    }

    private func exchange(_ bench: Bench) async -> Seen {
        var seen = Seen()
        do {
            let client = try RawClient(port: bench.port)
            let head = "PUT /put HTTP/1.1\r\nHost: x\r\nContent-Length: \(Self.upload.count)\r\n\r\n"
            try await client.send(Array(head.utf8) + Self.upload)
            seen.put = try await client.readResponse().text
            try await client.send("GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
            seen.small = try await client.readResponse().text
            try await client.send("GET /file HTTP/1.1\r\nHost: x\r\n\r\n")
            seen.file = try await client.readResponse().body
        } catch {
            // The connection has ended; what arrived whole before must be right.
        }
        return seen
    }

    struct Plan: Sendable, CustomTestStringConvertible {
        let name: String
        let fault: ScriptedCalls.Fault
        var times = 1
        /// Whether the exchange must succeed.
        var isHarmless = false

        var testDescription: String { "\(name): \(fault)\(times > 1 ? " each time" : "")" }
    }

    private static let plans: [Plan] =
        ["recv", "send", "splice in", "sendfile"].flatMap { name in
            [
                Plan(name: name, fault: .fails(EAGAIN), isHarmless: true),
                Plan(name: name, fault: .fails(EINTR), isHarmless: true),
                Plan(name: name, fault: .moves(1), isHarmless: true),
                Plan(name: name, fault: .moves(1009), times: .max, isHarmless: true),
                Plan(name: name, fault: .fails(ECONNRESET)),
                Plan(name: name, fault: .fails(EPIPE)),
            ]
        } + [
            Plan(name: "sendfile", fault: .fails(EIO)),
            Plan(name: "splice out", fault: .moves(1), isHarmless: true),
            Plan(name: "splice out", fault: .fails(EINTR), isHarmless: true),
            Plan(name: "splice out", fault: .fails(EIO)),
            Plan(name: "splice out", fault: .fails(ENOSPC)),
            Plan(name: "pwrite", fault: .moves(1), isHarmless: true),
            Plan(name: "pwrite", fault: .fails(EINTR), isHarmless: true),
            Plan(name: "pwrite", fault: .fails(EIO)),
            Plan(name: "pwrite", fault: .fails(ENOSPC)),
        ]

    @Test(
        "a response is whole and right, or the connection ends; the next connection is served",
        arguments: plans
    )
    func exchanges(plan: Plan) async throws {
        let bench = try Bench()
        #expect(await exchange(bench).isWhole)
        let count = bench.calls.names.count { $0 == plan.name }
        #expect(count > 0)
        // How often the server has to read depends on the speed of both sides.
        for index in 0..<(plan.times > 1 ? 1 : min(count, 12)) {
            bench.calls.plan(index, of: plan.name, plan.fault, times: plan.times)
            let seen = await exchange(bench)
            bench.calls.recover()
            if plan.isHarmless { #expect(seen.isWhole, "call \(index)") }
            try check(seen, plan, bench.received.bytes)
            #expect(await exchange(bench).isWhole, "after call \(index)")
        }
        await bench.shutDown()
    }

    private func check(_ seen: Seen, _ plan: Plan, _ stored: [UInt8]) throws {
        if let put = seen.put {
            let moved = try #require(Int(put.split(separator: " ")[0]))
            #expect(stored.prefix(moved).elementsEqual(Self.upload.prefix(moved)))
            let ends = ["endOfSource", "sourceFailed(Bytes.SourceFailure.disconnected)"]
            if case .fails(let errno) = plan.fault, put.contains("fileFailed") {
                #expect(put.hasSuffix("fileFailed(errno: \(errno))"))
            } else {
                #expect(ends.contains { put.hasSuffix($0) }, "\(put)")
            }
        }
        if let small = seen.small { #expect(small == "small") }
        if let file = seen.file { #expect(file == Self.download) }
    }
}
