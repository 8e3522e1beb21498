import Bytes
import Foundation
import HTTPServer
import HTTPWire
import SluiceTesting
import Synchronization
import SystemIO
import Testing
import Transport

@Suite("limits, timeouts and ambiguous requests", .timeLimit(.minutes(10)))
struct LimitTests {
    @Test(
        "an ambiguous or malformed head is refused with its status, and the connection ends",
        arguments: [
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            ("GET / HTTP/1.1\nHost: a\n\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: \u{1}\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            ("GET /" + String(repeating: "a", count: 9000) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "a", count: 70_000) + "\r\n\r\n", 431),
            ("GET / HTTP/1.1\r\nHost: a\r\n" + String(repeating: "X: a\r\n", count: 101) + "\r\n", 431),
        ]
    )
    func refused(head: String, status: Int) async throws {
        let server = try TestServer { _ in .text("served") }
        let client = try RawClient(port: server.port)
        try await client.send(head)
        let response = try await client.readResponse()
        #expect(response.status == status)
        #expect(response.field("Content-Type") == "application/problem+json")
        let document = try JSONSerialization.jsonObject(with: Data(response.body)) as? [String: Any]
        #expect(document?["status"] as? Int == status)
        #expect((document?["detail"] as? String)?.isEmpty == false)
        #expect(try await client.isAtEnd())
        // The next client is served.
        let next = try RawClient(port: server.port)
        try await next.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try await next.readResponse().text == "served")
        await server.shutDown()
    }

