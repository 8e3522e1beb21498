import Dispatch
import HTTPClient
import HTTPServer
import Synchronization
import Testing
import Transport

/// Streamed content.
@Suite("HTTP uploads", .timeLimit(.minutes(10)))
struct HTTPUploadTests {
    private let client = HTTPClient(userAgent: "test", maximumThreads: 4, addresses: .any)

    private func request(_ port: UInt16, _ content: any HTTPRequestContent, _ path: String = "/") -> HTTPClientRequest {
        // Longer than any delay on a busy machine.
        var request = HTTPClientRequest(
            method: "PUT",
            url: "http://127.0.0.1:\(port)\(path)",
            timeout: .seconds(300),
            connectTimeout: .seconds(300)
        )
        request.content = content
        return request
    }

    private func failure(_ request: HTTPClientRequest, _ client: HTTPClient? = nil) async -> HTTPClientError? {
        do throws(HTTPClientError) {
            _ = try await (client ?? self.client).send(request)
            return nil
        } catch {
            return error
        }
    }

    private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    private static func length(_ head: String) -> Int? {
        head.split(separator: "\r\n").first { $0.hasPrefix("Content-Length: ") }.flatMap { Int($0.dropFirst(16)) }
    }

    /// Responds to every request with its content, and counts the connections.
    private static func echo() throws -> SocketServer {
        try SocketServer { peer, _ in
            while let head = peer.head(), let length = length(head) {
                let content = peer.read(length)
                guard content.count == length else { return }
                peer.write("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n")
                peer.write(content)
            }
        }
    }

    // MARK: What is sent

