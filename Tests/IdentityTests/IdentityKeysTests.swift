import Bytes
import Foundation
import HTTPClient
import HTTPServer
import HTTPWire
import Signing
import SluiceTesting
import Synchronization
import SystemIO
import Testing
import Transport

@testable import Identity

@Suite("Keys of an identity provider", .timeLimit(.minutes(10)))
struct IdentityKeysTests {
    /// A provider on 127.0.0.1, whose keys a test changes.
    private final class Provider: RequestHandler, ServerObserver {
        struct Contents {
            var paths: [String] = []
            /// Content of `/keys`.
            var keys = IdentityKeysTests.set("a")
            var status = 200
            /// Whether requests wait for their response.
            var isHeld = false
            /// The issuer in the configuration, if it is not its own URL.
            var issuer: String?
            var keysURL: String?
            var url = ""
        }

        let contents = Mutex(Contents())

        func respond(to request: Request) async -> Response {
            let path = request.head.target.rawPath
            contents.withLock { $0.paths.append(path) }
            while contents.withLock({ $0.isHeld }) { try? await Task.sleep(for: .milliseconds(5)) }
            return contents.withLock { contents in
                let text =
                    path == "/keys"
                    ? contents.keys
                    : """
                    {"issuer":"\(contents.issuer ?? contents.url)","jwks_uri":"\(contents.keysURL ?? contents.url + "/keys")"}
                    """
                return Response(Status(contents.status), HTTPFields(), .bytes(Array(text.utf8)))
            }
        }

        func connectionOpened() {}
        func connectionClosed() {}
        func requestFinished(_ summary: RequestSummary) {}
    }