    @Test("a listener can have its own form of such errors")
    func ownForm() async throws {
        let server = try TestServer(
            configure: { $0.maximumBodyBytes = 3 },
            refusals: {
                let seen =
                    $0.head.map { "\($0.method) \($0.target.rawPath)" } ?? String(decoding: $0.received, as: UTF8.self)
                return Response(
                    $0.status,
                    ["Content-Type": "text/x"],
                    .bytes(Array("\($0.requestID.isEmpty) \(seen)".utf8))
                )
            },
            handler: { _ in .text("served") }
        )
        for (head, status, text) in [
            ("GET / HTTP/1.1\r\nx-a: 1\r\nHost : a\r\n\r\n", 400, "false GET / HTTP/1.1\r\nx-a: 1\r\nHost : a\r\n\r\n"),
            ("PUT /k HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd", 413, "false PUT /k"),
            ("GET /" + String(repeating: "a", count: 9000) + " HTTP/1.1\r\n\r\n", 414, nil),
        ] as [(String, Int, String?)] {
            let client = try RawClient(port: server.port)
            try await client.send(head)
            let response = try await client.readResponse()
            #expect(response.status == status && response.field("Content-Type") == "text/x")
            if let text { #expect(response.text == text) }
            #expect(response.body.count <= ServerRefusal.receivedLimit + 10)
            #expect(try await client.isAtEnd())
        }
        await server.shutDown()
    }

    @Test("an invalid chunk size ends the content with an error")
    func badChunk() async throws {
        let server = try TestServer { await echo($0) }
        let client = try RawClient(port: server.port)
        try await client.send(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5x\r\nhello\r\n0\r\n\r\n"
        )
        let response = try await client.readResponse()
        #expect(response.status == 400)
        #expect(response.text.contains("malformed"))
        #expect(try await client.isAtEnd())
        await server.shutDown()
    }

    @Test("an address has only so many connections at once; ended ones do not count, some peers have no limit")
    func connectionsOfAnAddress() async throws {
        func ask(_ client: RawClient) async throws -> String {
            try await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            return try await client.readResponse().text
        }
        let server = try TestServer(
            configure: { $0.maximumConnectionsPerAddress = 1 },
            handler: { _ in .text("served") }
        )
        for _ in 0..<2 {
            let first = try RawClient(port: server.port)
            #expect(try await ask(first) == "served")
            #expect(try await RawClient(port: server.port).isAtEnd())
            #expect(try await ask(first) == "served")
            try await first.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            #expect(try await first.readResponse().text == "served")
            #expect(try await first.isAtEnd())
            while server.connectionCount > 0 { try await Task.sleep(for: .milliseconds(2)) }
        }
        await server.shutDown()

        let range = try #require(PeerRange("127.0.0.0/8"))
        let generous = try TestServer(
            configure: {
                $0.maximumConnectionsPerAddress = 1
                $0.unlimitedPeers = [range]
            },
            handler: { _ in .text("served") }
        )
        let clients = [try RawClient(port: generous.port), try RawClient(port: generous.port)]
        for client in clients { #expect(try await ask(client) == "served") }
        await generous.shutDown()
    }

    @Test("content beyond the server's limit is refused before it is read")
    func bodyLimit() async throws {
        let server = try TestServer(configure: { $0.maximumBodyBytes = 10 }, handler: { await echo($0) })
        let declared = try RawClient(port: server.port)
        try await declared.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world")
        #expect(try await declared.readResponse().status == 413)
        let chunked = try RawClient(port: server.port)
        try await chunked.send(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n"
        )
        #expect(try await chunked.readResponse().text.contains("tooLarge"))
        await server.shutDown()
    }

    @Test("a head that does not arrive in time is refused with 408")
    func slowHead() async throws {
        let server = try TestServer(
            configure: { $0.headTimeout = .milliseconds(200) },
            handler: { _ in .text("served") }
        )
        let client = try RawClient(port: server.port)
        try await client.send("GET / HTTP/1.1\r\nHo")
        #expect(try await client.readResponse().status == 408)
        await server.shutDown()
    }

    @Test("an idle connection is closed without a response")
    func idle() async throws {
        let server = try TestServer(
            configure: { $0.idleTimeout = .milliseconds(200) },
            handler: { _ in .text("served") }
        )
        while true {
            let client = try RawClient(port: server.port)
            try? await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            // If the machine stood still, the connection was idle for too long before its request.
            guard let response = try? await client.readResponse() else { continue }
            #expect(response.status == 200)
            #expect(try await client.readToEnd().isEmpty)
            break
        }
        await server.shutDown()
    }

    @Test("a connection that was idle long enough to lose its task is still served")
    func parked() async throws {
        let server = try TestServer { await echo($0) }
        let client = try RawClient(port: server.port)
        for round in 0..<3 {
            if round > 0 { try await server.parked(UInt64(round)) }
            // Split in the middle, so that the new task has to wait, too.
            try await client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Le")
            try await client.send("ngth: 5\r\n\r\nhello")
            #expect(try await client.readResponse().text == "hello")
        }
        let silent = try RawClient(port: server.port)
        try await server.parked(4)
        await server.shutDown()
        #expect(try await client.isAtEnd())
        #expect(try await silent.isAtEnd())
        #expect(server.connectionCount == 0)
    }

    @Test("a connection whose client disconnects while it has no task is closed")
    func parkedAndLeft() async throws {
        let server = try TestServer { await echo($0) }
        do {
            let client = try RawClient(port: server.port)
            try await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.readResponse().status == 200)
            try await server.parked(1)
            #expect(server.connectionCount == 1)
        }
        while server.connectionCount > 0 { try await Task.sleep(for: .milliseconds(2)) }
        await server.shutDown()
    }

    @Test("stalled content ends with timedOut")
    func stalledBody() async throws {
        let server = try TestServer(configure: { $0.bodyTimeout = .milliseconds(200) }, handler: { await echo($0) })
        let client = try RawClient(port: server.port)
        try await client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello")
        #expect(try await client.readResponse().text == "timedOut")
        await server.shutDown()
    }

    @Test("content that arrives too slowly ends, whether it is pulled or transferred", arguments: [false, true])
    func dripping(isMoved: Bool) async throws {
        let moved = Mutex<TransferOutcome?>(nil)
        let isRunning = Mutex(false)
        let makeServer = { (timeout: Duration) in
            try TestServer(
                configure: {
                    $0.bodyTimeout = timeout
                    $0.minimumBodyRate = 1000
                },
                handler: { request in
                    isRunning.withLock { $0 = true }
                    guard isMoved else { return await echo(request) }
                    let file = OpenFile(owning: open("/dev/null", O_WRONLY))
                    let outcome = await request.body.transfer(to: file, at: 0, limit: 1_000_000, on: .ofTests)
                    moved.withLock { $0 = outcome }
                    return .text("moved")
                }
            )
        }
        // Fast enough for the elapsed time, also on a machine that stands still for a while: not cut off, although it
        // arrives in two pieces.
        let patient = try makeServer(.seconds(600))
        let quick = try RawClient(port: patient.port)
        try await quick.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
        while !isRunning.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(2)) }
        try await quick.send("llo")
        #expect(try await quick.readResponse().text == (isMoved ? "moved" : "hello"))
        if isMoved { #expect(moved.withLock { $0 } == TransferOutcome(moved: 5, end: .endOfSource)) }

        let server = try makeServer(.seconds(1))
        let slow = try RawClient(port: server.port)
        try await slow.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        let dripping = Task {
            // No pause is longer than the progress timeout, but their sum is.
            while !Task.isCancelled {
                try await Task.sleep(for: .milliseconds(20))
                try await slow.send("x")
            }
        }
        #expect(try await slow.readResponse().text == (isMoved ? "moved" : "timedOut"))
        dripping.cancel()
        if isMoved { #expect(moved.withLock { $0?.end } == .sourceFailed(.timedOut)) }
        await server.shutDown()
        await patient.shutDown()
    }

    @Test("more connections than allowed wait until one ends")
    func connectionLimit() async throws {
        let server = try TestServer(configure: { $0.maximumConnections = 2 }, handler: { _ in .text("served") })
        var clients = [try RawClient(port: server.port), try RawClient(port: server.port)]
        for client in clients {
            try await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.readResponse().status == 200)
        }
        let third = try RawClient(port: server.port)
        try await third.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        // In each of these turns the loops polled for events and could have accepted the third connection.
        for _ in 0..<50 {
            for client in clients {
                try await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(try await client.readResponse().status == 200)
            }
            #expect(server.connectionCount == 2)
        }
        clients.removeLast()
        #expect(try await third.readResponse().status == 200)
        #expect(server.observer.mostConnections == 2)
        await server.shutDown()
    }

