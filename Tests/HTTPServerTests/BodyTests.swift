import Bytes
import Foundation
import HTTPServer
import HTTPWire
import SluiceTesting
import Synchronization
import SystemIO
import Testing
import Transport

@Suite("contents of requests", .timeLimit(.minutes(10)))
struct BodyTests {
    /// Transfers contents into a file and records the outcome.
    private func sink(_ file: ScratchFile, limit: Int64 = .max) throws -> TestServer {
        let target = file.file
        return try TestServer { request in
            guard request.body.supportsTransfer else { return .text("no transfer", 500) }
            let outcome = await request.body.transfer(to: target, at: 0, limit: limit, on: .ofTests)
            return .text("\(outcome.moved) \(outcome.end)")
        }
    }

    /// Reads a content, into a file if one is given, and returns how far it got and what ended it.
    private static func take(_ body: any RequestBody, into file: OpenFile?) async -> Response {
        if let file {
            let outcome = await body.transfer(to: file, at: 0, limit: .max, on: .ofTests)
            return .text("\(outcome.moved) \(outcome.end)", 423)
        }
        var count = 0
        do throws(SourceFailure) {
            while let piece = try await body.next(maximum: 262_144) { count += piece.count }
        } catch {
            return .text("\(count) sourceFailed(\(error))", 423)
        }
        return .text("whole")
    }

    @Test(
        "content is transferred into a file, even if it arrived with the head",
        arguments: [1, 100, 70_000, 5_000_000]
    )
    func transfer(size: Int) async throws {
        let file = ScratchFile()
        let server = try sink(file)
        let bytes = pattern(size)
        let client = try RawClient(port: server.port)
        try await client.send(Array("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: \(size)\r\n\r\n".utf8) + bytes)
        #expect(try await client.readResponse().text == "\(size) endOfSource")
        #expect(file.bytes == bytes)
        await server.shutDown()
    }

