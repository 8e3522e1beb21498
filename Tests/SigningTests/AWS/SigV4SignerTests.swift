import Bytes
import Digests
import Testing

@testable import Signing

@Suite("SigV4 signatures of requests", .timeLimit(.minutes(10)))
struct SigV4SignerTests {
    @Test("all vectors are present")
    func count() {
        #expect(SigV4Vector.suite.count == 81)
        #expect(SigV4Vector.documentation.count == 7)
        #expect(SigV4Vector.botocore.count == 64)
    }

    @Test("requests are signed as in the vectors", arguments: SigV4Vector.all)
    func signing(_ vector: SigV4Vector) throws {
        let request = try vector.request()
        if let lifetime = vector.lifetime {
            let query = vector.signer.presign(request, at: vector.time, lifetime: lifetime)
            #expect(query["X-Amz-SignedHeaders"] == vector.signedHeaders)
            #expect(query["X-Amz-Signature"] == vector.signature)
            #expect(query["X-Amz-Security-Token"] == vector.sessionToken)
            #expect(Array(query.prefix(request.query.count)) == request.query)
        } else {
            let (fields, signature) = vector.signer.sign(request, at: vector.time)
            let scope = "\(SigningTime.format(vector.time).prefix(8))/\(vector.region)/\(vector.service)/aws4_request"
            #expect(
                fields["authorization"] == "AWS4-HMAC-SHA256 Credential=\(vector.accessKeyID)/\(scope), "
                    + "SignedHeaders=\(vector.signedHeaders), Signature=\(vector.signature)"
            )
            #expect(signature.text == vector.signature)
            #expect(fields["x-amz-security-token"] == vector.sessionToken)
            #expect(fields["x-amz-content-sha256"] == (vector.sigV4Rules.needsPayloadHeader ? vector.payload : nil))
        }
    }

    @Test("signed vectors are verified", arguments: SigV4Vector.all)
    func verifying(_ vector: SigV4Vector) throws {
        #expect(try vector.verify(try vector.signedRequest()).text == vector.signature)
    }

    @Test("the canonical request matches an example in the documentation")
    func canonicalRequest() throws {
        let vector = try SigV4Vector.named("PUT Object")
        var request = try vector.request()
        request.headers += [
            SigningField("X-Amz-Date", "20130524T000000Z"), SigningField("x-amz-content-sha256", vector.payload),
        ]
        let text = SigV4CanonicalRequest.text(
            of: request,
            query: [],
            signedHeaders: SigV4CanonicalRequest.names(of: request.headers),
            payload: request.payload,
            rules: .s3
        )
        #expect(
            String(decoding: text, as: UTF8.self) == """
                PUT
                /test%24file.text

                date:Fri, 24 May 2013 00:00:00 GMT
                host:examplebucket.s3.amazonaws.com
                x-amz-content-sha256:44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072
                x-amz-date:20130524T000000Z
                x-amz-storage-class:REDUCED_REDUNDANCY

                date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class
                44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072
                """
        )
    }

    @Test("for S3 it does not matter which characters of a path are escaped")
    func escapes() throws {
        let vector = try SigV4Vector.named("PUT Object")
        var request = try vector.request()
        for path in ["/test$file.text", "/test%24file%2etext", "/%74est%24file.text"] {
            request.path = path
            #expect(vector.signer.sign(request, at: vector.time).signature.text == vector.signature)
        }
    }

    @Test("for S3, escaped or doubled slashes, dots and invalid escapes are kept")
    func objectPaths() {
        func path(_ path: String) -> Substring? {
            let request = SigningRequest(method: "GET", path: path)
            let text = SigV4CanonicalRequest.text(
                of: request,
                query: [],
                signedHeaders: [],
                payload: .unsigned,
                rules: .s3
            )
            return String(decoding: text, as: UTF8.self).split(separator: "\n").dropFirst().first
        }
        #expect(path("") == "/")
        #expect(path("/a//b/../c/./") == "/a//b/../c/./")
        #expect(path("/a%2fb") == "/a%2Fb")
        #expect(path("/a+b%2B%20") == "/a%2Bb%2B%20")
        #expect(path("/%FF%zz%2") == "/%FF%25zz%252")
    }

    @Test("paths and queries can be sent in their signed form")
    func writing() {
        #expect(SigningRequest.path(of: "/a b/é+/~'%2F//") == "/a%20b/%C3%A9%2B/~%27%252F//")
        let query = [SigningField("b", "x y"), SigningField("a", "+"), SigningField("B", ""), SigningField("b", "&=")]
        #expect(SigningRequest.query(of: query) == "B=&a=%2B&b=%26%3D&b=x%20y")
    }

    @Test("an old signature of the request is replaced")
    func replacing() throws {
        for vector in [try SigV4Vector.named("GET Object"), try SigV4Vector.named("GET Object, query")] {
            let once = try vector.signedRequest()
            if let lifetime = vector.lifetime {
                let again = vector.signer.presign(once, at: vector.time, lifetime: lifetime)
                #expect(again == once.query)
            } else {
                #expect(vector.signer.sign(once, at: vector.time).signature.text == vector.signature)
            }
        }
    }

    @Test("a lifetime is clamped to 1…604800 seconds", arguments: [(0, "1"), (-5, "1"), (604_801, "604800"), (7, "7")])
    func lifetimes(_ lifetime: Int64, _ text: String) throws {
        let vector = try SigV4Vector.named("GET Object, query")
        let query = vector.signer.presign(try vector.request(), at: vector.time, lifetime: lifetime)
        #expect(query["X-Amz-Expires"] == text)
    }

    @Test("descriptions contain no secret")
    func descriptions() {
        let credentials = SigningCredentials(accessKeyID: "id", secretAccessKey: "hidden", sessionToken: "token")
        var dumped = ""
        dump(credentials, to: &dumped)
        for text in ["\(credentials)", String(reflecting: credentials), dumped] {
            #expect(!text.contains("hidden") && !text.contains("token"))
        }
    }

    @Test(
        "times are parsed and formatted",
        arguments: [(0, "19700101T000000Z"), (1_369_353_600, "20130524T000000Z"), (951_827_696, "20000229T123456Z")]
    )
    func times(_ seconds: Int64, _ text: String) {
        #expect(SigningTime.format(seconds) == text)
        #expect(SigningTime.parse(text) == seconds)
    }

    @Test(
        "text that is not a time is refused",
        arguments: [
            "", "20130524", "20130524T000000", "20130524T000000z", "20130524 000000Z", "20130229T000000Z",
            "20130524T240000Z", "20130524T006000Z", "20130524T000060Z", "20131324T000000Z", "20130500T000000Z",
            "+0130524T000000Z", "20130524T0000000Z", "２0130524T0000Z",
        ]
    )
    func badTimes(_ text: String) {
        #expect(SigningTime.parse(text) == nil)
    }
}

