import SluiceTesting
import Bytes
import Testing

@testable import Signing

@Suite("TC3-HMAC-SHA256", .timeLimit(.minutes(10)))
struct TC3Tests {
    static let now: Int64 = 1_571_215_095
    static let credentials = SigningCredentials(
        accessKeyID: "AKIDUfLUEUigQiXqm7CVSspKJnuaiIKtxqAv",
        secretAccessKey: "bLcPnl88WU30VY57ipRhSePfPdOfSruK"
    )

    static func request(host: String = "vod.tencentcloudapi.com", type: String = "application/json") -> SigningRequest {
        SigningRequest(
            method: "POST",
            host: host,
            path: "/",
            headers: [SigningField("Content-Type", type), SigningField("X-TC-Action", "ApplyUpload")],
            payload: SigV4Payload(content: #"{"MediaType": "mp4", "SubAppId": 1500012345, "MediaName": "demo"}"#.utf8)
        )
    }

    func signed(_ request: SigningRequest, additional: [String] = [], at now: Int64 = now) -> SigningRequest {
        var signed = request
        let signer = TC3Signer(credentials: Self.credentials, service: "vod")
        signed.headers += signer.sign(request, additionalHeaders: additional, at: now)
        return signed
    }

    @discardableResult
    func verify(
        _ request: SigningRequest,
        service: String? = "vod",
        at now: Int64 = now
    ) throws(RequestSignatureFailure) -> TC3Claim {
        let verifier = TC3Verifier(service: service)
        let claim = try verifier.claim(request, at: now)
        try verifier.verify(claim, credentials: Self.credentials)
        return claim
    }

    /// "Signature method v3", Tencent Cloud API documentation.
    @Test("the signature matches the documentation")
    func documented() throws {
        let body = ##"{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}"##
        let request = SigningRequest(
            method: "POST",
            host: "cvm.tencentcloudapi.com",
            path: "/",
            headers: [SigningField("Content-Type", "application/json; charset=utf-8")],
            payload: SigV4Payload(content: body.utf8)
        )
        #expect(request.payload.text == "35e9c5b0e3ae67532d3c9f17ead6c90222632e5b1ff7f6e89887f1398934f064")
        let credentials = SigningCredentials(
            accessKeyID: "id",
            secretAccessKey: "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE"
        )
        let fields = TC3Signer(credentials: credentials, service: "cvm").sign(request, at: 1_551_113_065)
        #expect(
            fields.last?.value
                == "TC3-HMAC-SHA256 Credential=id/2019-02-25/cvm/tc3_request, SignedHeaders=content-type;host, "
                + "Signature=72e494ea809ad7a8c8f7a4507b9bddcbaa8e581f516e8da2f66e2c5a96525168"
        )
        var signed = request
        signed.headers += fields
        let claim = try TC3Verifier(service: "cvm").claim(signed, at: 1_551_113_065)
        #expect(
            claim.stringToSign.hasSuffix("\n5ffe6a04c0664d6b969fab9a13bdab201d63ee709638e2749d62a09ca18d7031")
        )
    }

    /// tencentcloud-sdk-python-vod 3.1.194.
    @Test(
        "signatures match the SDK, also with a port in the host",
        arguments: [
            (
                "vod.tencentcloudapi.com", "15a290c6fc2b6fa2f243c3af1d0a73eb5bee2e0c7790b19c73b21e2ac8f3a965",
                "e186ae518dee32a6708883753d18ec4f5b140e3f58a04055e25808440392fa6f"
            ),
            (
                "127.0.0.1:8080", "51b1e58ece9fc8d32903a19bf99c196d1138f4ed7b683176ae4fce0e54b23e4a",
                "0947ce0777380def8b94d4fca249f696fd1343611fdc3bf0868ded2ae022b88e"
            ),
        ]
    )
    func sdk(_ host: String, _ hash: String, _ signature: String) throws {
        let claim = try verify(signed(Self.request(host: host)))
        #expect(claim.signature == signature)
        #expect(claim.stringToSign.hasSuffix("\n\(hash)"))
        #expect(claim.service == "vod")
        #expect(claim.signedHeaders == ["content-type", "host"])
    }

    @Test("signed parts cannot be changed, unsigned ones can")
    func tampering() throws {
        let request = signed(Self.request(), additional: ["x-tc-action"])
        for name in ["content-type", "host", "x-tc-action", "x-tc-timestamp"] {
            let value = name == "x-tc-timestamp" ? "1571215096" : "other"
            #expect(throws: RequestSignatureFailure.wrongSignature) {
                try verify(try request.changing(name, to: value))
            }
            #expect(throws: RequestSignatureFailure.missingHeader(name)) {
                try verify(try request.changing(name, to: nil))
            }
        }
        var changed = request
        changed.payload = SigV4Payload(content: "{}".utf8)
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(changed) }
        changed = request
        changed.headers.append(SigningField("X-TC-Content-SHA256", "UNSIGNED-PAYLOAD"))
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(changed) }
        changed = request
        changed.query = [SigningField("a", "")]
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(changed) }
        changed = request
        changed.path = "/x"
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(changed) }
        try verify(try signed(Self.request()).changing("x-tc-action", to: "Other"))
        changed = request
        changed.headers.append(SigningField("X-TC-Token", "t"))
        #expect(throws: RequestSignatureFailure.wrongToken) { try verify(changed) }
    }

    /// The documentation requires header values in lower case; the SDKs do not change them.
    @Test("header values can be signed in lower case")
    func lowercase() throws {
        var request = signed(Self.request(type: "multipart/form-data; boundary=abc"), additional: ["x-tc-action"])
        request = try request.changing("content-type", to: "Multipart/Form-Data; boundary=ABC")
        // The value "ApplyUpload" was signed, so lower case does not match.
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(request) }
        var lower = signed(Self.request(type: "multipart/form-data; boundary=abc"))
        lower = try lower.changing("content-type", to: "Multipart/Form-Data; boundary=ABC")
        try verify(lower)
    }

    @Test("unsigned content and both encodings of spaces in a query are accepted")
    func unsigned() throws {
        var request = Self.request()
        request.payload = .unsigned
        var sent = signed(request)
        sent.payload = SigV4Payload(content: "anything".utf8)
        try verify(sent)
        #expect(throws: RequestSignatureFailure.wrongSignature) {
            try verify(try sent.changing("x-tc-content-sha256", to: nil))
        }
        request.query = [SigningField("b", "x y+z"), SigningField("a", "~é"), SigningField("a", "")]
        try verify(signed(request))
        let claim = try verify(signed(request))
        #expect(claim.canonicalRequest.contains("\nb=x+y%2Bz&a=~%C3%A9&a=\n"))
        var reordered = signed(request)
        reordered.query.swapAt(0, 2)
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(reordered) }
    }

    @Test(
        "wrong parts of Authorization are refused",
        arguments: [
            ("TC3-HMAC-SHA256", "TC3-HMAC-SHA1", RequestSignatureFailure.unsupportedAlgorithm),
            ("Credential=", "Credentials=", .malformed("Authorization")),
            ("/tc3_request", "/aws4_request", .wrongScope), ("/vod/", "/sts/", .wrongService),
            ("/2019-10-16/", "/2019-10-17/", .wrongDay), ("/2019-10-16/vod", "", .malformed("Credential")),
            ("content-type;host", "host;content-type", .malformed("SignedHeaders")),
            ("content-type;host", "content-type", .unsignedHeader("host")),
            ("content-type;host", "host", .unsignedHeader("content-type")),
            ("content-type;host", "content-type;host;x", .missingHeader("x")),
            ("content-type;host", "content-type;host;x-tc-action", .wrongSignature),
            ("Signature=", "Signature=0", .malformed("Signature")),
            ("Credential=AKID", "Credential=AKIE", .wrongSignature),
        ]
    )
    func parts(_ old: String, _ new: String, _ failure: RequestSignatureFailure) throws {
        let request = try signed(Self.request()).replacing(old, new)
        #expect(throws: failure) { try verify(request) }
    }

    @Test("a missing signature and wrong times are refused")
    func times() throws {
        #expect(throws: RequestSignatureFailure.noSignature) { try verify(Self.request()) }
        let request = signed(Self.request())
        try verify(request, service: nil, at: Self.now + 300)
        #expect(throws: RequestSignatureFailure.skewed) { try verify(request, at: Self.now + 301) }
        #expect(throws: RequestSignatureFailure.skewed) { try verify(request, at: Self.now - 301) }
        for text in ["1571215095.5", "-1", "x", "99999999999999999999"] {
            #expect(throws: RequestSignatureFailure.malformed("X-TC-Timestamp")) {
                try verify(try request.changing("x-tc-timestamp", to: text))
            }
        }
        #expect(throws: RequestSignatureFailure.wrongDay) {
            try verify(try request.changing("x-tc-timestamp", to: String(Int64.max)))
        }
    }

    @Test("signed requests are accepted, and nothing else", arguments: 0..<200)
    func property(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let request = random.request(repeats: true)
        let credentials = random.credentials()
        var signed = request
        signed.headers += TC3Signer(credentials: credentials, service: "vod").sign(request, at: Self.now)
        signed.headers.shuffle(using: &random)
        func verify(_ request: SigningRequest) throws(RequestSignatureFailure) {
            let verifier = TC3Verifier(service: nil)
            try verifier.verify(try verifier.claim(request, at: Self.now), credentials: credentials)
        }
        try verify(signed)
        for position in signed.query.indices {
            var changed = signed
            let field = signed.query[position]
            changed.query[position] = SigningField(field.name, field.value + "%")
            #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(changed) }
        }
        for name in ["host", "content-type"] {
            let changed = try signed.changing(name, to: "other")
            #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(changed) }
        }
    }
}
