import Bytes
import HTTPWire
import Testing

@testable import Signing

/// Signatures from the documentation or from clients, each with its source.
@Suite("Known OSS signatures", .timeLimit(.minutes(10)))
struct OSSDocumentedTests {
    static let bucket = "outin-0123456789abcdef0123456789abcdef"
    static let resource = OSSResource(bucket: bucket, key: "sv/日本 a+b~/1.mp4")
    /// 2026-01-02 03:04:05 UTC.
    static let now: Int64 = 1_767_323_045
    static let video = [SigningField("Content-Type", "video/mp4")]
    static let part = [
        SigningField("Content-Type", "application/octet-stream"),
        SigningField("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
    ]
    static let partQuery = [SigningField("partNumber", "2"), SigningField("uploadId", "0004B9895DBBB6EC98E36")]

    static func credentials(_ isTemporary: Bool) -> SigningCredentials {
        SigningCredentials(
            accessKeyID: isTemporary ? "STS.NUexample" : "LTAIexample",
            secretAccessKey: "examplesecret",
            sessionToken: isTemporary ? "CAIStoken+/=" : nil
        )
    }

    static func request(
        _ method: String,
        _ query: [SigningField] = [],
        _ headers: [SigningField] = video
    ) -> SigningRequest {
        SigningRequest(method: method, path: "/", query: query, headers: headers)
    }

    static func signer(_ scheme: Int, isTemporary: Bool) -> OSSSigner {
        OSSSigner(credentials: credentials(isTemporary), scheme: OSSSigner.Scheme.forTests[scheme])
    }

    @Test(
        "version 1 in Authorization matches",
        arguments: [
            // alibabacloud-oss-v2 1.4.1
            (request("PUT"), false, "QcAezuNXCf604dKFDXkSCjHchX0="),
            (request("POST", [SigningField("uploads", "")]), false, "NXeKj+iuALKhyEqqEEUDoT22wy0="),
            (request("PUT", partQuery, part), false, "YHpG9IISVJXGWj7wa9xSRBEvH1U="),
            // oss2 2.19.1
            (request("PUT"), true, "Q+i0P9iI7cbV4kq9+wwU1O9lJHs="),
            (request("POST", [SigningField("uploads", "")]), true, "WiZ4PZwOuQ/M89YAiv5XEPnhJss="),
        ]
    )
    func v1(_ request: SigningRequest, _ isTemporary: Bool, _ signature: String) throws {
        let signer = Self.signer(0, isTemporary: isTemporary)
        let fields = signer.sign(request, resource: Self.resource, at: Self.now)
        let credentials = Self.credentials(isTemporary)
        #expect(fields.last?.value == "OSS \(credentials.accessKeyID):\(signature)")
        var signed = request
        signed.headers += fields
        let claim = try OSSVerifier.forTests.claim(signed, at: Self.now)
        #expect(claim.version == .v1)
        #expect(claim.date == Self.now)
        #expect(claim.expiry == nil)
        let found = try OSSVerifier.forTests.verify(claim, resources: [Self.resource], credentials: credentials)
        #expect(found == Self.resource)
    }

    /// ali-oss 6.23.0 in a browser, which cannot set Date.
    @Test("version 1 from a browser matches")
    func browser() throws {
        let request = Self.request(
            "PUT",
            [],
            Self.video + [
                SigningField("x-oss-date", "Fri, 02 Jan 2026 03:04:05 GMT"),
                SigningField("x-oss-security-token", "CAIStoken+/="),
                SigningField("x-oss-user-agent", "aliyun-sdk-js/5.3.1 test"),
                SigningField("Authorization", "OSS STS.NUexample:D+18Cxa+fwozPatG284+A+++ugU="),
                SigningField("date", "Sat, 03 Jan 2026 03:04:05 GMT"),
            ]
        )
        let claim = try OSSVerifier.forTests.claim(request, at: Self.now + 900)
        #expect(throws: Never.self) {
            try OSSVerifier.forTests.verify(
                claim,
                resources: [OSSResource(bucket: Self.bucket, key: "sv/1.mp4")],
                credentials: Self.credentials(true)
            )
        }
    }

