import Bytes
import GatewayKit
import HTTPWire
import RESTKit
import Testing
import Transport

@testable import PlainUploads

@Suite("Interim responses and proxies", .timeLimit(.minutes(10)))
struct InterimResponsesTests {
    private func reaches(
        _ policy: UploadSettings.InterimResponses,
        _ fields: HTTPFields = HTTPFields(),
        publicURL: String? = nil,
        peer: String = "192.0.2.1",
        version: HTTPVersion = .http1_1,
        isEncrypted: Bool = true
    ) throws -> Bool {
        let target = RequestTarget(rawPath: "/files", rawQuery: nil, authority: nil, segments: ["files"])
        let request = Request(
            head: RequestHead(method: .post, target: target, version: version, fields: fields),
            body: NoBody(),
            id: "1",
            peerAddress: peer,
            isEncrypted: isEncrypted,
            inform: { _ in }
        )
        let proxies: PeerList = [try #require(PeerRange("10.0.0.0/8"))]
        let url = PublicURL(configured: publicURL, trustedProxies: proxies)
        return InterimResponses(policy: policy, publicURL: url).reachClient(of: request)
    }

    @Test("a client whose TLS ends here gets interim responses")
    func direct() throws {
        #expect(try reaches(.direct, ["Host": "a", "Upload-Draft-Interop-Version": "8"]))
        #expect(try reaches(.direct, publicURL: "https://up.example"))
    }

    @Test("without TLS a proxy can be between, whatever the request says", arguments: [nil, "http://up.example"])
    func plain(publicURL: String?) throws {
        #expect(try !reaches(.direct, publicURL: publicURL, isEncrypted: false))
        #expect(try reaches(.always, publicURL: publicURL, isEncrypted: false))
    }

    @Test(
        "a field that proxies add suppresses them",
        arguments: [
            HTTPFields(dictionaryLiteral: ("Via", "1.1 a")), ["Forwarded": "for=192.0.2.7"],
            ["X-Forwarded-For": "192.0.2.7"], ["x-forwarded-proto": "https"], ["X-Forwarded-Host": "up.example"],
            ["X-Real-IP": "192.0.2.7"], ["CDN-Loop": "a"],
        ]
    )
    func named(fields: HTTPFields) throws {
        #expect(try !reaches(.direct, fields))
        #expect(try reaches(.always, fields))
    }

    @Test("a trusted proxy as peer suppresses them too")
    func silent() throws {
        #expect(try !reaches(.direct, peer: "10.1.2.3"))
        #expect(try reaches(.direct, peer: "11.1.2.3"))
        #expect(try reaches(.always, publicURL: "https://up.example", peer: "10.1.2.3"))
    }

    @Test("`never` suppresses them always, and HTTP/1.0 has none")
    func never() throws {
        #expect(try !reaches(.never))
        #expect(try !reaches(.always, version: .http1_0))
        #expect(try !reaches(.direct, version: .http1_0))
    }

    private final class NoBody: RequestBody {
        let trailers = HTTPFields()
        let remaining: Int64? = 0
        let interrupter = SourceInterrupter { _ in }

        func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? { nil }
    }
}
