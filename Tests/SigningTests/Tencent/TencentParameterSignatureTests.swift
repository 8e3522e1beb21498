import SluiceTesting
import Testing

@testable import Signing

@Suite("Parameter signatures of Tencent Cloud's API", .timeLimit(.minutes(10)))
struct TencentParameterSignatureTests {
    static let now: Int64 = 1_571_215_095
    static let credentials = SigningCredentials(
        accessKeyID: "AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE",
        secretAccessKey: "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE"
    )

    static func request(_ query: [SigningField], host: String = "cvm.tencentcloudapi.com") -> SigningRequest {
        SigningRequest(method: "GET", host: host, path: "/", query: query)
    }

    func signed(_ query: [SigningField], isSHA256: Bool = false) -> SigningRequest {
        let request = Self.request(query)
        var signed = request
        signed.query = TencentParameterSignature.sign(
            request,
            credentials: Self.credentials,
            isSHA256: isSHA256,
            nonce: "11886",
            at: Self.now
        )
        return signed
    }

    func verify(_ request: SigningRequest, at now: Int64 = now) throws(RequestSignatureFailure) {
        let claim = try TencentParameterSignature.claim(request, at: now)
        try TencentParameterSignature.verify(claim, credentials: Self.credentials)
    }

    static let query = [
        SigningField("Action", "DescribeInstances"), SigningField("InstanceIds.0", "ins 09dx96dg+"),
        SigningField("Placement_Zone", "a_b"),
    ]

    @Test("the signed text has unescaped parameters in order")
    func text() throws {
        let claim = try TencentParameterSignature.claim(signed(Self.query), at: Self.now)
        #expect(
            claim.stringToSign
                == "GETcvm.tencentcloudapi.com/?Action=DescribeInstances&InstanceIds.0=ins 09dx96dg+&Nonce=11886"
                + "&Placement.Zone=a_b&SecretId=\(Self.credentials.accessKeyID)&SignatureMethod=HmacSHA1"
                + "&Timestamp=1571215095"
        )
        #expect(claim.nonce == "11886")
    }

    @Test("each parameter is signed", arguments: [false, true])
    func tampering(_ isSHA256: Bool) throws {
        let request = signed(Self.query, isSHA256: isSHA256)
        try expectEachParameterIsSigned(request, timestamp: "1571215096") { try verify($0) }
        var other = request
        other.path = "/x"
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(other) }
        try verify(try request.changing("host", to: "cvm.tencentcloudapi.com:8080"))
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(try request.changing("host", to: "x")) }
        #expect(throws: RequestSignatureFailure.missingHeader("host")) {
            try verify(try request.changing("host", to: nil))
        }
    }

    @Test("wrong parts and times are refused")
    func parts() throws {
        let request = signed(Self.query)
        #expect(throws: RequestSignatureFailure.noSignature) { try verify(Self.request(Self.query)) }
        #expect(throws: RequestSignatureFailure.unsupportedAlgorithm) {
            try verify(try request.changing("SignatureMethod", to: "HmacMD5"))
        }
        for text in ["", "AAAA", "x", "2rZVscqhzOBk8vY548oK38Yzw6Q"] {
            #expect(throws: RequestSignatureFailure.malformed("Signature")) {
                try verify(try request.changing("Signature", to: text))
            }
        }
        for text in ["", "-1", "1.5", "99999999999999999999"] {
            #expect(throws: RequestSignatureFailure.malformed("Timestamp")) {
                try verify(try request.changing("Timestamp", to: text))
            }
        }
        for name in ["SecretId", "Timestamp", "Nonce"] {
            #expect(throws: RequestSignatureFailure.missingParameter(name)) {
                try verify(try request.changing(name, to: nil))
            }
        }
        try verify(request, at: Self.now + 300)
        try verify(request, at: Self.now - 300)
        #expect(throws: RequestSignatureFailure.skewed) { try verify(request, at: Self.now + 301) }
        #expect(throws: RequestSignatureFailure.skewed) { try verify(request, at: Self.now - 301) }
    }

    @Test("signed requests are accepted, and nothing else", arguments: 0..<200)
    func property(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let request = random.request(repeats: false)
        let credentials = random.credentials()
        var signed = request
        signed.query = TencentParameterSignature.sign(
            request,
            credentials: credentials,
            isSHA256: seed % 2 == 0,
            nonce: "1",
            at: Self.now
        ).shuffled(using: &random)
        try expectEachValueIsSigned(signed, appending: "!") { request in
            let claim = try TencentParameterSignature.claim(request, at: Self.now)
            try TencentParameterSignature.verify(claim, credentials: credentials)
        }
    }
}