    @Test("a transfer does not take bytes of the next request")
    func transferThenPipelined() async throws {
        let file = ScratchFile()
        let server = try sink(file)
        let client = try RawClient(port: server.port)
        let bytes = pattern(300_000)
        let request = Array("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: \(bytes.count)\r\n\r\n".utf8) + bytes
        try await client.send(request + request + request)
        for _ in 0..<3 { #expect(try await client.readResponse().text == "300000 endOfSource") }
        #expect(file.bytes == bytes)
        await server.shutDown()
    }

    @Test("a transfer stops at its limit")
    func transferLimit() async throws {
        let file = ScratchFile()
        let server = try sink(file, limit: 200_000)
        let client = try RawClient(port: server.port)
        try await client.send(
            Array("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n".utf8) + pattern(1_000_000)
        )
        #expect(try await client.readResponse().text == "200000 limitReached")
        #expect(file.bytes == Array(pattern(1_000_000)[..<200_000]))
        await server.shutDown()
    }

    @Test("bytes that arrived before the client vanished are in the file", arguments: [false, true])
    func disconnected(byReset: Bool) async throws {
        let file = ScratchFile()
        let outcomes = Mutex<[TransferOutcome]>([])
        let target = file.file
        let server = try TestServer { request in
            let outcome = await request.body.transfer(to: target, at: 0, limit: .max, on: .ofTests)
            outcomes.withLock { $0.append(outcome) }
            return .text("late")
        }
        var client: RawClient? = try RawClient(port: server.port)
        let bytes = pattern(300_000)
        try await client?.send(Array("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n".utf8) + bytes)
        // Everything that was sent has been read, so the reset cannot destroy it.
        while file.bytes.count < bytes.count { try await Task.sleep(for: .milliseconds(2)) }
        if byReset { client?.reset() }
        client = nil
        while outcomes.withLock({ $0.isEmpty }) { try await Task.sleep(for: .milliseconds(2)) }
        #expect(outcomes.withLock { $0 } == [TransferOutcome(moved: 300_000, end: .sourceFailed(.disconnected))])
        #expect(file.bytes == bytes)
        await server.shutDown()
    }

    @Test(
        "a waiting read can be interrupted, and the interrupted client gets its response",
        arguments: [false, true]
    )
    func interrupted(byTransfer: Bool) async throws {
        let file = ScratchFile()
        let target = file.file
        let interrupter = Mutex<SourceInterrupter?>(nil)
        let server = try TestServer { request in
            interrupter.withLock { $0 = request.body.interrupter }
            return await Self.take(request.body, into: byTransfer ? target : nil)
        }
        let client = try RawClient(port: server.port)
        try await client.send(
            Array("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n".utf8) + pattern(10_000)
        )
        // Stalled: the handler waits for more.
        while interrupter.withLock({ $0 }) == nil { try await Task.sleep(for: .milliseconds(2)) }
        try await Task.sleep(for: .milliseconds(50))
        interrupter.withLock { $0 }?.interrupt()
        let response = try await client.readResponse()
        #expect(response.status == 423)
        #expect(response.text.hasSuffix("interrupted)") || response.text.contains("interrupted"))
        #expect(response.text.hasPrefix("10000 "))
        await server.shutDown()
    }

    @Test("a fast sender can be interrupted, too, and what it has sent counts", arguments: [false, true])
    func fastSenderInterrupted(byTransfer: Bool) async throws {
        let file = ScratchFile()
        let target = file.file
        let interrupter = Mutex<SourceInterrupter?>(nil)
        let server = try TestServer { request in
            interrupter.withLock { $0 = request.body.interrupter }
            return await Self.take(request.body, into: byTransfer ? target : nil)
        }
        let client = try RawClient(port: server.port)
        let piece = [UInt8](repeating: 7, count: 4 << 20)
        try await client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: \(1 << 40)\r\n\r\n")
        let sent = Mutex(0)
        // Does not pause until the server stops reading.
        async let upload: Void = {
            do {
                while true {
                    try await client.send(piece)
                    sent.withLock { $0 += piece.count }
                }
            } catch {}
        }()
        // More than the kernel keeps for both ends, so the server has taken some.
        while sent.withLock({ $0 }) < 64 << 20 { try await Task.sleep(for: .milliseconds(2)) }
        interrupter.withLock { $0 }?.interrupt()
        let response = try await client.readResponse()
        #expect(response.status == 423)
        #expect(response.text.contains("interrupted"))
        let counted = try #require(Int(response.text.prefix { $0.isNumber }))
        #expect(counted > 0)
        await server.shutDown()
        await upload
        #expect(sent.withLock { $0 } + piece.count >= counted)
    }

    @Test("a late interruption does not affect the next request")
    func lateInterruption() async throws {
        let interrupters = Mutex<[SourceInterrupter]>([])
        let server = try TestServer { request in
            interrupters.withLock { $0.append(request.body.interrupter) }
            return await echo(request)
        }
        let client = try RawClient(port: server.port)
        try await client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none")
        #expect(try await client.readResponse().text == "one")
        try await client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nt")
        while interrupters.withLock({ $0.count }) < 2 { try await Task.sleep(for: .milliseconds(2)) }
        interrupters.withLock { $0[0] }.interrupt()
        try await Task.sleep(for: .milliseconds(20))
        try await client.send("wo")
        #expect(try await client.readResponse().text == "two")
        await server.shutDown()
    }

    @Test("after content that is none, each further read fails")
    func readAfterFailure() async throws {
        let server = try TestServer { request in
            var failures: [String] = []
            for _ in 0..<2 {
                do throws(SourceFailure) {
                    while try await request.body.next(maximum: 100) != nil {}
                } catch {
                    failures.append("\(error)")
                }
            }
            return .text(failures.joined(separator: "\n"))
        }
        let client = try RawClient(port: server.port)
        try await client.send(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n5\r\nhello\r\n0\r\n\r\n"
        )
        let failures = try await client.readResponse().text.split(separator: "\n")
        #expect(failures.count == 2 && failures.allSatisfy { $0.hasPrefix("malformed") && $0 == failures[0] })
        #expect(try await client.isAtEnd())
        await server.shutDown()
    }

    @Test("nothing is read from the socket without demand of the handler")
    func backPressure() async throws {
        let gate = Mutex(false)
        let server = try TestServer { request in
            while !gate.withLock({ $0 }) { try? await Task.sleep(for: .milliseconds(2)) }
            var count = 0
            do throws(SourceFailure) {
                while let piece = try await request.body.next(maximum: 65_536) { count += piece.count }
            } catch {
                return .text("\(error)", 500)
            }
            return .text("\(count)")
        }
        let client = try RawClient(port: server.port)
        let size = 64 << 20
        try await client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: \(size)\r\n\r\n")
        let sent = Mutex(0)
        async let sending: Void = {
            let piece = [UInt8](repeating: 7, count: 256 << 10)
            while sent.withLock({ $0 }) < size {
                try await client.send(piece)
                sent.withLock { $0 += piece.count }
            }
        }()
        // Until no more is taken for a while: the kernel's buffers are full.
        var last = -1
        while sent.withLock({ $0 }) != last {
            last = sent.withLock { $0 }
            try await Task.sleep(for: .milliseconds(300))
        }
        #expect(last < size / 2)
        gate.withLock { $0 = true }
        try await sending
        #expect(try await client.readResponse().text == "\(size)")
        await server.shutDown()
    }
}