    /// As version 1 of the SDK for Go signs; computed apart from this code.
    @Test("version 4 with Date alone matches")
    func onlyDate() throws {
        let id = "LTAIexample/20260102/cn-shanghai/oss/aliyun_v4_request"
        let signature = "c12ad2d9dca6b647503261e77988f85d7a0a17a8679dd24c11ea9b9d2ed23475"
        let request = Self.request(
            "PUT",
            [],
            Self.video + [
                SigningField("x-oss-content-sha256", "UNSIGNED-PAYLOAD"),
                SigningField("Date", "Fri, 02 Jan 2026 03:04:05 GMT"),
                SigningField("Authorization", "OSS4-HMAC-SHA256 Credential=\(id),Signature=\(signature)"),
            ]
        )
        #expect(throws: Never.self) { try Self.check(request) }
        #expect(try OSSVerifier.forTests.claim(request, at: Self.now).date == Self.now)
        for (old, new, failure) in [
            ("03:04:05", "03:04:06", RequestSignatureFailure.wrongSignature), ("02 Jan", "03 Jan", .wrongDay),
            ("2026", "MMXXVI", .malformed("date")),
        ] {
            var changed = request
            changed.headers = request.headers.map { field in
                field.name == "Date" ? SigningField("Date", field.value.replacing(old, with: new)) : field
            }
            #expect(throws: failure) { try Self.check(changed) }
        }
    }

    private static func check(_ request: SigningRequest) throws(RequestSignatureFailure) {
        let claim = try OSSVerifier.forTests.claim(request, at: now)
        _ = try OSSVerifier.forTests.verify(
            claim,
            resources: [OSSResource(bucket: bucket, key: "sv/1.mp4")],
            credentials: credentials(false)
        )
    }

    /// alibabacloud-oss-v2 1.4.1.
    @Test("version 1 in the query matches")
    func v1Query() throws {
        let signer = Self.signer(0, isTemporary: true)
        let query = signer.presign(Self.request("PUT"), resource: Self.resource, at: Self.now, lifetime: 600)
        #expect(query.last == SigningField("Signature", "zuGsDS5X+y/PpjYv8VuOvPKD27A="))
        let claim = try OSSVerifier.forTests.claim(Self.request("PUT", query), at: Self.now)
        #expect(claim.expiry == 1_767_323_645)
        #expect(claim.date == nil)
    }

