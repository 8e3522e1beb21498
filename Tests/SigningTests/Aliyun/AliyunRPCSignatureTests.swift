import SluiceTesting
import Testing

@testable import Signing

struct KnownRPCSignature: Sendable {
    let method: String
    let secret: String
    let id: String
    let token: String?
    let time: String
    let nonce: String
    let parameters: [(String, String)]
    let signature: String
}

@Suite("RPC signatures of Alibaba Cloud", .timeLimit(.minutes(10)))
struct AliyunRPCSignatureTests {
    /// 2026-01-02 03:04:05 UTC.
    static let now: Int64 = 1_767_323_045
    static let ecs = "2016-02-23T12:46:24Z"
    static let ecsNonce = "3ee8c1b8-83d3-44af-a94f-4e0ad82fd6cf"

    static let hard: [(String, String)] = [
        ("Action", "CreateUploadVideo"), ("Version", "2017-03-21"), ("Format", "JSON"), ("RegionId", "cn-shanghai"),
        ("SignatureType", ""), ("Title", "日本 a+b*~/&=é"), ("FileName", "D:\\x y.mp4"), ("Tags", "a,b"),
    ]

    static let known: [KnownRPCSignature] = [
        // "Signature", ApsaraVideo VOD documentation.
        KnownRPCSignature(
            method: "GET",
            secret: "testAccessKeySecret",
            id: "testAccessKeyId",
            token: nil,
            time: "2017-10-10T12:02:54Z",
            nonce: "8f8a035d-6496-4268-afd4-67c22837e38d",
            parameters: [
                ("Action", "GetVideoPlayAuth"), ("VideoId", "5aed81b74ba84920be578cdfe004af4b"),
                ("Version", "2017-03-21"), ("Format", "JSON"),
            ],
            signature: "Ibgh7y8Vp47LBuAsf5Xhi1SvDss="
        ),
        // "Request signatures", ECS documentation.
        KnownRPCSignature(
            method: "GET",
            secret: "testsecret",
            id: "testid",
            token: nil,
            time: ecs,
            nonce: ecsNonce,
            parameters: [("Action", "DescribeRegions"), ("Format", "XML"), ("Version", "2014-05-26")],
            signature: "OLeaidS1JvxuMvnyHOwuJ+uX5qY="
        ),
        // aliyun-python-sdk-core 2.16.1
        KnownRPCSignature(
            method: "POST",
            secret: "testsecret",
            id: "testid",
            token: nil,
            time: ecs,
            nonce: ecsNonce,
            parameters: hard,
            signature: "CMHjTJlMx17KN/Kq+uN6gJjhMO0="
        ),
        KnownRPCSignature(
            method: "GET",
            secret: "testsecret",
            id: "testid",
            token: nil,
            time: ecs,
            nonce: ecsNonce,
            parameters: hard,
            signature: "axVJpMrIEiiSjtSq2SqPtVnXC8s="
        ),
        KnownRPCSignature(
            method: "POST",
            secret: "examplesecret",
            id: "STS.NUexample",
            token: "CAIStoken+/=",
            time: "2026-01-02T03:04:05Z",
            nonce: "00000000-1111-2222-3333-444444444444",
            parameters: [
                ("Action", "CreateUploadVideo"), ("Version", "2017-03-21"), ("Title", "a b+c"),
                ("FileName", "x.mp4"), ("SignatureType", ""), ("Format", "JSON"),
            ],
            signature: "TLMe91603susWqj9DGb6KjInYMQ="
        ),
    ]

    @Test("known signatures match", arguments: known)
    func matches(_ known: KnownRPCSignature) throws {
        let now = try #require(SigningTime.parseExtended(known.time))
        let credentials = SigningCredentials(
            accessKeyID: known.id,
            secretAccessKey: known.secret,
            sessionToken: known.token
        )
        let request = SigningRequest(
            method: known.method,
            path: "/",
            query: known.parameters.map { SigningField($0.0, $0.1) }
        )
        var signed = request
        signed.query = AliyunRPCSignature.sign(request, credentials: credentials, nonce: known.nonce, at: now)
        #expect(signed["Signature"] == known.signature)
        let claim = try AliyunRPCSignature.claim(signed, at: now)
        try AliyunRPCSignature.verify(claim, credentials: credentials)
        #expect(claim.nonce == known.nonce)
        #expect(claim.token == known.token)
        #expect(claim.stringToSign.hasPrefix("\(known.method)&%2F&AccessKeyId%3D"))
    }

    static let credentials = SigningCredentials(accessKeyID: "id", secretAccessKey: "secret", sessionToken: "t")