    @Test("content of a known length is sent in pieces with pauses")
    func pieces() async throws {
        let heads = Mutex<[String]>([])
        let server = try SocketServer { peer, _ in
            guard let head = peer.head() else { return }
            heads.withLock { $0.append(head) }
            let content = peer.read(300_000)
            peer.write("HTTP/1.1 200 OK\r\nContent-Length: \(content.count)\r\n\r\n")
            peer.write(content)
        }
        let whole = PatternContent.bytes(300_000)
        let content = PiecedContent(whole.count)
        var request = request(server.port, content)
        request.headers = [("X-A", "1"), ("Content-Length", "300000")]
        async let sent = client.send(request)
        for start in stride(from: 0, to: whole.count, by: 1000) {
            if start % 50_000 == 0 { await content.paused(at: start) }
            content.append(whole[start..<(start + 1000)])
        }
        let response = try await sent
        #expect(response.body == whole)
        let lines = try #require(heads.withLock { $0.first }).split(separator: "\r\n").map(String.init)
        #expect(lines.first == "PUT / HTTP/1.1")
        #expect(
            lines.dropFirst().sorted() == [
                "Accept: */*", "Content-Length: 300000", "Host: 127.0.0.1:\(server.port)", "User-Agent: test", "X-A: 1",
            ]
        )
    }

    @Test("20 MiB and empty content arrive unchanged, with PUT and POST", arguments: [20 << 20, 1, 0])
    func whole(_ count: Int) async throws {
        let server = try Self.echo()
        for method in ["PUT", "POST"] {
            var request = request(server.port, PatternContent(count))
            request.method = method
            request.maximumResponseBytes = count + 1
            let response = try await client.send(request)
            #expect(response.status == 200)
            #expect(response.body == PatternContent.bytes(count))
        }
        #expect(server.connections == 1)
    }

    @Test("64 uploads run at once")
    func many() async throws {
        let server = try Self.echo()
        let client = HTTPClient(userAgent: "test", keptConnections: 64, maximumThreads: 4, addresses: .any)
        let whole = PatternContent.bytes(400_000)
        let contents = (0..<64).map { _ in PiecedContent(whole.count) }
        let right = await withTaskGroup(of: Bool.self) { group in
            for content in contents {
                group.addTask {
                    (try? await client.send(request(server.port, content)).body) == whole
                }
                group.addTask {
                    for start in stride(from: 0, to: whole.count, by: 40_000) {
                        content.append(whole[start..<(start + 40_000)])
                        await Task.yield()
                    }
                    return true
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(right == 128)
    }

    @Test("superfluous, early, nested and late wakes do no harm")
    func wakes() async throws {
        let server = try Self.echo()
        let content = PiecedContent(10)
        async let sent = client.send(request(server.port, content))
        for _ in 0..<100 { content.wake() }
        await content.paused(at: 0)
        for _ in 0..<100 { content.wake() }
        content.append(0..<10)
        #expect(try await sent.body == Array(0..<10))
        for _ in 0..<100 { content.wake() }
        #expect(try await client.send(request(server.port, PatternContent(3))).status == 200)
    }

    // MARK: Responses that come early

    @Test(
        "an early refusal is the response, and the rest of the content is not sent",
        arguments: [(403, true), (403, false), (503, true), (503, false)]
    )
    func refusedWhilePaused(_ status: Int, _ closes: Bool) async throws {
        let server = try SocketServer { peer, number in
            guard peer.head() != nil else { return }
            if number > 0 { return peer.write(Self.ok) }
            _ = peer.read(5)
            peer.write("HTTP/1.1 \(status) No\r\nContent-Length: 4\r\n\r\nwhy?")
            if !closes { peer.readAll() }
        }
        let content = PiecedContent(1 << 20)
        content.append(0..<5)
        let response = try await client.send(request(server.port, content))
        #expect(response.status == status && response.body == Array("why?".utf8))
        content.append(0..<5)
        // Unsent content would be missing, so the connection is not reused.
        #expect(try await client.send(request(server.port, PatternContent(0))).status == 200)
        #expect(server.connections == 2)
    }

    @Test("a refusal reaches a client that continues sending")
    func refusedWhileSending() async throws {
        let server = try SocketServer { peer, _ in
            guard peer.head() != nil else { return }
            _ = peer.read(300_000)
            peer.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nwhy?")
            peer.readAll()
        }
        for _ in 0..<20 {
            let response = try await client.send(request(server.port, PatternContent(50 << 20)))
            #expect(response.status == 403 && response.body == Array("why?".utf8))
        }
    }

    /// Closing with unread content resets the connection (RFC 9112 §9.6).
    ///
    /// Bytes that are sent between the check for a response and the reset fail, so not every response can be received.
    @Test("most refusals of a server that resets reach the client, the others are failed connections")
    func refusedAndReset() async throws {
        let server = try SocketServer { peer, _ in
            guard peer.head() != nil else { return }
            _ = peer.read(300_000)
            peer.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nwhy?")
        }
        var responses = 0
        for _ in 0..<20 {
            do throws(HTTPClientError) {
                let response = try await client.send(request(server.port, PatternContent(50 << 20)))
                #expect(response.status == 403 && response.body == Array("why?".utf8))
                responses += 1
            } catch {
                #expect(error == .connection)
            }
        }
        #expect(responses > 10)
    }

    @Test("after an early 200 the content is sent to its end")
    func acceptedEarly() async throws {
        let got = Mutex<[UInt8]>([])
        let server = try SocketServer { peer, _ in
            guard peer.head() != nil else { return }
            peer.write(Self.ok)
            let content = peer.read(10)
            got.withLock { $0 = content }
        }
        let content = PiecedContent(10)
        async let sent = client.send(request(server.port, content))
        await content.paused(at: 0)
        content.append(0..<4)
        await content.paused(at: 4)
        content.append(4..<10)
        #expect(try await sent.status == 200)
        while got.withLock({ $0.isEmpty }) { await Task.yield() }
        #expect(got.withLock { $0 } == Array(0..<10))
    }

    // MARK: Failures

    @Test("a server that closes in the middle is reported", arguments: [true, false])
    func cut(_ resets: Bool) async throws {
        let server = try SocketServer { peer, _ in
            _ = peer.head()
            _ = peer.read(100_000)
            if resets { peer.resetOnClose() }
        }
        #expect(await failure(request(server.port, PatternContent(50 << 20))) == .connection)
        #expect(server.connections == 1)
    }

    @Test("failed content closes its connection, at once or after a pause")
    func contentFails() async throws {
        let missing = Mutex<[Int]>([])
        let server = try SocketServer { peer, _ in
            guard let head = peer.head(), let length = Self.length(head) else { return }
            let content = peer.read(length)
            missing.withLock { $0.append(length - content.count) }
        }
        let failed = PiecedContent(10)
        failed.fail()
        #expect(await failure(request(server.port, failed)) == .contentFailed)
        let content = PiecedContent(10)
        content.append(0..<4)
        let result = Task { await failure(request(server.port, content)) }
        await content.paused(at: 4)
        content.fail()
        #expect(await result.value == .contentFailed)
        while missing.withLock({ $0.count }) < 2 { await Task.yield() }
        #expect(missing.withLock { $0.sorted() } == [6, 10])
    }

    @Test("cancelling and closing end a request while the content pauses", arguments: [true, false])
    func ended(_ cancels: Bool) async throws {
        let isClosed = Mutex(false)
        let server = try SocketServer { peer, _ in
            _ = peer.head()
            peer.readAll()
            isClosed.withLock { $0 = true }
        }
        let content = PiecedContent(10)
        content.append(0..<4)
        let result = Task { await failure(request(server.port, content)) }
        await content.paused(at: 4)
        if cancels { result.cancel() } else { client.close() }
        #expect(await result.value == (cancels ? .cancelled : .stopped))
        while !isClosed.withLock({ $0 }) { await Task.yield() }
        content.append(4..<10)
    }

    @Test("the content is released when the request has ended")
    func letGo() async throws {
        let server = try Self.echo()
        weak var content: PiecedContent?
        do {
            let made = PiecedContent(10)
            content = made
            made.append(0..<10)
            _ = try await client.send(request(server.port, made))
        }
        while content != nil { await Task.yield() }
    }

    @Test("a pause is not a stall, but it counts against the total timeout")
    func pauseIsNoStall() async throws {
        let server = try Self.echo()
        let end = DispatchSemaphore(value: 0)
        defer { for _ in 0..<3 { end.signal() } }
        let stalling = try SocketServer { peer, _ in
            _ = peer.head()
            end.wait()
        }
        let content = PiecedContent(10)
        content.append(0..<4)
        var request = request(server.port, content)
        request.stallTimeout = .seconds(1)
        let response = Task { [request] in try await client.send(request).body }
        await content.paused(at: 4)
        // The pause is longer than three stalls that the same client detects meanwhile, one after the other.
        var stalled = self.request(stalling.port, PatternContent(50 << 20))
        stalled.stallTimeout = .seconds(1)
        for _ in 0..<3 { #expect(await failure(stalled) == .timedOut) }
        content.append(4..<10)
        #expect(try await response.value == Array(0..<10))

        let stuck = PiecedContent(10)
        request.content = stuck
        request.timeout = .seconds(2)
        #expect(await failure(request) == .timedOut)
        await stuck.paused(at: 0)
    }

    @Test("a server that reads nothing is a stall, also after a pause")
    func stall() async throws {
        let end = DispatchSemaphore(value: 0)
        defer { for _ in 0..<2 { end.signal() } }
        let server = try SocketServer { peer, _ in
            _ = peer.head()
            end.wait()
        }
        var request = request(server.port, PatternContent(50 << 20))
        request.stallTimeout = .seconds(1)
        #expect(await failure(request) == .timedOut)
        let content = PiecedContent(50 << 20)
        request.content = content
        let result = Task { [request] in await failure(request) }
        await content.paused(at: 0)
        content.append([UInt8](repeating: 7, count: 40 << 20))
        #expect(await result.value == .timedOut)
    }

    // MARK: Sent again

    @Test("content is sent again if the server had closed the reused connection", arguments: [0, 100_000])
    func stale(_ taken: Int) async throws {
        let got = Mutex<[[UInt8]]>([])
        let whole = PatternContent.bytes(5 << 20)
        let server = try SocketServer { peer, number in
            while let head = peer.head(), let length = Self.length(head) {
                // The first connection dies in the middle of its second request.
                if number == 0, length > 3 {
                    _ = peer.read(taken)
                    return peer.resetOnClose()
                }
                let content = peer.read(length)
                got.withLock { $0.append(content) }
                peer.write(Self.ok)
            }
        }
        #expect(try await client.send(request(server.port, PatternContent(3))).status == 200)
        let content = PiecedContent(whole.count)
        content.append(whole)
        #expect(try await client.send(request(server.port, content)).status == 200)
        #expect(got.withLock { $0.map(\.count) } == [3, whole.count])
        #expect(got.withLock { $0.last } == whole)
        // If no byte was sent, the connection may have ended before the content was read.
        #expect(content.starts == 2 || taken == 0)
        #expect(server.connections == 2)
    }

    @Test("a request on a new connection is not repeated")
    func notAgain() async throws {
        let server = try SocketServer { peer, _ in
            _ = peer.head()
            peer.resetOnClose()
        }
        #expect(await failure(request(server.port, PatternContent(5 << 20))) == .connection)
        #expect(server.connections == 1)
    }

    @Test("a redirect gets the content again from the start, unless it leads to a GET", arguments: [307, 308, 303])
    func redirect(_ status: Int) async throws {
        let requests = Mutex<[String]>([])
        let server = try SocketServer { peer, _ in
            while let head = peer.head() {
                let line = String(head.prefix { $0 != "\r\n" })
                if head.contains(" /a ") {
                    requests.withLock { $0.append(line) }
                    return peer.write("HTTP/1.1 \(status) Else\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n")
                }
                let content = peer.read(Self.length(head) ?? 0)
                let isRight = content == PatternContent.bytes(content.count)
                requests.withLock { $0.append("\(line) \(content.count) \(isRight)") }
                peer.write(Self.ok)
            }
        }
        var request = request(server.port, PatternContent(1 << 20), "/a")
        request.maximumRedirects = 1
        #expect(try await client.send(request).status == 200)
        let second = status == 303 ? "GET /b HTTP/1.1 0 true" : "PUT /b HTTP/1.1 1048576 true"
        #expect(requests.withLock { $0 } == ["PUT /a HTTP/1.1", second])
    }

    // MARK: Expect

    @Test("with Expect the content waits for 100 Continue or the timeout; after a refusal it is not sent")
    func expect() async throws {
        let heads = Mutex<[String]>([])
        let server = try SocketServer { peer, number in
            guard let head = peer.head() else { return }
            heads.withLock { $0.append(head) }
            switch number {
            case 0: peer.write("HTTP/1.1 100 Continue\r\n\r\n")
            case 1: return peer.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            default: break
            }
            let content = peer.read(10)
            peer.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: \(content.count)\r\n\r\n")
            peer.write(content)
        }
        for (number, wait) in [Duration.seconds(300), .seconds(300), .milliseconds(20)].enumerated() {
            let content = PiecedContent(10)
            content.append(0..<10)
            var request = request(server.port, content)
            request.expectsContinue = wait
            let response = try await client.send(request)
            #expect(response.status == (number == 1 ? 403 : 200))
            #expect(response.body == (number == 1 ? [] : Array(0..<10)))
            #expect(content.starts == (number == 1 ? 0 : 1))
        }
        #expect(heads.withLock { $0.allSatisfy { $0.contains("\r\nExpect: 100-continue\r\n") } })
    }

    @Test("for a server that does not support Expect the request is repeated without it")
    func expectationFailed() async throws {
        let server = try SocketServer { peer, _ in
            while let head = peer.head() {
                if head.contains("Expect") {
                    peer.write("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 3\r\n\r\nno!")
                    continue
                }
                let content = peer.read(10)
                peer.write("HTTP/1.1 200 OK\r\nContent-Length: \(content.count)\r\n\r\n")
                peer.write(content)
            }
        }
        var request = request(server.port, PatternContent(10))
        request.expectsContinue = .seconds(300)
        let response = try await client.send(request)
        #expect(response.status == 200 && response.body == PatternContent.bytes(10))
    }

    // MARK: Refusals

    @Test("refuses fields that contradict the content")
    func refused() async {
        var body = request(1, PatternContent(3))
        body.body = [1]
        var head = request(1, PatternContent(3))
        head.method = "HEAD"
        for request in [body, head, request(1, PatternContent(-1))] {
            #expect(await failure(request) == .badRequest("streamed content must not be combined with a body or HEAD"))
        }
        for header in [("Content-Length", "4"), ("transfer-encoding", "chunked"), ("Expect", "100-continue")] {
            var request = request(1, PatternContent(3))
            request.headers = [header]
            guard case .badRequest = await failure(request) else {
                Issue.record("\(header)")
                continue
            }
        }
    }
}
