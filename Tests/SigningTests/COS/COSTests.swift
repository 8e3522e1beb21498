import SluiceTesting
import Bytes
import Digests
import Testing

@testable import Signing

@Suite("COS signatures", .timeLimit(.minutes(10)))
struct COSTests {
    static let credentials = SigningCredentials(
        accessKeyID: "AKIDUfLUEUigQiXqm7CVSspKJnuaiIKtxqAv",
        secretAccessKey: "bLcPnl88WU30VY57ipRhSePfPdOfSruK"
    )
    static let window = COSWindow(start: 1_571_215_035, end: 1_571_225_095)
    static let now: Int64 = 1_571_215_095
    static let host = "vodtest-1250000000.cos.ap-chongqing.myqcloud.com"

    static func request(
        _ method: String,
        _ path: String,
        _ query: [(String, String)],
        _ headers: [(String, String)]
    ) -> SigningRequest {
        SigningRequest(
            method: method,
            host: host,
            path: SigningRequest.path(of: path),
            query: query.map { SigningField($0.0, $0.1) },
            headers: headers.map { SigningField($0.0, $0.1) }
        )
    }

    func signed(
        _ request: SigningRequest,
        _ credentials: SigningCredentials = credentials,
        window: COSWindow = window
    ) -> SigningRequest {
        var signed = request
        signed.headers += COSSigner(credentials: credentials).sign(request, window: window)
        return signed
    }

    func presigned(
        _ request: SigningRequest,
        _ credentials: SigningCredentials = credentials
    ) -> SigningRequest {
        var signed = request
        signed.query = COSSigner(credentials: credentials).presign(request, window: Self.window)
        return signed
    }