    @Test(
        "version 4 in Authorization matches",
        arguments: [
            // alibabacloud-oss-v2 1.4.1
            (
                request("PUT", [], video + [SigningField("x-oss-meta-a", "1")]), [],
                "28164cba67a5f652d35f387e581f08e9ad185e5b9ab3131c4ed117ac6e727617"
            ),
            // oss2 2.19.1
            (request("PUT"), [], "8a44fe0c7bfbe99e9b17ae360f2dffc12f7d0bee97257f69cffc29e200acc390"),
            // both
            (
                request("POST", [SigningField("uploads", "")]), [],
                "d18def4944a7d567d60c21ccf3a60ce96e03a53808bc0aa99d78f232e90027e3"
            ),
            // alibabacloud-oss-v2 1.4.1
            (
                request("PUT", partQuery, part + [SigningField("host", "x")]), ["host"],
                "64abbac5273e3efb9b1e418b91bd78f665593c6ae5b273fa641b50389d6185b8"
            ),
        ] as [(SigningRequest, [String], String)]
    )
    func v4(_ request: SigningRequest, _ additional: [String], _ signature: String) throws {
        let signer = Self.signer(1, isTemporary: true)
        let fields = signer.sign(request, resource: Self.resource, additionalHeaders: additional, at: Self.now)
        let list = additional.isEmpty ? "" : "AdditionalHeaders=host,"
        #expect(
            fields.last?.value
                == "OSS4-HMAC-SHA256 Credential=STS.NUexample/20260102/cn-shanghai/oss/aliyun_v4_request,"
                + "\(list)Signature=\(signature)"
        )
        var signed = request
        signed.headers += fields
        let claim = try OSSVerifier.forTests.claim(signed, at: Self.now)
        #expect(claim.scope?.region == "cn-shanghai")
        _ = try OSSVerifier.forTests.verify(
            claim,
            resources: [Self.resource],
            credentials: Self.credentials(true)
        )
    }

    @Test("canonical request, key and string to sign of version 4 match")
    func v4Steps() throws {
        let request = Self.request("POST", [SigningField("uploads", "")])
        var signed = request
        signed.headers += Self.signer(1, isTemporary: true).sign(request, resource: Self.resource, at: Self.now)
        let claim = try OSSVerifier.forTests.claim(signed, at: Self.now)
        #expect(
            claim.canonicalRequest(for: Self.resource)
                == "POST\n/\(Self.bucket)/sv/%E6%97%A5%E6%9C%AC%20a%2Bb~/1.mp4\nuploads\ncontent-type:video/mp4\n"
                + "x-oss-content-sha256:UNSIGNED-PAYLOAD\nx-oss-date:20260102T030405Z\n"
                + "x-oss-security-token:CAIStoken+/=\n\n\nUNSIGNED-PAYLOAD"
        )
        #expect(
            claim.stringToSign(for: Self.resource).hasSuffix(
                "\n2edeb5b8fafb078ff80f8b478b51408204ee14c4c345c0666aaf8097b9ce4ab0"
            )
        )
        #expect(OSSScope(day: "20260102", region: "cn-shanghai").text == claim.scope?.text)
    }

    /// alibabacloud-oss-v2 1.4.1.
    @Test("version 4 in the query matches")
    func v4Query() throws {
        let signer = Self.signer(1, isTemporary: true)
        let query = signer.presign(Self.request("PUT"), resource: Self.resource, at: Self.now, lifetime: 600)
        #expect(query.last?.value == "c424e74e27706149c85dff5690815f84e20429609c5d6c6442fc4ea6ad7b50f2")
        let claim = try OSSVerifier.forTests.claim(Self.request("PUT", query), at: Self.now)
        #expect(
            claim.stringToSign(for: Self.resource).hasSuffix(
                "\n4bfe296af94078c6bf009052f350373f8c1cf771fe820e178dcc770b3eb5f840"
            )
        )
    }

    /// "Include signatures in the Authorization header" and "Include a signature in a URL", OSS documentation.
    @Test("version 1 matches the documentation")
    func documentation() throws {
        let secret = "OtxrzxIsfpFjA7SwPzILwy8Bw21TLhquhboDYROV"
        let credentials = SigningCredentials(accessKeyID: "id", secretAccessKey: secret)
        let date = try #require(HTTPDate.parse("Thu, 17 Nov 2005 18:49:58 GMT"))
        let signer = OSSSigner(credentials: credentials, scheme: OSSSigner.Scheme.forTests[0])
        for (md5, signature) in [
            ("ODBGOERFMDMzQTczRUY3NUE3NzA5QzdFNUYzMDQxNEM=", "26NBxoKdsyly4EDv6inkoDft/yA="),
            ("eB5eJF1ptWaXm4bijSPyxw==", "hD208RWMpg77svXkQRwWXS+V5KQ="),
        ] {
            let headers = [
                SigningField("Content-Type", "text/html"), SigningField("Content-Md5", md5),
                SigningField("X-OSS-Meta-Author", "foo@bar.com"), SigningField("X-OSS-Magic", "abracadabra"),
            ]
            let fields = signer.sign(
                Self.request("PUT", [], headers),
                resource: OSSResource(bucket: "oss-example", key: "nelson"),
                at: date
            )
            #expect(fields.last?.value == "OSS id:\(signature)")
        }
        let query = signer.presign(
            Self.request("GET", [], []),
            resource: OSSResource(bucket: "oss-example", key: "oss-api.pdf"),
            at: 1_141_889_000,
            lifetime: 120
        )
        #expect(query.last?.value == "EwaNTn1erJGkimiJ9WmXgwnANLc=")
    }

    /// The first signature by ali-oss 6.23.0 (signPostObjectPolicyV4), the second computed by hand.
    @Test("signatures of forms match")
    func forms() throws {
        let conditions = [
            #"{"bucket":"\#(Self.bucket)"}"#, #"["starts-with","$key","sv/"]"#, #"["content-length-range",0,1048576]"#,
            #"{"x-oss-signature-version":"OSS4-HMAC-SHA256"}"#,
            #"{"x-oss-credential":"STS.NUexample/20260102/cn-shanghai/oss/aliyun_v4_request"}"#,
            #"{"x-oss-date":"20260102T030405Z"}"#, #"{"x-oss-security-token":"CAIStoken+/="}"#,
        ]
        let json =
            #"{"expiration":"2026-01-02T04:04:05.000Z","conditions":[\#(conditions.joined(separator: ","))]}"#
        let policy = Base64.encode(Array(json.utf8))
        for (index, signature) in [
            "2oYfISBH+tmzpVtyeV/tUEKJgAQ=", "971743fb7756586d19d3e3f6da436975244051933c62450b4ed1fa0cd35e7ef2",
        ].enumerated() {
            let fields = Self.signer(index, isTemporary: true).form(policy: { _ in policy }, at: Self.now)
            #expect(fields.last?.value == signature)
            let claim = try OSSVerifier.forTests.claim(form: fields, at: Self.now)
            try OSSVerifier.forTests.verify(claim, credentials: Self.credentials(true))
            #expect(claim.policy == policy)
            #expect(claim.version == (index == 0 ? .v1 : .v4))
        }
    }
}