    func signed(_ query: [(String, String)] = hard) -> SigningRequest {
        let request = SigningRequest(method: "POST", path: "/", query: query.map { SigningField($0.0, $0.1) })
        var signed = request
        signed.query = AliyunRPCSignature.sign(request, credentials: Self.credentials, nonce: "n", at: Self.now)
        return signed
    }

    func verify(
        _ request: SigningRequest,
        at now: Int64 = now
    ) throws(RequestSignatureFailure) {
        let claim = try AliyunRPCSignature.claim(request, at: now)
        try AliyunRPCSignature.verify(claim, credentials: Self.credentials)
    }

    @Test("each parameter is signed")
    func tampering() throws {
        let request = signed()
        try expectEachParameterIsSigned(request, timestamp: "2026-01-02T03:04:06Z") { try verify($0) }
        var other = request
        other.query.reverse()
        try verify(other)
    }

    @Test("wrong parts and times are refused")
    func parts() throws {
        let request = signed()
        #expect(throws: RequestSignatureFailure.noSignature) { try verify(SigningRequest(method: "GET", path: "/")) }
        for (name, value) in [("SignatureMethod", "HMAC-SHA256"), ("SignatureVersion", "2.0")] {
            #expect(throws: RequestSignatureFailure.unsupportedAlgorithm) {
                try verify(try request.changing(name, to: value))
            }
        }
        // The rest is signed, so another request results.
        let timeless = try request.changing("Timestamp", to: nil)
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(timeless) }
        for token in [nil, ""] {
            let plain = try timeless.changing("SecurityToken", to: token)
            #expect(throws: RequestSignatureFailure.missingParameter("Timestamp")) { try verify(plain) }
        }
        for name in ["SignatureMethod", "SignatureVersion", "SignatureNonce", "AccessKeyId"] {
            #expect(throws: RequestSignatureFailure.missingParameter(name)) {
                try verify(try request.changing(name, to: nil))
            }
        }
        for text in ["", "AAAA", "x"] {
            #expect(throws: RequestSignatureFailure.malformed("Signature")) {
                try verify(try request.changing("Signature", to: text))
            }
        }
        for text in [
            "", "20260102T030405Z", "2026-01-02T03:04:05", "2026-02-30T03:04:05Z", "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05.xZ", "2026-01-02 03:04:05Z", "2026-01-02T03:04:05+00:00Z",
        ] {
            #expect(throws: RequestSignatureFailure.malformed("Timestamp")) {
                try verify(try request.changing("Timestamp", to: text))
            }
        }
        try verify(request, at: Self.now + 900)
        try verify(request, at: Self.now - 900)
        #expect(throws: RequestSignatureFailure.skewed) { try verify(request, at: Self.now + 901) }
        #expect(throws: RequestSignatureFailure.skewed) { try verify(request, at: Self.now - 901) }
    }

    /// ali-oss sends milliseconds.
    @Test("with a session token the timestamp may be missing")
    func timeless() throws {
        let request = SigningRequest(method: "POST", path: "/", query: [SigningField("Action", "CreateUploadVideo")])
        var signed = request
        signed.query = AliyunRPCSignature.sign(request, credentials: Self.credentials, nonce: "n", at: nil)
        #expect(!signed.query.contains { $0.name == "Timestamp" })
        #expect(throws: Never.self) { try verify(signed) }
        #expect(try AliyunRPCSignature.claim(signed, at: Self.now).timestamp == nil)
        try expectEachParameterIsSigned(signed, timestamp: "") { try verify($0) }
    }

    @Test("a timestamp can have a fraction")
    func fraction() {
        #expect(SigningTime.parseExtended("2026-01-02T03:04:05.123Z") == Self.now)
        #expect(SigningTime.parseExtended("2026-01-02T03:04:05.123456789Z") == Self.now)
        #expect(SigningTime.parseExtended("2026-01-02T03:04:05.1234567890Z") == nil)
        #expect(SigningTime.formatExtended(Self.now) == "2026-01-02T03:04:05Z")
    }

    @Test("signed requests are accepted, and nothing else", arguments: 0..<200)
    func property(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let request = random.request(repeats: false)
        let credentials = random.credentials()
        var signed = request
        signed.query = AliyunRPCSignature.sign(request, credentials: credentials, nonce: "1", at: Self.now)
            .shuffled(using: &random)
        try expectEachValueIsSigned(signed) { request in
            let claim = try AliyunRPCSignature.claim(request, at: Self.now)
            try AliyunRPCSignature.verify(claim, credentials: credentials)
        }
    }
}