    /// As the SDK for PHP presigns: with all that would be in the header.
    func presignedWhole(_ request: SigningRequest) throws -> SigningRequest {
        let fields = COSSigner(credentials: Self.credentials).sign(request, window: Self.window)
        var signed = request
        signed.query.insert(SigningField("sign", try #require(fields.last?.value)), at: 0)
        return signed
    }

    @Test("a presigned URL can have the whole signature in one parameter")
    func whole() throws {
        let request = Self.request("GET", "/a b", [("uploads", "")], [])
        let signed = try presignedWhole(request)
        let claim = try verify(signed)
        #expect(claim.isQuery && claim.signedParameters == ["uploads"])
        var both = signed
        both.query += presigned(request).query
        #expect(throws: RequestSignatureFailure.twoSignatures) { try verify(both) }
        both = self.signed(signed)
        #expect(throws: RequestSignatureFailure.twoSignatures) { try verify(both) }
        var changed = signed
        changed.method = "PUT"
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(changed) }
        // Of anybody else.
        var other = self.signed(request)
        other.query.append(SigningField("sign", "yes"))
        try verify(other)
    }

    @discardableResult
    func verify(
        _ request: SigningRequest,
        _ credentials: SigningCredentials = credentials,
        at now: Int64 = now
    ) throws(RequestSignatureFailure) -> COSClaim {
        let claim = try COSVerifier().claim(request, at: now)
        try COSVerifier().verify(claim, credentials: credentials)
        return claim
    }

    static let video = request(
        "PUT",
        "/vodtest/387702/视频 1.mp4",
        [],
        [("Content-Length", "5"), ("Content-Type", "video/mp4")]
    )
    static let part = request(
        "PUT",
        "/vodtest/387702/f0.mp4",
        [("partNumber", "1"), ("uploadId", "1571215095abc")],
        [("Content-Length", "1048576")]
    )

    /// From cos-python-sdk-v5 1.9.44 and an independent implementation.
    @Test(
        "known signatures match",
        arguments: [
            (video, "tok", "5ff7f4f110bcb02e95b7924757bc9a08cc4f105c"),
            (
                request("POST", "/vodtest/387702/f0.mp4", [("uploads", "")], [("Content-Length", "0")]), nil,
                "1d2383edb788d01b1472bf5ed47c2c85854f29c9"
            ),
            (part, nil, "da50b874cf1f1225ec2526d4cd13202adf24d717"),
            (
                request(
                    "GET",
                    "/",
                    [
                        ("uploads", ""), ("prefix", "vodtest/387702/f0.mp4"), ("delimiter", ""), ("key-marker", ""),
                        ("upload-id-marker", ""), ("max-uploads", "1000"), ("encoding-type", "url"),
                    ],
                    []
                ), nil, "d2325b5b40d1c3050b9839af714dd7fc2407b28c"
            ),
        ] as [(SigningRequest, String?, String)]
    )
    func known(_ request: SigningRequest, _ token: String?, _ signature: String) throws {
        let credentials = SigningCredentials(
            accessKeyID: Self.credentials.accessKeyID,
            secretAccessKey: Self.credentials.secretAccessKey,
            sessionToken: token
        )
        let signed = signed(request, credentials)
        #expect(signed["authorization"]?.hasSuffix("&q-signature=\(signature)") == true)
        #expect(try verify(signed, credentials).token == token)
    }

    @Test("each step of a signature matches")
    func steps() throws {
        let claim = try verify(
            signed(
                Self.video,
                SigningCredentials(
                    accessKeyID: Self.credentials.accessKeyID,
                    secretAccessKey: Self.credentials.secretAccessKey,
                    sessionToken: "tok"
                )
            ),
            SigningCredentials(
                accessKeyID: Self.credentials.accessKeyID,
                secretAccessKey: Self.credentials.secretAccessKey,
                sessionToken: "tok"
            )
        )
        #expect(
            claim.formatString
                == "put\n/vodtest/387702/视频 1.mp4\n\ncontent-length=5&content-type=video%2Fmp4&host=\(Self.host)"
                + "&x-cos-security-token=tok\n"
        )
        #expect(
            claim.stringToSign == "sha1\n1571215035;1571225095\n2be48d5e20ebf6c30459fb9094b1193c5d711c27\n"
        )
        #expect(claim.signTime == Self.window)
        #expect(claim.keyTime == Self.window)
        #expect(claim.isQuery == false)
        #expect(claim.signedHeaders == ["content-length", "content-type", "host", "x-cos-security-token"])
    }

    @Test("signed parts cannot be changed, unsigned ones can")
    func tampering() throws {
        var plain = Self.part
        plain.headers.append(SigningField("x-cos-meta-a", "a b"))
        for request in [signed(plain), presigned(plain)] {
            try verify(request)
            for name in ["partNumber", "uploadId", "content-length", "x-cos-meta-a", "host"] {
                #expect(throws: RequestSignatureFailure.wrongSignature) {
                    try verify(try request.changing(name, to: "other"))
                }
                #expect(throws: RequestSignatureFailure.self) { try verify(try request.changing(name, to: nil)) }
            }
            var more = request
            more.query.append(SigningField("acl", ""))
            more.headers.append(SigningField("x-cos-acl", "public-read"))
            let claim = try verify(more)
            // The receiver can see which parts were not signed.
            #expect(!claim.signedParameters.contains("acl"))
            #expect(!claim.signedHeaders.contains("x-cos-acl"))
            more = request
            more.query.append(SigningField("UPLOADID", "other"))
            #expect(throws: RequestSignatureFailure.duplicate("uploadid")) { try verify(more) }
            more = request
            more.path += "x"
            #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(more) }
            more = request
            more.path = more.path.replacing("v", with: "%76")
            try verify(more)
        }
    }

    @Test("the host can be signed with its port, without it, or as forwarded by a proxy")
    func hosts() throws {
        let request = signed(Self.part)
        try verify(try request.changing("host", to: "\(Self.host):8080"))
        var forwarded = try request.changing("host", to: "127.0.0.1:8080")
        #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(forwarded) }
        forwarded.headers.append(SigningField("Vod-Forward-Cos", Self.host))
        try verify(forwarded)
        var withPort = Self.part
        withPort.headers[0] = SigningField("host", "127.0.0.1:8080")
        try verify(signed(withPort))
        // An old client signs no headers at all.
        var none = Self.part
        none.headers = []
        var bare = signed(none)
        bare.headers += Self.part.headers
        #expect(try verify(bare).signedHeaders.isEmpty)
    }

    @Test("Authorization can be escaped completely or in parts, with its parts in any order")
    func escapes() throws {
        let request = signed(Self.part)
        let text = try #require(request["authorization"])
        try verify(try request.changing("authorization", to: SigningText.escaped(text)))
        try verify(try request.changing("authorization", to: text.replacing(";", with: "%3B")))
        try verify(try request.changing("authorization", to: text.replacing(";", with: "%3b")))
        let parts = text.split(separator: "&")
        try verify(try request.changing("authorization", to: parts.reversed().joined(separator: "&")))
        try verify(try request.changing("authorization", to: "\(text)&unknown=1"))
        for part in parts {
            let others = parts.filter { $0 != part }.joined(separator: "&")
            let name = String(part.prefix { $0 != "=" })
            #expect(throws: RequestSignatureFailure.missingParameter(name)) {
                try verify(try request.changing("authorization", to: others))
            }
            #expect(throws: RequestSignatureFailure.duplicate(name)) {
                try verify(try request.changing("authorization", to: "\(text)&\(part)"))
            }
        }
    }

    @Test("a name can contain the separator of lists", arguments: ["a;b", ";", "a%3bb", "A;"])
    func separators(_ name: String) throws {
        let request = Self.request("GET", "/", [(name, "1")], [])
        try verify(signed(request))
        try verify(presigned(request))
    }

    @Test(
        "wrong parts are refused",
        arguments: [
            ("sha1", "sha256", RequestSignatureFailure.unsupportedAlgorithm),
            ("q-sign-algorithm=", "q-sign-algorithm", .malformed("Authorization")),
            ("q-sign-time=1571215035;", "q-sign-time=", .malformed("q-sign-time")),
            ("q-sign-time=1571215035;1571225095", "q-sign-time=1571225095;1571215035", .malformed("q-sign-time")),
            ("q-sign-time=1571215035;", "q-sign-time=1;1571215035;", .malformed("q-sign-time")),
            ("q-sign-time=1571215035;", "q-sign-time=-1;", .malformed("q-sign-time")),
            ("q-key-time=1571215035", "q-key-time=x", .malformed("q-key-time")),
            ("q-key-time=1571215035;1571225095", "q-key-time=1571215035;1571215094", .expired),
            ("q-sign-time=1571215035;1571225095", "q-sign-time=1571215035;1571215094", .expired),
            ("q-sign-time=1571215035;1571225095", "q-sign-time=1571215996;1571225095", .skewed),
            ("q-sign-time=1571215035;1571225095", "q-sign-time=1571215034;1571225095", .wrongSignature),
            ("q-key-time=1571215035;1571225095", "q-key-time=1571215034;1571225095", .wrongSignature),
            ("q-signature=", "q-signature=0", .malformed("q-signature")),
            ("q-signature=d", "q-signature=D", .malformed("q-signature")),
            ("q-ak=AKIDUfLUEUigQiXqm7CVSspKJnuaiIKtxqAv", "q-ak=", .malformed("q-ak")),
            ("q-ak=AKID", "q-ak=AKIE", .wrongSignature),
            ("content-length;host", "content-length;host;absent", .missingHeader("absent")),
            ("content-length;host", "content-length;host;host", .duplicate("host")),
            ("content-length;host", "content-length", .wrongSignature),
            ("content-length;host", "host;content-length", .wrongSignature),
            ("partnumber;uploadid", "absent;partnumber;uploadid", .missingParameter("absent")),
            ("partnumber;uploadid", "partnumber", .wrongSignature),
            ("partnumber;uploadid", "", .wrongSignature),
        ]
    )
    func wrong(_ old: String, _ new: String, _ failure: RequestSignatureFailure) throws {
        let request = try signed(Self.part).replacing(old, new)
        #expect(throws: failure) { try verify(request) }
    }

    @Test("no signature, two signatures and another scheme are refused")
    func places() throws {
        #expect(throws: RequestSignatureFailure.noSignature) { try verify(Self.part) }
        var both = signed(Self.part)
        both.query = presigned(Self.part).query
        #expect(throws: RequestSignatureFailure.twoSignatures) { try verify(both) }
        for text in ["", "Bearer x", "AWS4-HMAC-SHA256 a=b&c=d"] {
            #expect(throws: RequestSignatureFailure.unsupportedAlgorithm) {
                try verify(try signed(Self.part).changing("authorization", to: text))
            }
        }
    }

    @Test("a token need not be signed, but must match the credentials")
    func tokens() throws {
        let temporary = SigningCredentials(
            accessKeyID: Self.credentials.accessKeyID,
            secretAccessKey: Self.credentials.secretAccessKey,
            sessionToken: "tok"
        )
        var request = signed(Self.part)
        #expect(throws: RequestSignatureFailure.wrongToken) { try verify(request, temporary) }
        request.headers.append(SigningField("X-Cos-Security-Token", "tok"))
        try verify(request, temporary)
        #expect(throws: RequestSignatureFailure.wrongToken) { try verify(request) }
        request.query.append(SigningField("x-cos-security-token", "tok"))
        try verify(request, temporary)
        #expect(throws: RequestSignatureFailure.wrongToken) {
            try verify(presigned(Self.part, temporary).changing("x-cos-security-token", to: "other"), temporary)
        }
        request = try request.changing("x-cos-security-token", to: "other")
        #expect(throws: RequestSignatureFailure.duplicate("x-cos-security-token")) { try verify(request, temporary) }
    }

    @Test("a window includes its first and last second")
    func window() throws {
        let request = signed(Self.part)
        try verify(request, at: Self.window.end)
        try verify(request, at: Self.window.start - 900)
        #expect(throws: RequestSignatureFailure.expired) { try verify(request, at: Self.window.end + 1) }
        #expect(throws: RequestSignatureFailure.skewed) { try verify(request, at: Self.window.start - 901) }
    }

    @Test("signed requests are accepted, and nothing else", arguments: 0..<300)
    func property(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let request = random.request(repeats: true)
        let credentials = random.credentials()
        for signed in [signed(request, credentials), presigned(request, credentials)] {
            try verify(signed, credentials)
            for position in signed.query.indices where signed.query[position].name != "q-ak" {
                var changed = signed
                let field = signed.query[position]
                changed.query[position] = SigningField(field.name, field.value + "!")
                #expect(throws: RequestSignatureFailure.self) { try verify(changed, credentials) }
            }
            for position in signed.headers.indices {
                var changed = signed
                let field = signed.headers[position]
                changed.headers[position] = SigningField(field.name, field.value + "!")
                #expect(throws: RequestSignatureFailure.self) { try verify(changed, credentials) }
            }
            for path in [signed.path + "!", "/x" + signed.path, ""] where path != signed.path {
                var changed = signed
                changed.path = path
                guard COSVerifier.path(path) != COSVerifier.path(signed.path) else { continue }
                #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(changed, credentials) }
            }
        }
    }
}