    @Test("stopping lets a running request finish, closes idle connections, and accepts no new ones")
    func gracefulStop() async throws {
        let isRunning = Mutex(false)
        let mayEnd = Mutex(false)
        let server = try TestServer { request in
            if request.head.target.rawPath == "/slow" {
                isRunning.withLock { $0 = true }
                while !mayEnd.withLock({ $0 }) { try? await Task.sleep(for: .milliseconds(2)) }
            }
            return .text("done")
        }
        let idle = try RawClient(port: server.port)
        try await idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try await idle.readResponse().status == 200)
        let busy = try RawClient(port: server.port)
        try await busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        while !isRunning.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(2)) }
        async let stopped: Void = server.shutDown()
        #expect(try await idle.isAtEnd())
        while server.connectionCount > 1 { try await Task.sleep(for: .milliseconds(2)) }
        mayEnd.withLock { $0 = true }
        let response = try await busy.readResponse()
        #expect(response.text == "done")
        #expect(try await busy.isAtEnd())
        await stopped
        #expect(throws: RawClient.Failure.self) { try RawClient(port: server.port) }
    }

    @Test("stopping also ends while connections are being opened")
    func stopUnderConnections() async throws {
        for round in 0..<100 {
            let server = try TestServer { _ in .text("done") }
            let hammering = Task {
                while let client = try? RawClient(port: server.port) {
                    try? await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                    _ = try? await client.readResponse()
                }
            }
            while server.observer.all.count < round / 10 { await Task.yield() }
            await server.shutDown()
            #expect(server.connectionCount == 0)
            await hammering.value
        }
    }

    @Test("after the grace time, content that still arrives is cut off, and its handler keeps what it has")
    func graceOver() async throws {
        let ends = Mutex<[String]>([])
        let arrived = Mutex(0)
        let server = try TestServer(
            configure: { $0.shutdownGrace = .milliseconds(100) },
            handler: { request in
                var count = 0
                do throws(SourceFailure) {
                    while let piece = try await request.body.next(maximum: 4096) {
                        count += piece.count
                        arrived.withLock { $0 = count }
                    }
                } catch {
                    ends.withLock { $0.append("\(count) \(error)") }
                    return .text("saved", 503)
                }
                return .text("whole")
            }
        )
        let client = try RawClient(port: server.port)
        try await client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello")
        while arrived.withLock({ $0 }) < 5 { try await Task.sleep(for: .milliseconds(2)) }
        await server.shutDown()
        #expect(ends.withLock { $0 } == ["5 shuttingDown"])
        #expect(try await client.readResponse().status == 503)
    }
}
