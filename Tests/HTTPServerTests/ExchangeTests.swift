import Bytes
import Foundation
import HTTPServer
import HTTPWire
import SluiceTesting
import Synchronization
import Testing
import Transport

@Suite("requests and answers over a socket")
struct ExchangeTests {
    @Test("a connection serves one request after the other")
    func keepAlive() async throws {
        let server = try TestServer { .text($0.head.target.rawPath) }
        let client = try RawClient(port: server.port)
        for path in ["/a", "/b", "/c"] {
            try await client.send("GET \(path) HTTP/1.1\r\nHost: x\r\n\r\n")
            let answer = try await client.readAnswer()
            #expect(answer.status == 200)
            #expect(answer.text == path)
            #expect(answer.field("Date") != nil)
            #expect(answer.field("Connection") == nil)
        }
        #expect(server.connectionCount == 1)
        await server.shutDown()
        #expect(server.observer.all.count == 3)
    }

    @Test("pipelined requests are answered in their order, contents included")
    func pipelining() async throws {
        let server = try TestServer { await echo($0) }
        let client = try RawClient(port: server.port)
        var all = ""
        for index in 0..<50 {
            let body = String(repeating: "\(index % 10)", count: index)
            all += "POST /\(index) HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        }
        try await client.send(all)
        for index in 0..<50 {
            #expect(try await client.readAnswer().text == String(repeating: "\(index % 10)", count: index))
        }
        await server.shutDown()
    }

    @Test("HEAD gets the head of the answer and no content")
    func head() async throws {
        let server = try TestServer { _ in .text("hello") }
        let client = try RawClient(port: server.port)
        try await client.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
        let head = try await client.readAnswer(isHead: true)
        #expect(head.field("Content-Length") == "5")
        #expect(try await client.readAnswer().text == "hello")
        await server.shutDown()
    }

    @Test("HTTP/1.0 ends the connection unless it asks to keep it")
    func oldVersion() async throws {
        let server = try TestServer { _ in .text("old") }
        let client = try RawClient(port: server.port)
        try await client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        let kept = try await client.readAnswer()
        #expect(kept.field("Connection") == "keep-alive")
        try await client.send("GET / HTTP/1.0\r\n\r\n")
        let last = try await client.readAnswer()
        #expect(last.field("Connection") == "close")
        #expect(try await client.isAtEnd())
        await server.shutDown()
    }

    @Test(
        "an answer of unknown length is chunked, and for HTTP/1.0 ends with the connection",
        arguments: ["1.1", "1.0"]
    )
    func stream(version: String) async throws {
        let server = try TestServer { _ in
            Response(
                200,
                ["Trailer": "X-Sum"],
                .stream(length: nil) { sink in
                    for index in 0..<5 { try await sink.write(Array("part \(index)\n".utf8)) }
                    return ["X-Sum": "5"]
                }
            )
        }
        let client = try RawClient(port: server.port)
        try await client.send("GET / HTTP/\(version)\r\nHost: x\r\n\r\n")
        let answer = try await client.readAnswer()
        #expect(answer.text == "part 0\npart 1\npart 2\npart 3\npart 4\n")
        #expect(answer.field("Transfer-Encoding") == (version == "1.1" ? "chunked" : nil))
        await server.shutDown()
    }

    @Test(
        "an answer to HTTP/1.0 whose end only the end of the connection tells ends it, though the client would keep it",
        arguments: ["", "Content-Length: 5\r\n\r\nhello", "Content-Length: 100000\r\n\r\nhello"]
    )
    func oldStream(rest: String) async throws {
        let server = try TestServer { _ in
            let content = Response.Content.stream(length: nil) { sink in
                try await sink.write(Array("all of it".utf8))
                return [:]
            }
            return Response(200, [:], content)
        }
        let client = try RawClient(port: server.port)
        let head = "POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n"
        try await client.send(head + (rest.isEmpty ? "\r\n" : rest))
        let bytes = try await client.readToEnd()
        let answer = String(decoding: bytes, as: UTF8.self)
        #expect(answer.contains("\r\nConnection: close\r\n"))
        #expect(answer.hasSuffix("\r\n\r\nall of it"))
        await server.shutDown()
    }

    @Test("a chunked content arrives with its trailers, however it is cut into packets")
    func chunked() async throws {
        let server = try TestServer { await echo($0) }
        let message = Array(
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX-Digest: 42\r\n\r\n"
                .utf8
        )
        for cut in stride(from: 1, to: message.count, by: 3) {
            let client = try RawClient(port: server.port)
            try await client.send(Array(message[..<cut]))
            try await Task.sleep(for: .milliseconds(1))
            try await client.send(Array(message[cut...]))
            let answer = try await client.readAnswer()
            #expect(answer.text == "hello world", "cut at \(cut)")
            #expect(answer.field("X-Trailer") == "42", "cut at \(cut)")
        }
        await server.shutDown()
    }

    @Test("100 Continue goes out when the handler asks for the content, and not before an error answer")
    func expectContinue() async throws {
        let server = try TestServer { request in
            request.head.target.rawPath == "/refuse" ? .text("no", 413) : await echo(request)
        }
        let willing = try RawClient(port: server.port)
        try await willing.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        #expect(try await willing.readHead() == "HTTP/1.1 100 Continue")
        try await willing.send("abc")
        #expect(try await willing.readAnswer().text == "abc")

        let refused = try RawClient(port: server.port)
        try await refused.send("PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        #expect(try await refused.readHead().hasPrefix("HTTP/1.1 413"))
        await server.shutDown()
    }

    @Test("interim answers reach an HTTP/1.1 client and never an HTTP/1.0 client", arguments: ["1.1", "1.0"])
    func interim(version: String) async throws {
        let server = try TestServer { request in
            do throws(SinkFailure) {
                try await request.inform(ResponseHead(104, ["Location": "/files/1"]))
            } catch {
                return .text("\(error)", 500)
            }
            return .text("done")
        }
        let client = try RawClient(port: server.port)
        try await client.send("GET / HTTP/\(version)\r\nHost: x\r\n\r\n")
        let first = try await client.readHead()
        if version == "1.1" {
            #expect(first == "HTTP/1.1 104 Upload Resumption Supported\r\nLocation: /files/1")
            #expect(try await client.readAnswer().text == "done")
        } else {
            #expect(first.hasPrefix("HTTP/1.1 200"))
        }
        await server.shutDown()
    }

    @Test("an absolute-form target is understood")
    func absoluteForm() async throws {
        let server = try TestServer { .text("\($0.head.target.authority ?? "-") \($0.head.target.rawPath)") }
        let client = try RawClient(port: server.port)
        try await client.send("GET http://bucket.example:81/key?a=b HTTP/1.1\r\nHost: bucket.example:81\r\n\r\n")
        #expect(try await client.readAnswer().text == "bucket.example:81 /key")
        await server.shutDown()
    }

    @Test("a file is answered whole and in part, and its sender does not disturb the next request")
    func file() async throws {
        let bytes = pattern(3_000_000)
        let scratch = ScratchFile(bytes)
        let file = OpenFile(owning: dup(scratch.descriptor))
        let server = try TestServer { _ in
            Response(200, [:], .file(FileRegion(file: file, offset: 1_000_000, length: 1_500_000)))
        }
        let client = try RawClient(port: server.port)
        for _ in 0..<3 {
            try await client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(try await client.readAnswer().body == Array(bytes[1_000_000..<2_500_000]))
        }
        await server.shutDown()
    }

    @Test("a refusal while the client still sends reaches the client")
    func earlyAnswer() async throws {
        let server = try TestServer { _ in .text("too much", 413) }
        for _ in 0..<5 {
            let client = try RawClient(port: server.port)
            let size = 16 << 20
            try await client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: \(size)\r\n\r\n")
            // The whole content goes out although the answer has long come: with a reset this would fail.
            try await client.send(pattern(size))
            let answer = try await client.readAnswer()
            #expect(answer.status == 413)
            #expect(answer.field("Connection") == "close")
            #expect(try await client.isAtEnd())
        }
        await server.shutDown()
    }

    @Test("a small content that nobody read does not cost the connection")
    func drained() async throws {
        let server = try TestServer { .text($0.head.target.rawPath, 404) }
        let client = try RawClient(port: server.port)
        for index in 0..<3 {
            try await client.send("PUT /\(index) HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
            try await client.send(pattern(1000))
            #expect(try await client.readAnswer().text == "/\(index)")
        }
        await server.shutDown()
    }
}