@Suite("Forms for COS", .timeLimit(.minutes(10)))
struct COSFormTests {
    /// The example of "POST Object" in the COS documentation.
    private static let fields = [
        SigningField("key", "folder/subfolder/a"),
        SigningField(
            "policy",
            "ewogICAgImV4cGlyYXRpb24iOiAiMjAxOS0wOC0zMFQwOTozODoxMi40MTRaIiwKICAgICJjb25kaXRpb25zIjogWwogICAgICAgIHsgImFjbCI6ICJkZWZhdWx0IiB9LAogICAgICAgIHsgImJ1Y2tldCI6ICJleGFtcGxlYnVja2V0LTEyNTAwMDAwMDAiIH0sCiAgICAgICAgWyAic3RhcnRzLXdpdGgiLCAiJGtleSIsICJmb2xkZXIvc3ViZm9sZGVyLyIgXSwKICAgICAgICBbICJzdGFydHMtd2l0aCIsICIkQ29udGVudC1UeXBlIiwgImltYWdlLyIgXSwKICAgICAgICBbICJzdGFydHMtd2l0aCIsICIkc3VjY2Vzc19hY3Rpb25fcmVkaXJlY3QiLCAiaHR0cHM6Ly9teS53ZWJzaXRlLyIgXSwKICAgICAgICBbICJlcSIsICIkeC1jb3Mtc2VydmVyLXNpZGUtZW5jcnlwdGlvbiIsICJBRVMyNTYiIF0sCiAgICAgICAgeyAicS1zaWduLWFsZ29yaXRobSI6ICJzaGExIiB9LAogICAgICAgIHsgInEtYWsiOiAiQUtJRFFqejNsdG9tcFZqQm5pNUxpdGtXSEZsRnB3a245VTVxIiB9LAogICAgICAgIHsgInEtc2lnbi10aW1lIjogIjE1NjcxNTA2OTI7MTU2NzE1Nzg5MiIgfQogICAgXQp9"
        ),
        SigningField("Q-Sign-Algorithm", "sha1"), SigningField("q-ak", "AKIDQjz3ltompVjBni5LitkWHFlFpwkn9U5q"),
        SigningField("q-key-time", "1567150692;1567157892"),
        SigningField("q-signature", "7758dc9a832e9d301dca704cacbf9d9f8172fdef"),
    ]
    private static let secret = "BQYIM75p8x0iWVFSIgqEKwFprpRSVHlz"
    private let verifier = COSVerifier()

