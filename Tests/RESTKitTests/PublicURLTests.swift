import Bytes
import HTTPWire
import Testing
import Transport

@testable import RESTKit

private final class NoBody: RequestBody {
    let remaining: Int64? = 0
    let trailers = HTTPFields()
    let interrupter = SourceInterrupter { _ in }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? { nil }
}

@Suite("public URL", .timeLimit(.minutes(10)))
struct PublicURLTests {
    private func request(_ fields: HTTPFields) -> Request {
        let target = RequestTarget(rawPath: "/files", rawQuery: nil, authority: nil, segments: ["files"])
        return Request(
            head: RequestHead(method: .post, target: target, fields: fields),
            body: NoBody(),
            id: "1",
            peerAddress: "10.0.0.1",
            isEncrypted: false,
            inform: { _ in }
        )
    }

    @Test(
        "the base path follows the host, unless the public URL has a path of its own",
        arguments: [
            (nil, nil, "http://a.example"), (nil, "/up", "http://a.example/up"),
            ("https://b.example", nil, "https://b.example"), ("https://b.example", "/up", "https://b.example/up"),
            ("https://b.example/x", nil, "https://b.example/x"), ("https://b.example/x", "/up", "https://b.example/x"),
            ("https://b.example/up", "/up", "https://b.example/up"),
        ] as [(String?, String?, String)]
    )
    func bases(configured: String?, path: String?, base: String) throws {
        let url = PublicURL(configured: configured, basePath: path.flatMap(BasePath.init), trustedProxies: [])
        #expect(url.base(for: request(["Host": "a.example"])) == base)
        #expect(url.isSet == (configured != nil || path != nil))
    }

    @Test("a trusted proxy names scheme and host, and no prefix")
    func forwarded() throws {
        let proxies: PeerList = [try #require(PeerRange("10.0.0.0/8"))]
        let fields: HTTPFields = [
            "Host": "a.example", "X-Forwarded-Host": "b.example", "X-Forwarded-Proto": "https",
            "X-Forwarded-Prefix": "/evil",
        ]
        let url = PublicURL(configured: nil, basePath: BasePath("/up"), trustedProxies: proxies)
        #expect(url.base(for: request(fields)) == "https://b.example/up")
        #expect(PublicURL(configured: nil, trustedProxies: proxies).base(for: request(fields)) == "https://b.example")
    }
}
