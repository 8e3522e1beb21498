import Bytes
import HTTPServer
import HTTPWire
import SluiceTesting
import SystemIO
import Testing

/// After a response, either exactly the announced content was read, or the connection is closed.
@Suite("Unread content", .timeLimit(.minutes(10)))
struct UnreadContentTests {
    /// What a client announces and sends, and what the handler reads of it.
    private struct Row: Sendable, CustomStringConvertible {
        enum Way: CaseIterable { case pieces, transfer }

        var isChunked: Bool
        var declared: Int
        var sent: Int
        var read: Int
        var way: Way
        /// Whether the content is sent together with the head.
        var isTogether: Bool
        /// Whether the next request is sent before the response.
        var isPipelined: Bool
        var closes: Bool

        var isComplete: Bool { sent == declared }

        /// Whether the connection can be kept: for incomplete content, never.
        var isKept: Bool {
            let rest = declared - read
            return isComplete && !closes && (isChunked ? rest < 0 : rest <= 65_536)
        }

        var description: String {
            "\(isChunked ? "chunked " : "")declared \(declared), sent \(sent), read \(read) by \(way), "
                + "together \(isTogether), pipelined \(isPipelined), closes \(closes)"
        }

        init(using chance: inout SeededGenerator) {
            let lengths = [1, 2, 10, 60, 200, 1000, 4096, 16_384, 40_000, 65_535, 65_536, 65_537, 70_000, 200_000]
            declared = lengths.randomElement(using: &chance) ?? 1
            isChunked = Int.random(in: 0..<5, using: &chance) == 0
            let kinds = [declared, declared, declared, 0, declared - 1, .random(in: 0..<declared, using: &chance)]
            sent = kinds.randomElement(using: &chance) ?? declared
            // A handler that waits for what does not come is another matter.
            let most = sent == declared ? declared + 1 : sent
            let reads = [0, 0, most, min(10, most), .random(in: 0...most, using: &chance)]
            read = reads.randomElement(using: &chance) ?? 0
            way = isChunked ? .pieces : Way.allCases.randomElement(using: &chance) ?? .pieces
            isTogether = .random(using: &chance)
            isPipelined = .random(using: &chance)
            closes = Int.random(in: 0..<8, using: &chance) == 0
        }

        var head: String {
            "PUT /row HTTP/1.1\r\nHost: x\r\nX-Read: \(read)\r\nX-Way: \(way)\r\nX-Closes: \(closes)\r\n"
                + (isChunked ? "Transfer-Encoding: chunked" : "Content-Length: \(declared)") + "\r\n\r\n"
        }

        var content: [UInt8] {
            guard isChunked else { return pattern(sent) }
            let start = Array("\(String(declared, radix: 16))\r\n".utf8) + pattern(sent)
            return isComplete ? start + Array("\r\n0\r\n\r\n".utf8) : start
        }
    }

    private static let probe = Array("GET /probe HTTP/1.1\r\nHost: x\r\n\r\n".utf8)

    /// Reads as much as the request says.
    private static func server(waiting time: Duration) throws -> TestServer {
        let file = ScratchFile()
        let target = file.file
        return try TestServer(configure: { $0.drainTimeout = time }) { request in
            defer { withExtendedLifetime(file) {} }
            var left = request.head.fields["X-Read"].flatMap { Int($0) } ?? 0
            if request.head.fields["X-Way"] == "transfer" {
                _ = await request.body.transfer(to: target, at: 0, limit: Int64(left), on: .ofTests)
            } else {
                while left > 0, let piece = try? await request.body.next(maximum: left) { left -= piece.count }
            }
            var response = Response.text(request.head.target.rawPath, 403)
            response.closesConnection = request.head.fields["X-Closes"] == "true"
            return response
        }
    }

    @Test("the next request is never taken for content, and no connection is kept that would wait", arguments: [1, 2])
    func rows(seed: UInt64) async throws {
        // Complete content always arrives; what was not sent is not waited for.
        let patient = try Self.server(waiting: .seconds(300))
        let hurried = try Self.server(waiting: .milliseconds(1))
        var chance = SeededGenerator(seed: seed)
        var rows = (0..<1500).map { _ in Row(using: &chance) }[...]
        while !rows.isEmpty {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for row in rows.prefix(40) {
                    let server = row.isComplete ? patient : hurried
                    group.addTask { try await Self.check(row, server.port, seed) }
                }
                try await group.waitForAll()
            }
            rows = rows.dropFirst(40)
        }
        await patient.shutDown()
        await hurried.shutDown()
    }

    private static func check(_ row: Row, _ port: UInt16, _ seed: UInt64) async throws {
        let about: Comment = "seed \(seed): \(row)"
        let client = try RawClient(port: port)
        let tail = row.content + (row.isPipelined ? probe : [])
        if row.isTogether {
            try await client.send(Array(row.head.utf8) + tail)
        } else {
            try await client.send(row.head)
            try await client.send(tail)
        }
        let response = try await client.readResponse()
        #expect(response.text == "/row", about)
        let saysClose = response.field("Connection") == "close"
        // What the client sends next completes the content that it owes.
        if !row.isComplete, row.isPipelined, !saysClose {
            #expect(row.sent + probe.count >= row.declared, about)
            client.shutDownWriting()
            _ = try await client.readToEnd()
            return
        }
        #expect(saysClose == !row.isKept, about)
        if saysClose {
            let isAtEnd = try await client.isAtEnd()
            #expect(isAtEnd, about)
            return
        }
        if !row.isPipelined { try await client.send(probe) }
        let next = try await client.readResponse()
        #expect(next.text == "/probe", about)
    }
}