    private func credentials(_ secret: String = Self.secret) -> SigningCredentials {
        SigningCredentials(accessKeyID: Self.fields[3].value, secretAccessKey: secret)
    }

    @Test func aFormIsTakenAsItWasSigned() throws {
        let claim = try verifier.claim(form: Self.fields, at: 1_567_150_692)
        #expect(claim.keyTime == COSWindow(start: 1_567_150_692, end: 1_567_157_892))
        try verifier.verify(claim, credentials: credentials())
        #expect(throws: RequestSignatureFailure.wrongSignature) {
            try verifier.verify(claim, credentials: credentials("other"))
        }
        var signed: [SigningField] = []
        let form = COSSigner(credentials: credentials()).form(
            policy: { fields in
                signed = fields
                return claim.policy
            },
            window: claim.keyTime
        )
        #expect(form.first { $0.name == "q-signature" }?.value == claim.signature)
        #expect(signed.map(\.name) == ["q-sign-algorithm", "q-ak", "q-sign-time"])
    }

    @Test func whatIsChangedOrMissingIsRefused() throws {
        for index in 1..<Self.fields.count {
            var fields = Self.fields
            fields.remove(at: index)
            #expect(throws: RequestSignatureFailure.self) { try verifier.claim(form: fields, at: 1_567_150_692) }
            #expect(throws: RequestSignatureFailure.self) {
                try verifier.claim(form: Self.fields + [Self.fields[index]], at: 1_567_150_692)
            }
        }
        for (index, value) in [(1, "e30="), (1, "*"), (4, "1;4000000000"), (5, String(repeating: "0", count: 40))] {
            var fields = Self.fields
            fields[index] = SigningField(fields[index].name, value)
            let claim = try verifier.claim(form: fields, at: 1_567_150_692)
            #expect(throws: RequestSignatureFailure.wrongSignature) {
                try verifier.verify(claim, credentials: credentials())
            }
        }
        #expect(throws: RequestSignatureFailure.noSignature) { try verifier.claim(form: [Self.fields[0]], at: 0) }
        #expect(throws: RequestSignatureFailure.expired) {
            try verifier.claim(form: Self.fields, at: 1_567_157_893)
        }
        #expect(throws: RequestSignatureFailure.skewed) {
            try verifier.claim(form: Self.fields, at: 1_567_150_692 - 901)
        }
    }
}
