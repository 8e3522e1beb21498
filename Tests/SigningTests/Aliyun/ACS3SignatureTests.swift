import SluiceTesting
import Bytes
import Testing

@testable import Signing

@Suite("ACS3-HMAC-SHA256", .timeLimit(.minutes(10)))
struct ACS3SignatureTests {
    /// 2026-01-02 03:04:05 UTC.
    static let now: Int64 = 1_767_323_045

    /// "Request syntax and signature method V3", Alibaba Cloud documentation.
    @Test("the signature matches the documentation")
    func documented() throws {
        let now = try #require(SigningTime.parseExtended("2023-10-26T10:22:32Z"))
        let request = SigningRequest(
            method: "POST",
            host: "ecs.cn-shanghai.aliyuncs.com",
            path: "/",
            query: [
                SigningField("RegionId", "cn-shanghai"),
                SigningField("ImageId", "win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd"),
            ],
            headers: [SigningField("x-acs-action", "RunInstances"), SigningField("x-acs-version", "2014-05-26")]
        )
        let credentials = SigningCredentials(
            accessKeyID: "YourAccessKeyId",
            secretAccessKey: "YourAccessKeySecret"
        )
        let fields = ACS3Signature.sign(
            request,
            credentials: credentials,
            nonce: "3156853299f313e23d1673dc12e1703d",
            at: now
        )
        #expect(
            fields.last?.value
                == "ACS3-HMAC-SHA256 Credential=YourAccessKeyId,SignedHeaders=host;x-acs-action;x-acs-content-sha256;"
                + "x-acs-date;x-acs-signature-nonce;x-acs-version,"
                + "Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"
        )
        var signed = request
        signed.headers += fields
        let claim = try ACS3Signature.claim(signed, at: now)
        #expect(
            claim.stringToSign
                == "ACS3-HMAC-SHA256\n7ea06492da5221eba5297e897ce16e55f964061054b7695beedaac1145b1e259"
        )
        try ACS3Signature.verify(claim, credentials: credentials)
    }

    static let credentials = SigningCredentials(
        accessKeyID: "STS.NUexample",
        secretAccessKey: "examplesecret",
        sessionToken: "CAIStoken+/="
    )

    func signed() -> SigningRequest {
        let request = SigningRequest(
            method: "POST",
            host: "127.0.0.1:18480",
            path: "/",
            query: [SigningField("Title", "a b+c"), SigningField("FileName", "x.mp4")],
            headers: [
                SigningField("accept", "application/json"), SigningField("user-agent", "ua"),
                SigningField("x-acs-action", "CreateUploadVideo"), SigningField("x-acs-version", "2017-03-21"),
                SigningField("x-acs-credentials-provider", "static_sts"),
            ]
        )
        var signed = request
        signed.headers += ACS3Signature.sign(
            request,
            credentials: Self.credentials,
            nonce: "00000000111122223333444444444444",
            at: Self.now
        )
        return signed
    }

    @discardableResult
    func verify(
        _ request: SigningRequest,
        at now: Int64 = now
    ) throws(RequestSignatureFailure) -> ACS3Signature.Claim {
        let claim = try ACS3Signature.claim(request, at: now)
        try ACS3Signature.verify(claim, credentials: Self.credentials)
        return claim
    }

    /// alibabacloud-tea-openapi 0.4.6.
    @Test("the signature matches the SDK")
    func sdk() throws {
        let claim = try verify(signed())
        #expect(claim.signature == "ab6dd3efde34d35d90bf61d743d1a5e8f2aeb53350cb8fe70752600fdca51955")
        #expect(claim.stringToSign.hasSuffix("952d7c313eb0c9a2e084e03798f54909ebb43d45158c7ad384e017f3dc5dccea"))
        #expect(claim.contentHash.count == 32)
        #expect(claim.nonce == "00000000111122223333444444444444")
        #expect(claim.token == "CAIStoken+/=")
        #expect(claim.date == Self.now)
    }

    @Test("signed parts cannot be changed, unsigned ones can")
    func tampering() throws {
        let request = signed()
        for field in request.headers + request.query where field.name != "authorization" {
            let value =
                switch field.name {
                case "x-acs-date": "2026-01-02T03:04:06Z"
                case "x-acs-content-sha256": String(repeating: "0", count: 64)
                default: "other"
                }
            #expect(throws: RequestSignatureFailure.wrongSignature) {
                try verify(try request.changing(field.name, to: value))
            }
            #expect(throws: RequestSignatureFailure.self) { try verify(try request.changing(field.name, to: nil)) }
        }
        for field in request.headers {
            var twice = request
            twice.headers.append(field)
            #expect(throws: RequestSignatureFailure.duplicate(field.name)) { try verify(twice) }
        }
        var more = request
        more.query.append(SigningField("a", ""))
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(more) }
        more = request
        more.query.append(SigningField("Title", "x"))
        #expect(throws: RequestSignatureFailure.duplicate("Title")) { try verify(more) }
        more = request
        more.headers.append(SigningField("x-other", ""))
        more.query.reverse()
        try verify(more)
        more.headers.append(SigningField("X-Acs-Other", ""))
        #expect(throws: RequestSignatureFailure.unsignedHeader("x-acs-other")) { try verify(more) }
        more = request
        more.path = "/x"
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(more) }
    }

    @Test(
        "wrong parts of Authorization are refused",
        arguments: [
            ("ACS3-HMAC-SHA256", "ACS3-HMAC-SM3", RequestSignatureFailure.unsupportedAlgorithm),
            ("Credential=", "Credentials=", .malformed("Authorization")),
            ("Credential=STS.NUexample", "Credential=", .malformed("Credential")),
            ("Credential=STS.NUexample,", "", .missingParameter("Credential")),
            ("Credential=STS", "Credential=STT", .wrongSignature),
            ("SignedHeaders=accept;host", "SignedHeaders=host;accept", .malformed("SignedHeaders")),
            ("SignedHeaders=accept;host", "SignedHeaders=accept", .unsignedHeader("host")),
            ("SignedHeaders=accept;host", "SignedHeaders=absent;accept;host", .missingHeader("absent")),
            (";x-acs-action", "", .unsignedHeader("x-acs-action")),
            ("SignedHeaders=accept;", "SignedHeaders=", .wrongSignature),
            ("Signature=", "Signature=0", .malformed("Signature")),
        ]
    )
    func parts(_ old: String, _ new: String, _ failure: RequestSignatureFailure) throws {
        let request = try signed().replacing(old, new)
        #expect(throws: failure) { try verify(request) }
    }

    @Test("a missing signature and wrong times are refused")
    func times() throws {
        #expect(throws: RequestSignatureFailure.noSignature) { try verify(SigningRequest(method: "GET", path: "/")) }
        let request = signed()
        try verify(request, at: Self.now + 900)
        try verify(request, at: Self.now - 900)
        #expect(throws: RequestSignatureFailure.skewed) { try verify(request, at: Self.now + 901) }
        #expect(throws: RequestSignatureFailure.skewed) { try verify(request, at: Self.now - 901) }
        for text in ["x", "20260102T030405Z"] {
            #expect(throws: RequestSignatureFailure.malformed("x-acs-date")) {
                try verify(try request.changing("x-acs-date", to: text))
            }
        }
        for text in ["x", "UNSIGNED-PAYLOAD", String(repeating: "A", count: 64)] {
            #expect(throws: RequestSignatureFailure.malformed("x-acs-content-sha256")) {
                try verify(try request.changing("x-acs-content-sha256", to: text))
            }
        }
    }

    @Test("signed requests are accepted, and nothing else", arguments: 0..<200)
    func property(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let request = random.request(repeats: false)
        let credentials = random.credentials()
        var signed = request
        signed.headers += ACS3Signature.sign(request, credentials: credentials, nonce: "1", at: Self.now)
        signed.headers.shuffle(using: &random)
        signed.query.shuffle(using: &random)
        func verify(_ request: SigningRequest) throws(RequestSignatureFailure) {
            let claim = try ACS3Signature.claim(request, at: Self.now)
            try ACS3Signature.verify(claim, credentials: credentials)
        }
        try expectEachValueIsSigned(signed, as: .wrongSignature) { try verify($0) }
        for position in signed.headers.indices {
            var changed = signed
            let field = signed.headers[position]
            changed.headers[position] = SigningField(field.name, field.value + "%")
            #expect(throws: RequestSignatureFailure.self) { try verify(changed) }
        }
    }
}
