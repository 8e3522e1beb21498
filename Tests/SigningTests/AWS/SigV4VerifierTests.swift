import Testing

@testable import Signing

@Suite("SigV4 verification", .timeLimit(.minutes(10)))
struct SigV4VerifierTests {
    let header: SigV4Vector
    let query: SigV4Vector

    init() throws {
        header = try SigV4Vector.named("PUT Object")
        query = try SigV4Vector.named("GET Object, query")
    }

    /// The signed request with one header changed, or without it.
    func changed(_ name: String, to value: String?) throws -> SigningRequest {
        var request = try header.signedRequest()
        let index = try #require(request.headers.firstIndex { $0.name.lowercased() == name })
        if let value {
            request.headers[index] = SigningField(name, value)
        } else {
            request.headers.remove(at: index)
        }
        return request
    }

    /// The signed request with one parameter changed, or without it.
    func changed(parameter name: String, to value: String?) throws -> SigningRequest {
        var request = try query.signedRequest()
        let index = try #require(request.query.firstIndex { $0.name == name })
        if let value {
            request.query[index] = SigningField(name, value)
        } else {
            request.query.remove(at: index)
        }
        return request
    }

    /// The signed request with a text in `Authorization` replaced.
    func replaced(_ old: String, _ new: String) throws -> SigningRequest {
        let text = try #require(try header.signedRequest().headers["authorization"])
        try #require(text.contains(old))
        return try changed("authorization", to: text.replacing(old, with: new))
    }

    @Test("a claim contains the values of the request")
    func claims() throws {
        let verifier = SigV4Verifier(region: nil)
        let claim = try verifier.claim(try header.signedRequest(), at: header.time)
        #expect(claim.accessKeyID == "AKIAIOSFODNN7EXAMPLE")
        #expect(claim.scope.text == "20130524/us-east-1/s3/aws4_request")
        #expect(claim.date == header.time)
        #expect(claim.lifetime == nil)
        #expect(claim.payload == SigV4Payload(header.payload))
        #expect(claim.signedHeaders.joined(separator: ";") == header.signedHeaders)
        let other = try verifier.claim(try query.signedRequest(), at: query.time)
        #expect(other.lifetime == 86400)
        #expect(other.payload == .unsigned)
    }

