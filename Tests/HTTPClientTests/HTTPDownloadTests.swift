import Bytes
import HTTPClient
import HTTPServer
import HTTPWire
import Synchronization
import Testing

/// Content that is pulled while it arrives.
@Suite("HTTP downloads", .timeLimit(.minutes(10)))
struct HTTPDownloadTests {
    private let client = HTTPClient(userAgent: "test", maximumThreads: 4, addresses: .any)

    private func request(_ port: UInt16) -> HTTPClientRequest {
        HTTPClientRequest(url: "http://127.0.0.1:\(port)/", timeout: .zero, connectTimeout: .seconds(300))
    }

    private static func pattern(_ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
    }

    @Test("everything arrives in order, whatever the size of the pulls", arguments: [1 << 20, 1000, 70_000])
    func whole(_ maximum: Int) async throws {
        let content = Self.pattern(5 << 20)
        let server = try RawServer([
            [.send("HTTP/1.1 200 OK\r\nContent-Length: \(content.count)\r\n\r\n"), .sendBytes(content)]
        ])
        let download = try await client.open(request(server.port))
        #expect(download.head.status == 200 && download.remaining == Int64(content.count))
        var all: [UInt8] = []
        while let piece = try await download.next(maximum: maximum) {
            #expect((1...maximum).contains(piece.count))
            all += piece
            #expect(download.remaining == Int64(content.count - all.count))
        }
        #expect(all == content)
        #expect(try await download.next(maximum: 1) == nil)
    }

    @Test("at most a bounded buffer is read ahead of demand")
    func backPressure() async throws {
        let sent = Mutex(0)
        let server = try TestServer { _ in
            Response(
                200,
                [:],
                .stream(length: nil) { sink in
                    let piece = [UInt8](repeating: 7, count: 1 << 20)
                    for _ in 0..<64 {
                        try await sink.write(piece)
                        sent.withLock { $0 += 1 }
                    }
                    return HTTPFields()
                }
            )
        }
        let download = try await client.open(request(server.port))
        // Until the server has stalled for a while: both socket buffers and the client's buffer are full.
        var last = -1
        while sent.withLock({ $0 }) != last {
            last = sent.withLock { $0 }
            try await Task.sleep(for: .milliseconds(300))
        }
        #expect(last < 32)
        var count = 0
        while let piece = try await download.next(maximum: 256 << 10) { count += piece.count }
        #expect(count == 64 << 20)
        client.close()
        await server.shutDown()
    }

    @Test("bytes that arrived before the connection broke are returned before the failure")
    func cut() async throws {
        let server = try RawServer([
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n"), .sendBytes(Self.pattern(300_000))]
        ])
        let download = try await client.open(request(server.port))
        var count = 0
        do throws(SourceFailure) {
            while let piece = try await download.next(maximum: 10_000) { count += piece.count }
            Issue.record("ended well")
        } catch {
            #expect(error == .disconnected)
        }
        #expect(count == 300_000)
        #expect(download.failure == .connection)
        await #expect(throws: SourceFailure.disconnected) { try await download.next(maximum: 1) }
    }

    @Test(
        "an interrupter ends a waiting pull from another task",
        arguments: [SourceFailure.interrupted, .shuttingDown]
    )
    func interrupt(_ failure: SourceFailure) async throws {
        let server = try RawServer([[.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), .wait]])
        let download = try await client.open(request(server.port))
        var come = 0
        while come < 3 { come += try await download.next(maximum: 10)?.count ?? 0 }
        let interrupter = download.interrupter
        async let interruption: Void = Task.detached { interrupter.interrupt(as: failure) }.value
        await #expect(throws: failure) { try await download.next(maximum: 10) }
        await interruption
        await #expect(throws: failure) { try await download.next(maximum: 10) }
        await server.finish()
    }

    @Test("a released download is ended")
    func forgotten() async throws {
        let server = try RawServer([[.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), .wait]])
        do { _ = try await client.open(request(server.port)).head }
        // Ends: the connection is closed.
        await server.finish()
    }

    @Test("closing the client ends a paused download")
    func closeWhilePaused() async throws {
        let server = try RawServer([
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n"), .sendBytes(Self.pattern(8_000_000)), .wait]
        ])
        let download = try await client.open(request(server.port))
        client.close()
        do throws(SourceFailure) {
            while try await download.next(maximum: 1 << 20) != nil {}
            Issue.record("ended well")
        } catch {
            #expect(error == .shuttingDown)
        }
        await server.finish()
    }
}
