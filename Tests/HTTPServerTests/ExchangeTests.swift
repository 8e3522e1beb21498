import Bytes
import Foundation
import HTTPServer
import HTTPWire
import SluiceTesting
import Synchronization
import SystemIO
import Testing
import Transport

@Suite("requests and responses over a socket", .timeLimit(.minutes(10)))
struct ExchangeTests {
    @Test("a connection serves one request after the other")
    func keepAlive() async throws {
        let server = try TestServer { .text($0.head.target.rawPath) }
        let client = try RawClient(port: server.port)
        for path in ["/a", "/b", "/c"] {
            try await client.send("GET \(path) HTTP/1.1\r\nHost: x\r\n\r\n")
            let response = try await client.readResponse()
            #expect(response.status == 200)
            #expect(response.text == path)
            #expect(response.field("Date") != nil)
            #expect(response.field("Connection") == nil)
        }
        #expect(server.connectionCount == 1)
        await server.shutDown()
        #expect(server.observer.all.count == 3)
    }

    @Test("pipelined requests with content are served in order")
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
            #expect(try await client.readResponse().text == String(repeating: "\(index % 10)", count: index))
        }
        await server.shutDown()
    }

    @Test("the response to HEAD has no content")
    func head() async throws {
        let server = try TestServer { _ in .text("hello") }
        let client = try RawClient(port: server.port)
        try await client.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
        let head = try await client.readResponse(isHead: true)
        #expect(head.field("Content-Length") == "5")
        #expect(try await client.readResponse().text == "hello")
        await server.shutDown()
    }

    @Test("HTTP/1.0 ends the connection unless it asks to keep it")
    func oldVersion() async throws {
        let server = try TestServer { _ in .text("old") }
        let client = try RawClient(port: server.port)
        try await client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        let kept = try await client.readResponse()
        #expect(kept.field("Connection") == "keep-alive")
        try await client.send("GET / HTTP/1.0\r\n\r\n")
        let last = try await client.readResponse()
        #expect(last.field("Connection") == "close")
        #expect(try await client.isAtEnd())
        await server.shutDown()
    }

    @Test(
        "a response of unknown length is chunked, and for HTTP/1.0 ends with the connection",
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
        let response = try await client.readResponse()
        #expect(response.text == "part 0\npart 1\npart 2\npart 3\npart 4\n")
        #expect(response.field("Transfer-Encoding") == (version == "1.1" ? "chunked" : nil))
        await server.shutDown()
    }

    @Test("a stream that is longer or shorter than it was declared ends the connection, and nothing beyond is sent")
    func wrongLength() async throws {
        let server = try TestServer { request in
            let isLong = request.head.target.rawPath == "/long"
            let content = Response.Content.stream(length: 4) { sink in
                try await sink.write(Array("ab".utf8))
                if isLong { try await sink.write(Array("cde".utf8)) }
                return [:]
            }
            return Response(200, [:], content)
        }
        for target in ["/long", "/short"] {
            let client = try RawClient(port: server.port)
            try await client.send("GET \(target) HTTP/1.1\r\nHost: x\r\n\r\n")
            let response = String(decoding: try await client.readToEnd(), as: UTF8.self)
            #expect(response.hasSuffix("\r\n\r\nab"), "\(target)")
        }
        await server.shutDown()
    }

    @Test(
        "an HTTP/1.0 response without a length closes the connection even if the client would keep it",
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
        let response = String(decoding: bytes, as: UTF8.self)
        #expect(response.contains("\r\nConnection: close\r\n"))
        #expect(response.hasSuffix("\r\n\r\nall of it"))
        await server.shutDown()
    }

    @Test("chunked content arrives with its trailers, however it is split into packets")
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
            let response = try await client.readResponse()
            #expect(response.text == "hello world", "cut at \(cut)")
            #expect(response.field("X-Trailer") == "42", "cut at \(cut)")
        }
        await server.shutDown()
    }

    @Test("100 Continue is sent when the handler reads the content, and not before an error response")
    func expectContinue() async throws {
        let server = try TestServer { request in
            request.head.target.rawPath == "/refuse" ? .text("no", 413) : await echo(request)
        }
        let willing = try RawClient(port: server.port)
        try await willing.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        #expect(try await willing.readHead() == "HTTP/1.1 100 Continue")
        try await willing.send("abc")
        #expect(try await willing.readResponse().text == "abc")

        let refused = try RawClient(port: server.port)
        try await refused.send("PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        #expect(try await refused.readHead().hasPrefix("HTTP/1.1 413"))
        await server.shutDown()
    }

    @Test("interim responses reach an HTTP/1.1 client and never an HTTP/1.0 client", arguments: ["1.1", "1.0"])
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
            #expect(try await client.readResponse().text == "done")
        } else {
            #expect(first.hasPrefix("HTTP/1.1 200"))
        }
        await server.shutDown()
    }

    @Test("an absolute-form target is accepted")
    func absoluteForm() async throws {
        let server = try TestServer { .text("\($0.head.target.authority ?? "-") \($0.head.target.rawPath)") }
        let client = try RawClient(port: server.port)
        try await client.send("GET http://bucket.example:81/key?a=b HTTP/1.1\r\nHost: bucket.example:81\r\n\r\n")
        #expect(try await client.readResponse().text == "bucket.example:81 /key")
        await server.shutDown()
    }

    @Test("a file is sent whole and in part, without affecting the next request")
    func file() async throws {
        let bytes = pattern(3_000_000)
        let scratch = ScratchFile(bytes)
        let file = scratch.file
        let server = try TestServer { _ in
            Response(200, [:], .file(FileRegion(file: file, offset: 1_000_000, length: 1_500_000)))
        }
        let client = try RawClient(port: server.port)
        for _ in 0..<3 {
            try await client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(try await client.readResponse().body == Array(bytes[1_000_000..<2_500_000]))
        }
        await server.shutDown()
    }

    @Test("a refusal while the client still sends reaches the client")
    func earlyResponse() async throws {
        let server = try TestServer { _ in .text("too much", 413) }
        for _ in 0..<5 {
            let client = try RawClient(port: server.port)
            let size = 16 << 20
            try await client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: \(size)\r\n\r\n")
            // The whole content is sent although the response has already arrived: after a reset this would fail.
            try await client.send(pattern(size))
            let response = try await client.readResponse()
            #expect(response.status == 413)
            #expect(response.field("Connection") == "close")
            #expect(try await client.isAtEnd())
        }
        await server.shutDown()
    }

    @Test("small unread content does not close the connection")
    func drained() async throws {
        let server = try TestServer { .text($0.head.target.rawPath, 404) }
        let client = try RawClient(port: server.port)
        for index in 0..<3 {
            try await client.send("PUT /\(index) HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
            try await client.send(pattern(1000))
            #expect(try await client.readResponse().text == "/\(index)")
        }
        await server.shutDown()
    }
}