@Suite("SigV4 keys", .timeLimit(.minutes(10)))
struct SigV4KeysTests {
    let scope = SigV4Scope(day: "20150830", region: "us-east-1", service: "iam")

    func credentials(_ id: String, _ secret: String) -> SigningCredentials {
        SigningCredentials(accessKeyID: id, secretAccessKey: secret)
    }

    @Test("a key is derived once per secret, day, region and service")
    func caching() {
        let keys = SigV4Keys()
        let key = keys.key(for: credentials("a", "1"), scope: scope)
        #expect(keys.key(for: credentials("a", "1"), scope: scope) === key)
        #expect(keys.count == 1)
        let others = [
            keys.key(for: credentials("b", "1"), scope: scope),
            keys.key(
                for: credentials("a", "1"),
                scope: SigV4Scope(day: "20150831", region: "us-east-1", service: "iam")
            ),
            keys.key(
                for: credentials("a", "1"),
                scope: SigV4Scope(day: "20150830", region: "us-east-2", service: "iam")
            ),
            keys.key(
                for: credentials("a", "1"),
                scope: SigV4Scope(day: "20150830", region: "us-east-1", service: "s3")
            ),
        ]
        #expect(keys.count == 5)
        #expect(!others.contains { $0 === key })
        let changed = keys.key(for: credentials("a", "2"), scope: scope)
        #expect(changed !== key)
        #expect(changed.code(for: []) != key.code(for: []))
        #expect(keys.count == 5)
    }

    @Test("the cache does not exceed its capacity")
    func capacity() {
        let keys = SigV4Keys(capacity: 3)
        for number in 0..<20 {
            _ = keys.key(for: credentials("\(number)", "secret"), scope: scope)
            #expect(keys.count <= 3)
        }
    }

    /// "Example: Browser-Based Upload using HTTP POST (Using AWS Signature Version 4)", Amazon S3 API Reference.
    @Test("a form is signed as in the documentation, over its policy")
    func form() {
        let conditions = [
            #"{"bucket": "sigv4examplebucket"}"#, #"["starts-with", "$key", "user/user1/"]"#,
            #"{"acl": "public-read"}"#,
            #"{"success_action_redirect": "http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html"}"#,
            #"["starts-with", "$Content-Type", "image/"]"#, #"{"x-amz-meta-uuid": "14365123651274"}"#,
            #"{"x-amz-server-side-encryption": "AES256"}"#, #"["starts-with", "$x-amz-meta-tag", ""]"#,
        ]
        let signed = [
            #"{"x-amz-credential": "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request"}"#,
            #"{"x-amz-algorithm": "AWS4-HMAC-SHA256"}"#, #"{"x-amz-date": "20151229T000000Z" }"#,
        ]
        func lines(_ texts: [String]) -> String { texts.map { "    \($0)" }.joined(separator: ",\r\n") }
        let policy =
            "{ \"expiration\": \"2015-12-30T12:00:00.000Z\",\r\n  \"conditions\": [\r\n\(lines(conditions)),\r\n\r\n"
            + "\(lines(signed))\r\n  ]\r\n}"
        let signer = SigV4Signer(
            credentials: SigningCredentials(
                accessKeyID: "AKIAIOSFODNN7EXAMPLE",
                secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
            ),
            region: "us-east-1"
        )
        var names: [String] = []
        let fields = signer.form(
            policy: { fields in
                names = fields.map(\.name)
                return Base64.encode(policy.utf8)
            },
            at: 1_451_347_200
        )
        #expect(names == ["x-amz-algorithm", "x-amz-credential", "x-amz-date"])
        #expect(fields["x-amz-credential"] == "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request")
        #expect(fields["x-amz-date"] == "20151229T000000Z")
        #expect(
            fields["x-amz-signature"] == "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e"
        )
    }
}