    private static func set(_ ids: String...) -> String {
        let x = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
        let y = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
        let keys = ids.map { #"{"kty":"EC","crv":"P-256","kid":"\#($0)","x":"\#(x)","y":"\#(y)"}"# }
        return #"{"keys":[\#(keys.joined(separator: ","))]}"#
    }

    /// Its signature is not checked here.
    private static func token(_ id: String) throws -> JSONWebToken {
        let parts = [#"{"alg":"ES256","kid":"\#(id)"}"#, "{}", "signature"]
        return try JSONWebToken(parts.map { Base64.encodeURLSafe(Array($0.utf8)) }.joined(separator: "."))
    }

    /// The ids of the keys that may have signed a token.
    private func ids(_ keys: IdentityKeys, _ id: String) async throws -> [String?] {
        try await keys.keys(for: Self.token(id)).map(\.id)
    }

    private func withProvider(
        _ body: (Provider, ManualClock, (IdentityKeys.Place?) -> IdentityKeys) async throws -> Void
    ) async throws {
        let loops = try EventLoopGroup(count: 1)
        let provider = Provider()
        let server = try HTTPServer(
            address: SocketAddress(host: "127.0.0.1", port: 0),
            tls: nil,
            configuration: ServerConfiguration(),
            loops: loops,
            pool: BlockingPool(threads: 1, label: "test"),
            handler: provider,
            observer: provider
        )
        let url = "http://127.0.0.1:\(server.address.port)"
        provider.contents.withLock { $0.url = url }
        let running = Task { await server.run() }
        let client = HTTPClient(userAgent: "test", addresses: .any)
        let clock = ManualClock()
        let outcome: Result<Void, any Error>
        do {
            try await body(provider, clock) { IdentityKeys($0 ?? .ofIssuer(url), client: client, clock: clock) }
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        client.close()
        await server.shutDown()
        await running.value
        await loops.close()
        try outcome.get()
    }

    @Test("keys are found through the issuer's configuration, cached, and refreshed")
    func caching() async throws {
        try await withProvider { (provider, clock, make) async throws in
            let keys = make(nil)
            for _ in 0..<3 { #expect(try await ids(keys, "a") == ["a"]) }
            #expect(provider.contents.withLock { $0.paths } == ["/.well-known/openid-configuration", "/keys"])
            // A withdrawn key is trusted no longer than this.
            provider.contents.withLock { $0.keys = Self.set("b") }
            clock.advance(by: IdentityKeys.lifetime - 1)
            #expect(try await ids(keys, "a").count == 1)
            clock.advance(by: 1)
            #expect(try await ids(keys, "a").isEmpty)
            #expect(provider.contents.withLock { $0.paths.count } == 4)
            // Setting the clock back does not extend their lifetime.
            clock.advance(by: -2 * IdentityKeys.lifetime)
            #expect(try await ids(keys, "b").count == 1)
            #expect(provider.contents.withLock { $0.paths.count } == 6)
        }
    }

    @Test("an unknown key causes a fetch, but not repeatedly")
    func unknownKeys() async throws {
        try await withProvider { (provider, clock, make) async throws in
            let keys = make(.at(provider.contents.withLock { $0.url } + "/keys"))
            #expect(try await ids(keys, "a").count == 1)
            provider.contents.withLock { $0.keys = Self.set("a", "b") }
            for _ in 0..<50 { #expect(try await ids(keys, "b").isEmpty) }
            #expect(provider.contents.withLock { $0.paths } == ["/keys"])
            clock.advance(by: IdentityKeys.pause)
            #expect(try await ids(keys, "b").count == 1)
            for _ in 0..<50 { #expect(try await ids(keys, "c").isEmpty) }
            #expect(provider.contents.withLock { $0.paths.count } == 2)
        }
    }

    @Test("concurrent callers cause one fetch")
    func atOnce() async throws {
        try await withProvider { (provider, _, make) async throws in
            let keys = make(nil)
            try await withThrowingTaskGroup { group in
                for _ in 0..<20 { group.addTask { try await ids(keys, "a").count } }
                for try await count in group { #expect(count == 1) }
            }
            #expect(provider.contents.withLock { $0.paths.count } == 2)
        }
    }

    @Test("while keys are fetched for tokens with unknown ones, known keys are used at once")
    func unknownKeysDelayNobody() async throws {
        try await withProvider { (provider, clock, make) async throws in
            let keys = make(.at(provider.contents.withLock { $0.url } + "/keys"))
            #expect(try await ids(keys, "a").count == 1)
            clock.advance(by: IdentityKeys.pause)
            provider.contents.withLock { $0.isHeld = true }
            var unknown = [Task.immediate { try await ids(keys, "x") }]
            // As early as the next fetch could be.
            clock.advance(by: IdentityKeys.pause)
            for number in 0..<20 { unknown.append(Task.immediate { try await ids(keys, "x\(number)") }) }
            // If one of these waited, the fetch would time out, and those with unknown keys would fail.
            for _ in 0..<50 { #expect(try await ids(keys, "a").count == 1) }
            provider.contents.withLock { $0.isHeld = false }
            for task in unknown { #expect(try await task.value.isEmpty) }
            #expect(provider.contents.withLock { $0.paths.count } == 2)
        }
    }

    @Test("while the provider is unavailable, known keys are used for a day")
    func away() async throws {
        try await withProvider { (provider, clock, make) async throws in
            let keys = make(nil)
            provider.contents.withLock { $0.status = 503 }
            await #expect(throws: IdentityKeys.Unavailable.self) { try await ids(keys, "a") }
            // No new fetch so soon, and the reason is still known.
            await #expect(throws: IdentityKeys.Unavailable.self) { try await ids(keys, "a") }
            #expect(provider.contents.withLock { $0.paths.count } == 1)
            provider.contents.withLock { $0.status = 200 }
            clock.advance(by: IdentityKeys.pause)
            #expect(try await ids(keys, "a").count == 1)
            provider.contents.withLock { $0.status = 503 }
            clock.advance(by: IdentityKeys.lifetimeAway - 1)
            #expect(try await ids(keys, "a").count == 1)
            // An unknown key cannot be called invalid now.
            await #expect(throws: IdentityKeys.Unavailable.self) { try await ids(keys, "b") }
            clock.advance(by: IdentityKeys.pause)
            await #expect(throws: IdentityKeys.Unavailable.self) { try await ids(keys, "a") }
        }
    }

    @Test("after a failed fetch, known keys are used at once, and the next fetch does its work meanwhile")
    func awayAtOnce() async throws {
        try await withProvider { (provider, clock, make) async throws in
            let keys = make(.at(provider.contents.withLock { $0.url } + "/keys"))
            #expect(try await ids(keys, "a").count == 1)
            provider.contents.withLock { $0.status = 503 }
            clock.advance(by: IdentityKeys.lifetime)
            #expect(try await ids(keys, "a").count == 1)
            provider.contents.withLock { contents in
                contents.status = 200
                contents.keys = Self.set("a", "b")
                contents.isHeld = true
            }
            clock.advance(by: IdentityKeys.pause)
            // If this waited, the fetch would time out, and the one for "b" would be too early.
            #expect(try await ids(keys, "a").count == 1)
            provider.contents.withLock { $0.isHeld = false }
            #expect((try? await ids(keys, "b").count) == 1)
            #expect(provider.contents.withLock { $0.paths.count } == 3)
        }
    }

    @Test("a malformed or oversized response, one of another issuer, or a redirect is refused")
    func badResponses() async throws {
        let changes: [@Sendable (inout Provider.Contents) -> Void] = [
            { $0.keys = "" }, { $0.keys = "{}" }, { $0.keys = #"{"keys":[]}"# },
            { $0.keys = #"{"keys":[{"kty":"oct"}]}"# },
            { $0.keys = Self.set("a") + String(repeating: " ", count: 256 << 10) },
            { $0.issuer = "https://other.example" },
            { $0.issuer = $0.url + "/" }, { $0.keysURL = "file:///etc/passwd" },
            { $0.keysURL = "http://192.0.2.1/keys" },
            { $0.keysURL = "/keys" }, { $0.status = 302 }, { $0.status = 404 },
        ]
        for (index, change) in changes.enumerated() {
            try await withProvider { (provider, _, make) async throws in
                provider.contents.withLock { change(&$0) }
                let error = await #expect(throws: IdentityKeys.Unavailable.self, "\(index)") {
                    try await ids(make(nil), "a")
                }
                // Clients may see the reason.
                #expect(error?.reason.contains("127.0.0.1") == false)
            }
        }
    }

    @Test(
        "keys that are not at an https URL are not asked for",
        arguments: ["file:///etc/passwd", "http://192.0.2.1/keys", "/keys"]
    )
    func unsafeKeys(url: String) async throws {
        try await withProvider { (provider, _, make) async throws in
            provider.contents.withLock { $0.keysURL = url }
            let error = await #expect(throws: IdentityKeys.Unavailable.self) { try await ids(make(nil), "a") }
            #expect(error?.reason == "its configuration names keys that are not at an https URL")
        }
    }

    @Test("a remote provider cannot refer to this machine, and none to plain http")
    func urls() {
        for url in [
            "https://login.example/keys", "HTTPS://login.example", "http://127.0.0.1:8080/", "http://[::1]/",
            "http://localhost/",
        ] {
            #expect(IdentityURL.isSafe(url), "\(url)")
        }
        for url in [
            "", "login.example", "http://login.example/", "http://10.0.0.1/", "ftp://127.0.0.1/", "file:///etc/passwd",
        ] {
            #expect(!IdentityURL.isSafe(url), "\(url)")
            #expect(!IdentityURL.isSafe(url, namedBy: "http://127.0.0.1"), "\(url)")
        }
        #expect(IdentityURL.isSafe("http://127.0.0.1:1/keys", namedBy: "http://localhost:2"))
        #expect(IdentityURL.isSafe("https://other.example/keys", namedBy: "https://login.example"))
        for url in ["http://127.0.0.1/keys", "https://127.1/keys", "https://localhost/keys", "https://[::1]:9000/keys"]
        {
            #expect(!IdentityURL.isSafe(url, namedBy: "https://login.example"), "\(url)")
        }
    }

    // MARK: Keys of the object store

    @Test("no two users have the same prefix, or one within another's")
    func prefixes() throws {
        let template = try #require(IdentityKeyPrefix("u/{sub}/"))
        func prefix(_ sub: String) throws -> String { try template.prefix(for: ["sub": .string(sub)]) }
        #expect(try prefix("anna") == "u/anna/")
        #expect(try prefix("auth0|5f.7-_~@:=+,") == "u/auth0|5f.7-_~@:=+,/")
        let subjects = [
            "a", "a/b", "a%2Fb", "a%252Fb", "a b", "a+b", ".", "..", "...", "%2E", "A", "ä", "a\u{308}", "日",
        ]
        let prefixes = try subjects.map(prefix)
        #expect(Set(prefixes.map { Array($0.utf8) }).count == subjects.count)
        for one in prefixes {
            #expect(one.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } && one.split(separator: "/").count == 2)
            #expect(prefixes.filter { $0.utf8.starts(with: one.utf8) } == [one])
        }
        #expect(try prefix("..") == "u/%2E%2E/")
        #expect(try prefix("a/../b") == "u/a%2F..%2Fb/")
    }

    @Test("a prefix contains claims of the token, which must exist")
    func claims() throws {
        let template = try #require(IdentityKeyPrefix("{tenant}/{https:example}x/"))
        let claims: JSONMembers = ["tenant": .integer(-7), "https:example": .string("é")]
        #expect(try template.prefix(for: claims) == "-7/%C3%A9x/")
        let bad: [JSONValue?] = [
            nil, .null, .string(""), .bool(true), .number(1.5), .array([.string("a")]),
            .string(String(repeating: "a", count: 256)),
        ]
        for value in bad {
            var changed = claims
            changed["tenant"] = value
            #expect(throws: IdentityKeyPrefix.MissingClaim(name: "tenant")) { try template.prefix(for: changed) }
        }
        #expect(try IdentityKeyPrefix("ci/")?.prefix(for: [:]) == "ci/")
        for text in [
            "", "{sub}", "/{sub}/", "{}/", "{sub/", "sub}/", "{a{b}}/", "{a/b}/", "../{sub}/", "a//{sub}/", "{ü}/",
            "a b/",
        ] {
            #expect(IdentityKeyPrefix(text) == nil, "\(text)")
        }
        #expect(IdentityKeyPrefix("{sub}/") == .default)
    }
}
