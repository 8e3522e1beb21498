import HTTPClient
import Synchronization
import Testing
import Transport

@Suite("HTTP proxy", .timeLimit(.minutes(10)))
struct HTTPProxyTests {
    private func request(_ url: String) -> HTTPClientRequest {
        HTTPClientRequest(url: url, timeout: .seconds(300), connectTimeout: .seconds(300))
    }

    private func failure(_ request: HTTPClientRequest, _ client: HTTPClient) async -> HTTPClientError? {
        do throws(HTTPClientError) {
            _ = try await client.send(request)
            return nil
        } catch {
            return error
        }
    }

    /// Responds to each request and records its head.
    private final class Proxy: Sendable {
        let server: SocketServer
        private let record: Record

        private final class Record: Sendable {
            let heads = Mutex<[String]>([])
        }

        init(_ response: String) throws {
            let record = Record()
            self.record = record
            server = try SocketServer { peer, _ in
                while let head = peer.head() {
                    record.heads.withLock { $0.append(head) }
                    peer.write(response)
                }
            }
        }

        var url: String { "http://us%65r:pass%3Aword@127.0.0.1:\(server.port)" }
        var heads: [String] { record.heads.withLock { $0 } }
    }

    /// `user:pass:word`.
    private static let credentials = "Proxy-Authorization: Basic dXNlcjpwYXNzOndvcmQ="

    @Test("all requests go to the proxy, with its credentials; it resolves names")
    func plain() async throws {
        let proxy = try Proxy("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        let client = HTTPClient(userAgent: "test", addresses: .any, proxy: proxy.url)
        for url in ["http://name.invalid/a?b", "http://127.0.0.1:1/c", "http://localhost:1/"] {
            #expect(try await client.send(request(url)).body == Array("ok".utf8))
        }
        var upload = request("http://name.invalid/upload")
        upload.method = "PUT"
        upload.content = PatternContent(0)
        #expect(try await client.send(upload).status == 200)
        #expect(
            proxy.heads.map { $0.prefix { $0 != "\r\n" } } == [
                "GET http://name.invalid/a?b HTTP/1.1", "GET http://127.0.0.1:1/c HTTP/1.1",
                "GET http://localhost:1/ HTTP/1.1", "PUT http://name.invalid/upload HTTP/1.1",
            ]
        )
        #expect(proxy.heads.allSatisfy { $0.contains(Self.credentials) })
        #expect(proxy.server.connections == 1)
    }

    @Test("https uses a tunnel, and fields for the host are not sent to the proxy", arguments: [407, 502])
    func tunnelRefused(_ status: Int) async throws {
        let proxy = try Proxy("HTTP/1.1 \(status) No\r\nX-Secret: 1\r\nContent-Length: 0\r\n\r\n")
        let client = HTTPClient(userAgent: "test", addresses: .any, proxy: proxy.url)
        var request = request("https://user:password@name.invalid/path")
        request.headers = [("X-Key", "secret")]
        #expect(await failure(request, client) == .proxy(status: status))
        let head = try #require(proxy.heads.first)
        #expect(head.hasPrefix("CONNECT name.invalid:443 HTTP/1.1\r\n"))
        #expect(head.contains(Self.credentials))
        #expect(!head.contains("secret") && !head.contains("path") && !head.contains("dXNlcjpwYXNzd29yZA=="))
    }

    @Test("the host's certificate is verified through the tunnel")
    func tunnel() async throws {
        let proxy = try Proxy("HTTP/1.1 200 Connected\r\n\r\nthis is no TLS, it is too long for that")
        let client = HTTPClient(userAgent: "test", addresses: .any, proxy: proxy.url)
        #expect(await failure(request("https://name.invalid/"), client) == .tls)
    }

    @Test("the address policy applies to the proxy and to addresses in URLs")
    func policy() async throws {
        let proxy = try Proxy("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        let refusing = HTTPClient(userAgent: "test", addresses: .publicOnly(), proxy: proxy.url)
        #expect(await failure(request("http://name.invalid/"), refusing) == .refusedAddress("127.0.0.1"))
        let range = try #require(CIDR("127.0.0.1/32"))
        let client = HTTPClient(userAgent: "test", addresses: .publicOnly(allowing: [range]), proxy: proxy.url)
        for host in ["10.0.0.1", "127.0.0.2", "0x7f000002", "2130706434", "[::1]", "[::ffff:10.0.0.1]", "127.2"] {
            for scheme in ["http", "https"] {
                guard case .refusedAddress = await failure(request("\(scheme)://\(host)/"), client) else {
                    Issue.record("\(scheme)://\(host) was asked")
                    continue
                }
            }
        }
        #expect(proxy.heads.isEmpty)
        #expect(try await client.send(request("http://name.invalid/")).status == 200)
        #expect(try await client.send(request("http://192.0.1.1/")).status == 200)
    }

    @Test("localhost counts as an address, by any of its names", arguments: ["localhost", "LOCALHOST.", "a.localhost"])
    func localhost(_ host: String) async throws {
        let range = try #require(CIDR("127.0.0.2/32"))
        // The proxy's address is allowed, the address of localhost is not.
        let server = try Proxy("")
        let client = HTTPClient(
            userAgent: "test",
            addresses: .publicOnly(allowing: [range]),
            proxy: "http://127.0.0.2:\(server.server.port)"
        )
        #expect(await failure(request("http://\(host)/"), client) == .refusedAddress("127.0.0.1"))
    }

    @Test("a redirect to an address is refused, too")
    func redirect() async throws {
        let proxy = try Proxy("HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n")
        let range = try #require(CIDR("127.0.0.1/32"))
        let client = HTTPClient(userAgent: "test", addresses: .publicOnly(allowing: [range]), proxy: proxy.url)
        var request = request("http://name.invalid/")
        request.maximumRedirects = 3
        #expect(await failure(request, client) == .refusedAddress("10.0.0.1"))
        #expect(proxy.heads.count == 1)
    }

    @Test(
        "an invalid proxy URL is refused",
        arguments: ["", "127.0.0.1:3128", "socks5://127.0.0.1:1", "http://", "http://a/path", "http://a/?b"]
    )
    func invalid(_ proxy: String) async {
        #expect(WebProxy(proxy) == nil)
        let client = HTTPClient(userAgent: "test", addresses: .any, proxy: proxy)
        let error = await failure(request("http://127.0.0.1:1/"), client)
        #expect(error == .badRequest("the URL of the proxy is not valid"))
    }

    @Test("the default port is that of the scheme, and the password is not shown")
    func parsed() {
        #expect(WebProxy("http://proxy.example")?.origin == "http://proxy.example:80")
        #expect(WebProxy("https://user:secret@proxy.example/")?.origin == "https://proxy.example:443")
        let proxy = WebProxy("https://user:secret@proxy.example/")
        #expect(!"\(String(describing: proxy)) \(String(reflecting: proxy))".contains("secret"))
    }
}