    @Test("no signature, two signatures and other algorithms are refused")
    func algorithms() throws {
        #expect(throws: RequestSignatureFailure.noSignature) { try header.verify(try header.request()) }
        var both = try header.signedRequest()
        both.query = try query.signedRequest().query
        #expect(throws: RequestSignatureFailure.twoSignatures) { try header.verify(both) }
        for text in ["Bearer abc", "AWS id:signature", "AWS4-HMAC-SHA256,Credential=x", ""] {
            #expect(throws: RequestSignatureFailure.unsupportedAlgorithm) {
                try header.verify(try changed("authorization", to: text))
            }
        }
        #expect(throws: RequestSignatureFailure.unsupportedAlgorithm) {
            try header.verify(try replaced("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"))
        }
        #expect(throws: RequestSignatureFailure.unsupportedAlgorithm) {
            try query.verify(try changed(parameter: "X-Amz-Algorithm", to: "AWS4-ECDSA-P256-SHA256"))
        }
    }

    @Test("white space and order in Authorization do not matter")
    func authorizationForm() throws {
        try header.verify(try replaced(", ", ","))
        try header.verify(try replaced(", ", " ,\t "))
        let text = try #require(try header.signedRequest().headers["authorization"])
        let parts = text.split(separator: " ", maxSplits: 1)
        let reversed = parts[1].split(separator: ", ").reversed().joined(separator: ", ")
        try header.verify(try changed("authorization", to: "\(parts[0]) \(reversed)"))
    }

    @Test(
        "missing, repeated or wrong parts of Authorization are refused",
        arguments: [
            ("Credential=", "Credentials=", RequestSignatureFailure.malformed("Authorization")),
            ("Credential=", "", .malformed("Authorization")),
            (
                "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, ", "",
                .missingParameter("Credential")
            ),
            ("Signature=", "Signature=0, Signature=", .duplicate("Signature")),
            ("Signature=98", "Signature=9", .malformed("Signature")),
            ("Signature=98ad", "Signature=98AD", .malformed("Signature")),
            ("Signature=98", "Signature=xx", .malformed("Signature")),
            ("SignedHeaders=date;", "SignedHeaders=", .wrongSignature),
            ("SignedHeaders=date;host", "SignedHeaders=host;date", .malformed("SignedHeaders")),
            ("SignedHeaders=date;", "SignedHeaders=date;date;", .malformed("SignedHeaders")),
            ("SignedHeaders=date;", "SignedHeaders=Date;", .malformed("SignedHeaders")),
            ("SignedHeaders=date;", "SignedHeaders=;date;", .malformed("SignedHeaders")),
            ("SignedHeaders=date;", "SignedHeaders=absent;date;", .missingHeader("absent")),
            ("date;host;", "date;", .unsignedHeader("host")),
            (";x-amz-storage-class", "", .unsignedHeader("x-amz-storage-class")),
            (";x-amz-date", "", .unsignedHeader("x-amz-date")),
            ("/s3/aws4_request", "/s3/aws4", .wrongScope),
            ("/s3/", "/sqs/", .wrongService),
            ("/us-east-1/", "/us-east-2/", .wrongRegion),
            ("/us-east-1/s3", "/s3", .malformed("Credential")),
            ("AKIAIOSFODNN7EXAMPLE/", "/", .malformed("Credential")),
            ("/20130524/", "/20130525/", .wrongDay),
            ("AKIAIOSFODNN7EXAMPLE/", "AKIAIOSFODNN7EXAMPLF/", .wrongSignature),
        ]
    )
    func authorizationParts(_ old: String, _ new: String, _ failure: RequestSignatureFailure) throws {
        let request = try replaced(old, new)
        #expect(throws: failure) { try header.verify(request) }
    }

    @Test("an access key can contain slashes")
    func slashes() throws {
        let credentials = SigningCredentials(accessKeyID: "team/a/b", secretAccessKey: "secret")
        var request = try header.request()
        request.headers += SigV4Signer(credentials: credentials, region: "r").sign(request, at: 0).fields
        let verifier = SigV4Verifier(region: "r")
        let claim = try verifier.claim(request, at: 0)
        #expect(claim.accessKeyID == "team/a/b")
        _ = try verifier.verify(claim, credentials: credentials)
    }

    @Test("missing, repeated or wrong headers are refused")
    func headers() throws {
        for name in ["host", "date", "x-amz-storage-class"] {
            #expect(throws: RequestSignatureFailure.missingHeader(name)) {
                try header.verify(try changed(name, to: nil))
            }
        }
        #expect(throws: RequestSignatureFailure.missingHeader("x-amz-date")) {
            try header.verify(try changed("x-amz-date", to: nil))
        }
        #expect(throws: RequestSignatureFailure.missingHeader("x-amz-content-sha256")) {
            try header.verify(try changed("x-amz-content-sha256", to: nil))
        }
        for text in ["", "abc", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", header.payload.uppercased()] {
            #expect(throws: RequestSignatureFailure.malformed("x-amz-content-sha256")) {
                try header.verify(try changed("x-amz-content-sha256", to: text))
            }
        }
        #expect(throws: RequestSignatureFailure.malformed("X-Amz-Date")) {
            try header.verify(try changed("x-amz-date", to: "Fri, 24 May 2013 00:00:00 GMT"))
        }
        for name in ["authorization", "host", "x-amz-date", "x-amz-content-sha256"] {
            var request = try header.signedRequest()
            request.headers.append(try #require(request.headers.first { $0.name.lowercased() == name }))
            #expect(throws: RequestSignatureFailure.duplicate(name)) { try header.verify(request) }
        }
        var request = try header.signedRequest()
        request.headers.append(SigningField("X-Amz-Acl", "public-read"))
        #expect(throws: RequestSignatureFailure.unsignedHeader("x-amz-acl")) { try header.verify(request) }
        request.headers.removeLast()
        request.headers.append(SigningField("Accept", "*/*"))
        try header.verify(request)
    }

    @Test("Date is used without X-Amz-Date, in either format")
    func dateHeader() throws {
        for text in ["20130524T000000Z", "Fri, 24 May 2013 00:00:00 GMT"] {
            var request = SigningRequest(
                method: "GET",
                host: "h",
                path: "/",
                headers: [SigningField("Date", text), SigningField("x-amz-content-sha256", "UNSIGNED-PAYLOAD")],
                payload: .unsigned,
                date: 1_369_353_600
            )
            let names = ["date", "host", "x-amz-content-sha256"]
            let scope = SigV4Scope(day: "20130524", region: "us-east-1", service: "s3")
            let signature = SigV4Signature(
                canonicalRequest: SigV4CanonicalRequest.text(
                    of: request,
                    query: [],
                    signedHeaders: names,
                    payload: .unsigned,
                    rules: .s3
                ),
                timestamp: "20130524T000000Z",
                scope: scope,
                key: SigV4Keys.derive(secret: header.secretAccessKey, scope: scope)
            )
            request.headers.append(
                SigningField(
                    "Authorization",
                    "AWS4-HMAC-SHA256 Credential=\(header.accessKeyID)/\(scope.text),"
                        + "SignedHeaders=\(names.joined(separator: ";")),Signature=\(signature.text)"
                )
            )
            try header.verify(request)
            request.date = nil
            if text.hasPrefix("Fri") {
                #expect(throws: RequestSignatureFailure.malformed("Date")) { try header.verify(request) }
            } else {
                try header.verify(request)
            }
        }
    }

    @Test("missing, repeated or wrong parameters are refused")
    func parameters() throws {
        for name in ["Algorithm", "Credential", "SignedHeaders", "Signature", "Date", "Expires"].map({ "X-Amz-\($0)" })
        {
            #expect(throws: RequestSignatureFailure.missingParameter(name)) {
                try query.verify(try changed(parameter: name, to: nil))
            }
            var request = try query.signedRequest()
            request.query.append(SigningField(name, "1"))
            #expect(throws: RequestSignatureFailure.duplicate(name)) { try query.verify(request) }
        }
        for (text, failure) in [
            ("", RequestSignatureFailure.malformed("X-Amz-Expires")), ("+5", .malformed("X-Amz-Expires")),
            ("1.5", .malformed("X-Amz-Expires")), ("0", .lifetimeOutOfRange), ("604801", .lifetimeOutOfRange),
            ("99999999999999999999", .lifetimeOutOfRange), ("86401", .wrongSignature),
        ] {
            #expect(throws: failure) { try query.verify(try changed(parameter: "X-Amz-Expires", to: text)) }
        }
        #expect(throws: RequestSignatureFailure.malformed("X-Amz-Date")) {
            try query.verify(try changed(parameter: "X-Amz-Date", to: "now"))
        }
        var request = try query.signedRequest()
        request.headers.append(SigningField("x-amz-acl", "public-read"))
        #expect(throws: RequestSignatureFailure.unsignedHeader("x-amz-acl")) { try query.verify(request) }
    }

    @Test("a URL can be bound to its content")
    func contentOfURL() throws {
        var request = try query.request()
        request.payload = SigV4Payload(content: Array("abc".utf8))
        request.query.append(SigningField("X-Amz-Content-Sha256", request.payload.text))
        request.query = query.signer.presign(request, at: query.time, lifetime: 60)
        try query.verify(request)
        #expect(try SigV4Verifier(region: nil).claim(request, at: query.time).payload == request.payload)
        let index = try #require(request.query.firstIndex { $0.name == "X-Amz-Content-Sha256" })
        request.query[index] = SigningField("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
        #expect(throws: RequestSignatureFailure.wrongSignature) { try query.verify(request) }
    }

    @Test("clocks can differ by 15 minutes and not a second more")
    func skew() throws {
        let request = try header.signedRequest()
        for offset: Int64 in [-900, 0, 900] { try header.verify(request, at: header.time + offset) }
        for offset: Int64 in [-901, 901, 86400] {
            #expect(throws: RequestSignatureFailure.skewed) { try header.verify(request, at: header.time + offset) }
        }
    }

    @Test("a URL is valid in its last second and not at its expiry")
    func expiry() throws {
        let request = try query.signedRequest()
        for offset: Int64 in [-900, 0, 86399] { try query.verify(request, at: query.time + offset) }
        #expect(throws: RequestSignatureFailure.expired) { try query.verify(request, at: query.time + 86400) }
        #expect(throws: RequestSignatureFailure.skewed) { try query.verify(request, at: query.time - 901) }
    }

    @Test("another secret, or another key with the same id, is refused")
    func secrets() throws {
        for vector in [header, query] {
            let request = try vector.signedRequest()
            #expect(throws: RequestSignatureFailure.wrongSignature) {
                try vector.verify(
                    request,
                    credentials: SigningCredentials(accessKeyID: vector.accessKeyID, secretAccessKey: "another")
                )
            }
            #expect(throws: RequestSignatureFailure.wrongSignature) {
                try vector.verify(
                    request,
                    credentials: SigningCredentials(accessKeyID: "another", secretAccessKey: vector.secretAccessKey)
                )
            }
        }
    }

    @Test("the token must match the credentials, and is required if they have one")
    func tokens() throws {
        let secret = header.secretAccessKey
        func credentials(_ token: String?) -> SigningCredentials {
            SigningCredentials(accessKeyID: header.accessKeyID, secretAccessKey: secret, sessionToken: token)
        }
        for (sent, known) in [("a", "b"), ("a", nil), (nil, "b")] {
            let signer = SigV4Signer(credentials: credentials(sent), region: header.region)
            var request = try header.request()
            request.headers += signer.sign(request, at: header.time).fields
            #expect(throws: RequestSignatureFailure.wrongToken) {
                try header.verify(request, credentials: credentials(known))
            }
            try header.verify(request, credentials: credentials(sent))
            request = try query.request()
            request.query = signer.presign(request, at: query.time, lifetime: 60)
            #expect(throws: RequestSignatureFailure.wrongToken) {
                try query.verify(request, credentials: credentials(known))
            }
            try query.verify(request, credentials: credentials(sent))
        }
    }

    @Test("any region is accepted if none is required")
    func regions() throws {
        for vector in [header, query] {
            let verifier = SigV4Verifier(region: nil)
            let claim = try verifier.claim(try vector.signedRequest(), at: vector.time)
            #expect(try verifier.verify(claim, credentials: vector.credentials).text == vector.signature)
        }
    }

    @Test(
        "a change of any signed byte is detected",
        arguments: [
            "PUT Object", "Get Bucket (List Objects)", "GET Object, query", "get-vanilla-with-session-token, query",
        ]
            + (0..<16).map { "botocore-\($0)" }
    )
    func mutations(_ name: String) throws {
        let vector = try SigV4Vector.named(name)
        let signed = try vector.signedRequest()
        try vector.verify(signed)
        var count = 0
        func expectRefused(_ request: SigningRequest, _ part: String, _ place: Int) {
            count += 1
            #expect(throws: RequestSignatureFailure.self, "\(part), byte \(place)") { try vector.verify(request) }
        }
        for (place, text) in Self.mutations(of: signed.method) {
            var request = signed
            request.method = text
            expectRefused(request, "method", place)
        }
        for (place, text) in Self.mutations(of: signed.path) {
            var request = signed
            request.path = text
            expectRefused(request, "path", place)
        }
        for index in signed.query.indices {
            let parameter = signed.query[index]
            for (place, text) in Self.mutations(of: parameter.name) {
                var request = signed
                request.query[index] = SigningField(text, parameter.value)
                expectRefused(request, "name of parameter \(index)", place)
            }
            for (place, text) in Self.mutations(of: parameter.value) {
                var request = signed
                request.query[index] = SigningField(parameter.name, text)
                expectRefused(request, parameter.name, place)
            }
            var request = signed
            request.query.remove(at: index)
            expectRefused(request, "without \(parameter.name)", 0)
        }
        let names = Set(vector.signedHeaders.split(separator: ";").map(String.init) + ["authorization"])
        for index in signed.headers.indices where names.contains(signed.headers[index].name.lowercased()) {
            let header = signed.headers[index]
            for (place, text) in Self.mutations(of: header.value) {
                var request = signed
                request.headers[index] = SigningField(header.name, text)
                expectRefused(request, header.name, place)
            }
            var request = signed
            request.headers.remove(at: index)
            expectRefused(request, "without \(header.name)", 0)
        }
        if vector.rules == "general" {
            var request = signed
            request.payload = .sha256([UInt8](repeating: 7, count: 32))
            expectRefused(request, "payload", 0)
        }
        #expect(count > 100)
    }

    /// The text with each ASCII byte replaced by another one with a different meaning.
    ///
    /// White space is left unchanged, because its amount is not signed.
    static func mutations(of text: String) -> [(Int, String)] {
        let bytes = Array(text.utf8)
        return bytes.indices.compactMap { index in
            guard bytes[index] > 0x20, bytes[index] < 0x7F else { return nil }
            var changed = bytes
            changed[index] = bytes[index] == UInt8(ascii: "7") ? UInt8(ascii: "6") : UInt8(ascii: "7")
            return (index, String(decoding: changed, as: UTF8.self))
        }
    }
}
