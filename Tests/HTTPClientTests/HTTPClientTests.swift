import Bytes
import HTTPClient
import HTTPServer
import HTTPWire
import Synchronization
import Testing
import Transport

/// Against a real server on a port of its own.
@Suite("HTTP client", .timeLimit(.minutes(10)))
struct HTTPClientTests {
    private let client = HTTPClient(userAgent: "test/1", maximumThreads: 4, addresses: .any)

    private func request(_ port: UInt16, _ path: String = "/", redirects: Int = 0) -> HTTPClientRequest {
        // Longer than any delay on a busy machine.
        HTTPClientRequest(
            url: "http://127.0.0.1:\(port)\(path)",
            timeout: .seconds(300),
            connectTimeout: .seconds(300),
            maximumRedirects: redirects
        )
    }

    private func failure(_ request: HTTPClientRequest, _ client: HTTPClient? = nil) async -> HTTPClientError? {
        do throws(HTTPClientError) {
            _ = try await (client ?? self.client).send(request)
            return nil
        } catch {
            return error
        }
    }

    // MARK: Requests and answers

    @Test("sends method, fields and content unchanged, and only necessary fields of its own")
    func sends() async throws {
        let server = try RawServer([
            [.send("HTTP/1.1 201 Created\r\nX-A: 1\r\nx-b: two\r\nContent-Length: 2\r\n\r\nok")]
        ])
        var request = request(server.port, "/path?query=1")
        request.method = "POST"
        request.headers = [("X-Empty", ""), ("X-One", "a: b"), ("Content-Type", "application/json")]
        request.body = Array("{}".utf8)
        let response = try await client.send(request)
        #expect(response.status == 201)
        #expect(response.headers["x-a"] == "1" && response.headers["X-B"] == "two")
        #expect(response.body == Array("ok".utf8))
        await server.finish()
        let lines = try #require(server.requests.first).split(separator: "\r\n").map(String.init)
        #expect(lines.first == "POST /path?query=1 HTTP/1.1")
        #expect(
            Set(lines.dropFirst()) == [
                "Host: 127.0.0.1:\(server.port)", "Accept: */*", "User-Agent: test/1", "X-Empty:", "X-One: a: b",
                "Content-Type: application/json", "Content-Length: 2",
            ]
        )
    }

    @Test("returns the fields of the final response, without interim responses and trailers")
    func finalResponse() async throws {
        let server = try RawServer([
            [
                .send("HTTP/1.1 103 Early Hints\r\nX-Interim: 1\r\n\r\n"),
                .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Final: 1\r\n\r\n"),
                .send("3\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n"),
            ]
        ])
        let response = try await client.send(request(server.port))
        #expect(response.body == Array("abc".utf8))
        #expect(response.headers["X-Final"] == "1")
        #expect(!response.headers.contains("X-Interim") && !response.headers.contains("X-Trailer"))
    }

    @Test("HEAD has a length and no content", arguments: ["HEAD"])
    func head(_ method: String) async throws {
        let server = try RawServer([[.send("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n")]])
        var request = request(server.port)
        request.method = method
        let response = try await client.send(request)
        #expect(response.headers["Content-Length"] == "5000000" && response.body.isEmpty)
    }

    @Test("a hundred transfers run at once, or are queued beyond the limit", arguments: [256, 7])
    func manyAtOnce(_ most: Int) async throws {
        let server = try TestServer { request in
            Response(200, [:], .bytes(Array(request.head.target.rawPath.utf8)))
        }
        let client = HTTPClient(userAgent: "test", maximumTransfers: most, maximumThreads: 4, addresses: .any)
        let template = request(server.port)
        let right = await withTaskGroup(of: Bool.self) { group in
            for index in 0..<100 {
                group.addTask {
                    var request = template
                    request.url += "\(index)"
                    return (try? await client.send(request).body) == Array("/\(index)".utf8)
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(right == 100)
        client.close()
        await server.shutDown()
    }

    // MARK: Refusals

    @Test(
        "refuses URLs that it cannot request",
        arguments: [
            "", "/path", "example.com", "ftp://127.0.0.1/", "file:///etc/passwd", "gopher://127.0.0.1:70/", "http://",
            "http://127.0.0.1:99999/", "http://exa mple/", "dict://127.0.0.1:1/", "http://a\u{0}b/",
        ]
    )
    func badURL(_ url: String) async {
        let error = await failure(HTTPClientRequest(url: url))
        guard case .badRequest = error else {
            Issue.record("\(url): \(String(describing: error))")
            return
        }
    }

    @Test("refuses fields and methods that would break the request")
    func badFields() async {
        for header in [("X-A", "1\r\nX-B: 2"), ("X A", "1"), ("", "1"), ("X-A\n", "1"), ("X-A", "\u{0}")] {
            var request = request(1)
            request.headers = [header]
            let error = await failure(request)
            #expect(error == .badRequest("a header field has a name or value that cannot be sent"))
        }
        var request = request(1)
        request.method = "GET / HTTP/1.1\r\nX: "
        #expect(await failure(request) == .badRequest("the method is not a token"))
    }

    @Test(
        "refuses addresses that are not public, in every notation and by name",
        arguments: [
            "127.0.0.1", "localhost", "[::1]", "0x7f000001", "2130706433", "017700000001", "127.1",
            "[::ffff:127.0.0.1]", "0.0.0.0", "[::]",
        ]
    )
    func refusedAddress(_ host: String) async throws {
        let server = try RawServer([])
        let client = HTTPClient(userAgent: "test", addresses: .publicOnly())
        let error = await failure(HTTPClientRequest(url: "http://\(host):\(server.port)/"), client)
        guard case .refusedAddress = error else {
            Issue.record("\(host): \(String(describing: error))")
            return
        }
        #expect(error?.message == "the host has an address that is not allowed")
    }

    @Test("a redirect to an address that is not allowed is refused")
    func redirectToRefused() async throws {
        let inside = try RawServer([])
        let outside = try RawServer([
            [.send("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2:\(inside.port)/\r\nContent-Length: 0\r\n\r\n")]
        ])
        let range = try #require(CIDR("127.0.0.1/32"))
        let client = HTTPClient(userAgent: "test", addresses: .publicOnly(allowing: [range]))
        #expect(await failure(request(outside.port, redirects: 3), client) == .refusedAddress("127.0.0.2"))
    }

    @Test("content beyond the limit is refused, whether its length is announced or not")
    func tooLarge() async throws {
        let server = try RawServer([
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n"), .wait],
            [.send("HTTP/1.1 200 OK\r\n\r\n" + String(repeating: "x", count: 101)), .wait],
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + String(repeating: "x", count: 100))],
        ])
        var request = request(server.port)
        request.maximumResponseBytes = 100
        #expect(await failure(request) == .tooLarge(limit: 100))
        #expect(await failure(request) == .tooLarge(limit: 100))
        #expect(try await client.send(request).body.count == 100)
    }

    @Test("endless heads are refused")
    func endlessHead() async throws {
        let line = "X-Field: " + String(repeating: "x", count: 1000) + "\r\n"
        let server = try RawServer([[.send("HTTP/1.1 200 OK\r\n" + String(repeating: line, count: 400)), .wait]])
        #expect(await failure(request(server.port)) == .malformed)
    }

    @Test(
        "endless trailer fields are refused",
        arguments: ["T:\r\n", "X-Field: \(String(repeating: "x", count: 1000))\r\n"]
    )
    func endlessTrailers(_ line: String) async throws {
        let start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
        let lines = String(repeating: line, count: 400_000 / line.utf8.count)
        let server = try RawServer([
            [.send(start + lines), .wait], [.send(start + lines + "\r\n")],
            [.send(start + String(repeating: line, count: 100_000 / line.utf8.count) + "\r\n")],
        ])
        for _ in 0..<2 { #expect(await failure(request(server.port)) == .malformed) }
        #expect(try await client.send(request(server.port)).body == Array("abc".utf8))
    }

    @Test("extensions of chunks are refused where they are much more than the content")
    func endlessChunkExtensions() async throws {
        let start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        let long = String(repeating: "x", count: 4 << 20)
        let chunk = "1;\(long.prefix(400_000))\r\na\r\n"
        let server = try RawServer([
            [.send(start + "1;\(long)\r\na\r\n"), .wait],
            [.send(start + String(repeating: chunk, count: 10)), .wait],
            [.send(start + "1\r\na\r\n1;\(long)"), .wait],
            [.send(start.replacing("200 OK", with: "302 Found\r\nLocation: /") + chunk + chunk + chunk), .wait],
            [.send(start + chunk + "0\r\n\r\n")],
            [.send(start + String(repeating: "1\r\na\r\n", count: 300_000) + "0\r\n\r\n")],
        ])
        var request = request(server.port)
        request.keepsConnection = false
        request.maximumRedirects = 1
        for _ in 0..<3 { #expect(await failure(request) == .padded) }
        // What follows a redirect's head is not read to its end.
        #expect(try await client.send(request).body == Array("a".utf8))
        #expect(try await client.send(request).body.count == 300_000)
    }

    // MARK: Framing

    /// Neither a gzip stream nor one of deflate: a decoder that gets it fails, with another error.
    private static let letters = String(repeating: "abcde", count: 20)
    private static let chunked = "64\r\n\(letters)\r\n0\r\n\r\n"

    /// The failure of a request before its head is passed on.
    private func failureOfHead(_ request: HTTPClientRequest) async -> HTTPClientError? {
        do throws(HTTPClientError) {
            _ = try await client.open(request)
            return nil
        } catch {
            return error
        }
    }

    @Test(
        "a transfer coding but chunks is refused before its content, which comes with the head",
        arguments: [
            "gzip, gzip, gzip, chunked", "gzip, chunked", "gzip", "deflate", "GZIP", "x-gzip", "br", "chunked, gzip",
            "chunked, chunked", "chunked\r\nTransfer-Encoding: chunked", "deflate\r\nTransfer-Encoding: chunked",
            "chunked\r\nTransfer-Encoding: gzip", "identity", "chunked;a=b", "", "\r\n chunked",
            "chunked\r\n , gzip",
        ]
    )
    func otherTransferCodings(_ codings: String) async throws {
        let content = codings.contains("chunked") ? Self.chunked : Self.letters
        let fields = "Transfer-Encoding: \(codings)\r\n\r\n"
        let heads = [
            "HTTP/1.1 200 OK\r\n", "HTTP/1.0 200 OK\r\n", "http/1.1 200 OK\r\n", "HTTP/1.1 404 No\r\n",
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n", "HTTP/1.1 204 No\r\n", "HTTP/1.1 304 Not\r\n",
        ]
        let server = try RawServer((heads + heads.prefix(1)).map { [.send($0 + fields + content)] })
        var request = request(server.port, redirects: 1)
        for head in heads { #expect(await failureOfHead(request) == .malformed, "\(head)") }
        request.method = "HEAD"
        #expect(await failureOfHead(request) == .malformed)
    }

    @Test(
        "a length that is ambiguous or not a number is refused",
        arguments: [
            "Content-Length: 5\r\nContent-Length: 100", "Content-Length: 100\r\nContent-Length: 5",
            "Content-Length: 100\r\nContent-Length: +100", "Content-Length: 5, 100", "Content-Length: +100",
            "Content-Length: -1", "Content-Length: 1e2", "Content-Length: 5 5", "Content-Length:",
            "Content-Length: 9223372036854775808", "Content-Length: 99999999999999999999999",
            "Content-Length: 1\r\n 00", "Content-Length: 1\r\n\t00", "Content-Length:\r\n 100", "Content-Length : 1",
            "Content-Length: 100\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 100",
            "Transfer-Encoding : chunked",
        ]
    )
    func unclearLengths(_ fields: String) async throws {
        let content = fields.contains("chunked") ? Self.chunked : Self.letters
        let server = try RawServer([[.send("HTTP/1.1 200 OK\r\n\(fields)\r\n\r\n\(content)")]])
        #expect(await failureOfHead(request(server.port)) == .malformed)
    }

    @Test(
        "an interim response with fields of content is refused",
        arguments: ["Transfer-Encoding: chunked", "Transfer-Encoding: gzip", "Content-Length: 0", "Content-Length: 3"]
    )
    func framingOfInterimResponses(_ field: String) async throws {
        let head = "HTTP/1.1 103 Early Hints\r\n\(field)\r\n\r\nHTTP/1.1 200 OK\r\n"
        let server = try RawServer([[.send("\(head)Content-Length: 100\r\n\r\n\(Self.letters)")]])
        #expect(await failureOfHead(request(server.port)) == .malformed)
    }

    @Test(
        "status lines have the form of HTTP/1.0 and 1.1 exactly",
        arguments: ["HTTP/1.1  200 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 20 OK", "HTTP/1.1 099 OK", "HTTP/1.10 200 OK"]
    )
    func otherStatusLines(_ line: String) async throws {
        let server = try RawServer([[.send("\(line)\r\nContent-Length: 100\r\n\r\n\(Self.letters)")]])
        #expect(await failureOfHead(request(server.port)) == .malformed)
    }

    @Test("clear framing is accepted, and codings of the content are left as they are")
    func clearFraming() async throws {
        let heads = [
            "HTTP/1.1 200 OK\r\nTransfer-Encoding:CHUNKED \r\n", "HTTP/1.0 200\r\ntransfer-encoding: chunked\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Length: 100\r\n", "HTTP/1.1 200 \r\n",
            "HTTP/1.0 200 OK\r\nX-Folded: one\r\n two\r\nContent-Length: 100\r\n",
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 100\r\n",
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
            // Empty elements of a list mean nothing (RFC 9110 §5.6.1).
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: , chunked ,\r\n",
        ]
        let server = try RawServer(
            heads.map { head in
                let content = head.lowercased().contains("chunked") ? Self.chunked : Self.letters
                return [.send("\(head)\r\n\(content)")]
            }
        )
        var request = request(server.port)
        request.keepsConnection = false
        for head in heads {
            let response = try await client.send(request)
            #expect(response.status == 200 && response.body == Array(Self.letters.utf8), "\(head)")
        }
    }

    // MARK: Failures

    @Test("a broken connection is reported")
    func cut() async throws {
        let server = try RawServer([
            [],
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")],
            [.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"), .reset],
        ])
        for _ in 0..<3 { #expect(await failure(request(server.port)) == .connection) }
    }

    @Test("an address without a listener and an unknown name are unreachable")
    func unreachable() async throws {
        var port: UInt16 = 0
        do { port = try RawServer([]).port }
        #expect(await failure(request(port)) == .unreachable)
        #expect(await failure(HTTPClientRequest(url: "http://name.invalid/")) == .unreachable)
    }

    @Test("a response that is not HTTP is refused")
    func notHTTP() async throws {
        let server = try RawServer([[.send("220 mail.example ESMTP\r\n\r\n")]])
        #expect(await failure(request(server.port)) == .malformed)
    }

    @Test("the total timeout and the stall timeout end a request")
    func tooSlow() async throws {
        let server = try RawServer([
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), .wait],
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), .wait],
            [.wait],
        ])
        var whole = request(server.port)
        whole.timeout = .milliseconds(200)
        #expect(await failure(whole) == .timedOut)
        var stalled = request(server.port)
        stalled.stallTimeout = .seconds(1)
        #expect(await failure(stalled) == .timedOut)
        #expect(await failure(whole) == .timedOut)
    }

    // MARK: Redirects

    @Test("follows redirects without sending fields for one host to another")
    func redirects() async throws {
        let other = try RawServer([[.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")]])
        let first = try RawServer([
            [.send("HTTP/1.1 302 Found\r\nLocation: next?a=b\r\nContent-Length: 3\r\n\r\nold")],
            [
                .send(
                    "HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:\(other.port)/other\r\nConnection: close\r\n\r\nx"
                )
            ],
        ])
        var request = request(first.port, "/one/two", redirects: 2)
        request.url = "http://user:password@127.0.0.1:\(first.port)/one/two"
        request.headers = [("X-Key", "secret")]
        let response = try await client.send(request)
        #expect(response.status == 200 && response.body == Array("done".utf8))
        // The connection is kept, so the second request starts on the first one's when that has ended its steps: it is
        // closed.
        #expect(
            first.requests.map { $0.prefix { $0 != "\r\n" } } == [
                "GET /one/two HTTP/1.1", "GET /one/next?a=b HTTP/1.1",
            ]
        )
        #expect(first.requests[0].contains("X-Key: secret"))
        #expect(first.requests[0].contains("Authorization: Basic dXNlcjpwYXNzd29yZA=="))
        #expect(first.requests[1].contains("X-Key: secret"))
        #expect(other.requests.count == 1)
        #expect(!other.requests[0].contains("secret") && !other.requests[0].contains("Authorization"))
    }

    @Test("a redirect loop ends, and without following, the redirect is the response")
    func redirectLoop() async throws {
        let server = try TestServer { _ in Response(302, ["Location": "/again"]) }
        #expect(await failure(request(server.port, redirects: 5)) == .tooManyRedirects(limit: 5))
        #expect(try await client.send(request(server.port)).status == 302)
        client.close()
        await server.shutDown()
    }

    @Test(
        "after a POST, 303 leads to a GET without content and 307 repeats the request",
        arguments: [(303, "GET"), (307, "POST")]
    )
    func redirectedPost(_ status: Int, _ method: String) async throws {
        let server = try RawServer([
            [.send("HTTP/1.1 \(status) See\r\nLocation: /b\r\nConnection: close\r\n\r\n")],
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")],
        ])
        var request = request(server.port, redirects: 1)
        request.method = "POST"
        request.body = Array("abc".utf8)
        request.headers = [("Content-Type", "text/plain"), ("X-A", "1")]
        _ = try await client.send(request)
        let second = try #require(server.requests.last)
        #expect(second.hasPrefix("\(method) /b HTTP/1.1\r\n"))
        #expect(second.contains("Content-Type") == (method == "POST"))
        #expect(second.contains("X-A: 1"))
    }

    @Test("a redirect to another scheme is refused", arguments: ["file:///etc/passwd", "gopher://127.0.0.1/"])
    func redirectToScheme(_ target: String) async throws {
        let server = try RawServer([[.send("HTTP/1.1 301 Moved\r\nLocation: \(target)\r\nContent-Length: 0\r\n\r\n")]])
        guard case .badRequest = await failure(request(server.port, redirects: 5)) else {
            Issue.record("was followed")
            return
        }
    }

    // MARK: Ends

    @Test("a cancelled task ends its transfer", arguments: [true, false])
    func cancel(_ hasHead: Bool) async throws {
        let steps: [RawServer.Step] =
            hasHead ? [.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), .wait] : [.wait]
        let server = try RawServer([steps])
        let task = Task { [request = request(server.port)] in await failure(request) }
        while server.requests.isEmpty { await Task.yield() }
        task.cancel()
        #expect(await task.value == .cancelled)
        // Its last step ends when the client has closed the connection.
        await server.finish()
    }

    @Test("a task that is cancelled before the request fails at once")
    func cancelledBefore() async throws {
        let server = try RawServer([])
        let task = Task { [request = request(server.port)] in
            while !Task.isCancelled { await Task.yield() }
            return await failure(request)
        }
        task.cancel()
        #expect(await task.value == .cancelled)
    }

    @Test("close ends running, queued and later transfers")
    func close() async throws {
        let server = try RawServer([[.wait]])
        let client = HTTPClient(userAgent: "test", maximumTransfers: 1, addresses: .any)
        let running = (0..<5).map { _ in Task { [request = request(server.port)] in await failure(request, client) } }
        while server.requests.isEmpty { await Task.yield() }
        client.close()
        for task in running { #expect(await task.value == .stopped) }
        #expect(await failure(request(server.port), client) == .stopped)
        client.close()
        await server.finish()
    }

    @Test("a released client ends its thread and its connections")
    func forgotten() async throws {
        let server = try RawServer([[.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), .wait]])
        do {
            let client = HTTPClient(userAgent: "test", addresses: .any)
            _ = try await client.send(request(server.port))
        }
        // Ends: the connection is closed.
        await server.finish()
    }
}
