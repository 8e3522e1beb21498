import Bytes
import Foundation
import HTTPServer
import HTTPWire
import SluiceTesting
import Synchronization
import Testing
import Transport

@Suite("limits, times and ambiguous requests")
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
        let answer = try await client.readAnswer()
        #expect(answer.status == status)
        #expect(answer.field("Content-Type") == "application/problem+json")
        let document = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
        #expect(document?["status"] as? Int == status)
        #expect((document?["detail"] as? String)?.isEmpty == false)
        #expect(try await client.isAtEnd())
        // The next client is served.
        let next = try RawClient(port: server.port)
        try await next.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try await next.readAnswer().text == "served")
        await server.shutDown()
    }

    @Test("a bad chunk size ends the content with an error")
    func badChunk() async throws {
        let server = try TestServer { await echo($0) }
        let client = try RawClient(port: server.port)
        try await client.send(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5x\r\nhello\r\n0\r\n\r\n"
        )
        let answer = try await client.readAnswer()
        #expect(answer.status == 400)
        #expect(answer.text.contains("malformed"))
        #expect(try await client.isAtEnd())
        await server.shutDown()
    }

    @Test("a content beyond the server's limit is refused before it is read")
    func bodyLimit() async throws {
        let server = try TestServer(configure: { $0.maximumBodyBytes = 10 }, handler: { await echo($0) })
        let declared = try RawClient(port: server.port)
        try await declared.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world")
        #expect(try await declared.readAnswer().status == 413)
        let chunked = try RawClient(port: server.port)
        try await chunked.send(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n"
        )
        #expect(try await chunked.readAnswer().text.contains("tooLarge"))
        await server.shutDown()
    }

    @Test("a head that does not come in time is answered 408")
    func slowHead() async throws {
        let server = try TestServer(
            configure: { $0.headTimeout = .milliseconds(200) },
            handler: { _ in .text("served") }
        )
        let client = try RawClient(port: server.port)
        try await client.send("GET / HTTP/1.1\r\nHo")
        #expect(try await client.readAnswer().status == 408)
        await server.shutDown()
    }

    @Test("an idle connection is closed without a word")
    func idle() async throws {
        let server = try TestServer(
            configure: { $0.idleTimeout = .milliseconds(200) },
            handler: { _ in .text("served") }
        )
        let client = try RawClient(port: server.port)
        try await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try await client.readAnswer().status == 200)
        #expect(try await client.readToEnd().isEmpty)
        await server.shutDown()
    }

    @Test("a connection that was idle for so long that it has no task any more is served as before")
    func parked() async throws {
        let server = try TestServer { await echo($0) }
        let client = try RawClient(port: server.port)
        for round in 0..<3 {
            if round > 0 { try await Task.sleep(for: .milliseconds(500)) }
            // Cut in the middle, so that the new task has to wait too.
            try await client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Le")
            try await client.send("ngth: 5\r\n\r\nhello")
            #expect(try await client.readAnswer().text == "hello")
        }
        let silent = try RawClient(port: server.port)
        try await Task.sleep(for: .milliseconds(500))
        await server.shutDown()
        #expect(try await client.isAtEnd())
        #expect(try await silent.isAtEnd())
        #expect(server.connectionCount == 0)
    }

    @Test("a connection whose client leaves while it has no task is given up")
    func parkedAndLeft() async throws {
        let server = try TestServer { await echo($0) }
        do {
            let client = try RawClient(port: server.port)
            try await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.readAnswer().status == 200)
            try await Task.sleep(for: .milliseconds(500))
            #expect(server.connectionCount == 1)
        }
        while server.connectionCount > 0 { try await Task.sleep(for: .milliseconds(2)) }
        await server.shutDown()
    }

    @Test("a content that stalls ends with timedOut")
    func stalledBody() async throws {
        let server = try TestServer(configure: { $0.bodyTimeout = .milliseconds(200) }, handler: { await echo($0) })
        let client = try RawClient(port: server.port)
        try await client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello")
        #expect(try await client.readAnswer().text == "timedOut")
        await server.shutDown()
    }

    @Test("a content that comes too slowly ends, whether it is pulled or moved", arguments: [false, true])
    func dripping(isMoved: Bool) async throws {
        let moved = Mutex<TransferOutcome?>(nil)
        let server = try TestServer(
            configure: {
                $0.bodyTimeout = .seconds(3)
                $0.minimumBodyRate = 1000
            },
            handler: { request in
                guard isMoved else { return await echo(request) }
                let file = open("/dev/null", O_WRONLY)
                defer { close(file) }
                let outcome = await request.body.transfer(to: file, at: 0, limit: 1_000_000)
                moved.withLock { $0 = outcome }
                return .text("moved")
            }
        )
        // Enough at once for the time that it takes: not cut off, though it comes in two pieces.
        let quick = try RawClient(port: server.port)
        try await quick.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
        try await Task.sleep(for: .milliseconds(50))
        try await quick.send("llo")
        #expect(try await quick.readAnswer().text == (isMoved ? "moved" : "hello"))
        if isMoved { #expect(moved.withLock { $0 } == TransferOutcome(moved: 5, end: .endOfSource)) }

        let slow = try RawClient(port: server.port)
        try await slow.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        let dripping = Task {
            // No pause is longer than the time without progress, but all of them together are.
            while !Task.isCancelled {
                try await Task.sleep(for: .milliseconds(20))
                try await slow.send("x")
            }
        }
        #expect(try await slow.readAnswer().text == (isMoved ? "moved" : "timedOut"))
        dripping.cancel()
        if isMoved { #expect(moved.withLock { $0?.end } == .sourceFailed(.timedOut)) }
        await server.shutDown()
    }

    @Test("more connections than allowed wait until one ends")
    func connectionLimit() async throws {
        let server = try TestServer(configure: { $0.maximumConnections = 2 }, handler: { _ in .text("served") })
        var clients = [try RawClient(port: server.port), try RawClient(port: server.port)]
        for client in clients {
            try await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.readAnswer().status == 200)
        }
        let third = try RawClient(port: server.port)
        try await third.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        try await Task.sleep(for: .milliseconds(100))
        #expect(server.observer.all.count == 2)
        clients.removeLast()
        #expect(try await third.readAnswer().status == 200)
        await server.shutDown()
    }

    @Test("stopping lets a running request finish, closes idle connections, and takes no new ones")
    func gracefulStop() async throws {
        let isRunning = Mutex(false)
        let server = try TestServer { request in
            if request.head.target.rawPath == "/slow" {
                isRunning.withLock { $0 = true }
                try? await Task.sleep(for: .milliseconds(300))
            }
            return .text("done")
        }
        let idle = try RawClient(port: server.port)
        try await idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try await idle.readAnswer().status == 200)
        let busy = try RawClient(port: server.port)
        try await busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        while !isRunning.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(2)) }
        async let stopped: Void = server.shutDown()
        let answer = try await busy.readAnswer()
        #expect(answer.text == "done")
        #expect(try await busy.isAtEnd())
        #expect(try await idle.isAtEnd())
        await stopped
        #expect(throws: RawClient.Failure.self) { try RawClient(port: server.port) }
    }

    @Test("stopping ends also while connections are being made")
    func stopUnderConnections() async throws {
        for _ in 0..<100 {
            let server = try TestServer { _ in .text("done") }
            let hammering = Task {
                while let client = try? RawClient(port: server.port) {
                    try? await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                    _ = try? await client.readAnswer()
                }
            }
            try await Task.sleep(for: .milliseconds(3))
            await server.shutDown()
            await hammering.value
        }
    }

    @Test("after the grace time a content that still comes is cut off, and its handler saves what it has")
    func graceOver() async throws {
        let ends = Mutex<[String]>([])
        let server = try TestServer(
            configure: { $0.shutdownGrace = .milliseconds(100) },
            handler: { request in
                var count = 0
                do throws(SourceFailure) {
                    while let piece = try await request.body.next(maximum: 4096) { count += piece.count }
                } catch {
                    ends.withLock { $0.append("\(count) \(error)") }
                    return .text("saved", 503)
                }
                return .text("whole")
            }
        )
        let client = try RawClient(port: server.port)
        try await client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello")
        while server.connectionCount == 0 { try await Task.sleep(for: .milliseconds(2)) }
        try await Task.sleep(for: .milliseconds(50))
        await server.shutDown()
        #expect(ends.withLock { $0 } == ["5 shuttingDown"])
        #expect(try await client.readAnswer().status == 503)
    }
}
