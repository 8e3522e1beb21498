import SluiceTesting
import HTTPWire
import Testing

@testable import Signing

@Suite("OSS verification", .timeLimit(.minutes(10)))
struct OSSVerifierTests {
    typealias Known = OSSDocumentedTests

    let headerV1: SigningRequest
    let headerV4: SigningRequest
    let queryV1: SigningRequest
    let queryV4: SigningRequest

    init() {
        let request = SigningRequest(
            method: "PUT",
            path: "/",
            query: Known.partQuery + [SigningField("max-parts", "7")],
            headers: Known.part + [
                SigningField("Host", "h"), SigningField("x-oss-meta-a", "1"), SigningField("x-other", "2"),
            ]
        )
        func header(_ scheme: Int) -> SigningRequest {
            var signed = request
            let signer = Known.signer(scheme, isTemporary: true)
            signed.headers += signer.sign(
                request,
                resource: Known.resource,
                additionalHeaders: ["host"],
                at: Known.now
            )
            return signed
        }
        func query(_ scheme: Int) -> SigningRequest {
            var signed = request
            let signer = Known.signer(scheme, isTemporary: true)
            signed.query = signer.presign(
                request,
                resource: Known.resource,
                additionalHeaders: ["host"],
                at: Known.now,
                lifetime: 60
            )
            return signed
        }
        headerV1 = header(0)
        headerV4 = header(1)
        queryV1 = query(0)
        queryV4 = query(1)
    }

    var all: [SigningRequest] { [headerV1, headerV4, queryV1, queryV4] }

    func verify(
        _ request: SigningRequest,
        at now: Int64 = Known.now,
        region: String? = nil,
        resources: [OSSResource] = [Known.resource]
    ) throws(RequestSignatureFailure) {
        let verifier = OSSVerifier(region: region) { HTTPDate.parse($0) }
        let claim = try verifier.claim(request, at: now)
        _ = try verifier.verify(claim, resources: resources, credentials: Known.credentials(true))
    }

    @Test("signed parts cannot be changed, unsigned ones can")
    func tampering() throws {
        for (index, request) in all.enumerated() {
            try verify(request)
            for name in ["partNumber", "uploadId", "Content-Type", "Content-MD5", "x-oss-meta-a"] {
                for value in ["3", "", nil] {
                    #expect(throws: RequestSignatureFailure.wrongSignature) {
                        try verify(try request.changing(name, to: value))
                    }
                }
            }
            try verify(try request.changing("x-other", to: "3"))
            let isV4 = index % 2 == 1
            for (name, isSigned) in [("max-parts", isV4), ("host", isV4)] {
                let changed = try request.changing(name, to: "8")
                if isSigned {
                    #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(changed) }
                } else {
                    try verify(changed)
                }
            }
            var more = request
            more.headers.append(SigningField("X-Oss-Acl", "public-read"))
            #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(more) }
            more = request
            more.query.append(SigningField("acl", ""))
            #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(more) }
            for resource in [
                OSSResource(bucket: "other", key: Known.resource.key), OSSResource(bucket: Known.bucket, key: "other"),
                OSSResource(bucket: nil), OSSResource(bucket: Known.bucket),
            ] {
                #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(request, resources: [resource]) }
            }
            #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(request, resources: []) }
        }
        for (request, name, old, new) in [
            (headerV1, "date", "05 GMT", "06 GMT"), (headerV4, "x-oss-date", "05Z", "06Z"),
            (queryV1, "Expires", "105", "106"), (queryV4, "x-oss-date", "05Z", "06Z"),
            (queryV4, "x-oss-expires", "60", "61"),
        ] {
            let text = try #require(request[name])
            try #require(text.contains(old))
            #expect(throws: RequestSignatureFailure.wrongSignature) {
                try verify(try request.changing(name, to: text.replacing(old, with: new)))
            }
        }
        for (request, name) in [
            (headerV1, "x-oss-security-token"), (headerV4, "x-oss-security-token"), (queryV1, "security-token"),
            (queryV4, "x-oss-security-token"),
        ] {
            #expect(throws: RequestSignatureFailure.wrongSignature) { try verify(try request.changing(name, to: "x")) }
        }
    }

    @Test("of several interpretations of a URL, the signed one is found")
    func candidates() throws {
        let resources = [OSSResource(bucket: Known.bucket, key: "other"), Known.resource]
        for request in all {
            let claim = try OSSVerifier.forTests.claim(request, at: Known.now)
            let found = try OSSVerifier.forTests.verify(
                claim,
                resources: resources,
                credentials: Known.credentials(true)
            )
            #expect(found == Known.resource)
        }
    }

    @Test("the bucket and the service are resources too")
    func places() throws {
        for scheme in 0...1 {
            for resource in [OSSResource(bucket: "b"), OSSResource(bucket: nil)] {
                var request = SigningRequest(method: "GET", path: "/")
                request.headers = Known.signer(scheme, isTemporary: true).sign(
                    request,
                    resource: resource,
                    at: Known.now
                )
                try verify(request, resources: [resource])
            }
        }
        #expect(OSSResource(bucket: "b").text == "/b/")
        #expect(OSSResource(bucket: nil).text == "/")
    }

    @Test("no signature, two signatures and other algorithms are refused")
    func algorithms() throws {
        let plain = SigningRequest(method: "GET", path: "/")
        #expect(throws: RequestSignatureFailure.noSignature) { try verify(plain) }
        for (header, query) in [(headerV1, queryV4), (headerV4, queryV1), (queryV1, queryV4)] {
            var both = header
            both.query += query.query
            #expect(throws: RequestSignatureFailure.twoSignatures) { try verify(both) }
        }
        for text in ["", "OSS2 x", "OSS4-HMAC-SHA1 x", "AWS4-HMAC-SHA256 Credential=x", "oss a:b"] {
            #expect(throws: RequestSignatureFailure.unsupportedAlgorithm) {
                try verify(try headerV1.changing("authorization", to: text))
            }
        }
        #expect(throws: RequestSignatureFailure.unsupportedAlgorithm) {
            try verify(try queryV4.changing("x-oss-signature-version", to: "OSS2"))
        }
    }

    @Test(
        "wrong parts of Authorization in version 1 are refused",
        arguments: [
            ("OSS STS.NUexample:", "OSS STS.NUexample"), ("OSS STS.NUexample", "OSS "), ("=", ""), ("=", "=="),
            ("OSS STS.NUexample:", "OSS STS.NUexample:AAAA"),
        ]
    )
    func partsV1(_ old: String, _ new: String) throws {
        let request = try headerV1.replacing(old, new)
        #expect(throws: RequestSignatureFailure.self) { try verify(request) }
    }

    @Test(
        "wrong parts of Authorization in version 4 are refused",
        arguments: [
            ("Credential=", "Credentials=", RequestSignatureFailure.malformed("Authorization")),
            ("Credential=", "", .malformed("Authorization")),
            ("Signature=", "Signature=0,Signature=", .duplicate("Signature")),
            ("AdditionalHeaders=host", "AdditionalHeaders=host;host", .malformed("AdditionalHeaders")),
            ("AdditionalHeaders=host", "AdditionalHeaders=Host", .malformed("AdditionalHeaders")),
            ("AdditionalHeaders=host", "AdditionalHeaders=host;", .malformed("AdditionalHeaders")),
            ("AdditionalHeaders=host", "AdditionalHeaders=absent;host", .missingHeader("absent")),
            ("AdditionalHeaders=host,", "", .wrongSignature),
            ("AdditionalHeaders=host", "AdditionalHeaders=host;x-other", .wrongSignature),
            ("/oss/", "/s3/", .wrongService), ("/aliyun_v4_request", "/aws4_request", .wrongScope),
            ("/20260102/", "/20260103/", .wrongDay), ("/20260102/cn-shanghai/oss", "/oss", .malformed("Credential")),
            ("STS.NUexample/", "/", .malformed("Credential")), ("STS.NUexample/", "LTAI/", .wrongSignature),
            ("/cn-shanghai/", "/cn-beijing/", .wrongSignature), ("Signature=", "Signature=A", .malformed("Signature")),
        ]
    )
    func partsV4(_ old: String, _ new: String, _ failure: RequestSignatureFailure) throws {
        let request = try headerV4.replacing(old, new)
        #expect(throws: failure) { try verify(request) }
    }

    @Test("white space and order in Authorization of version 4 do not matter")
    func authorizationForm() throws {
        try verify(try headerV4.replacing(",", ", "))
        try verify(try headerV4.replacing(",", " ,\t"))
        let text = try #require(headerV4["authorization"])
        let parts = text.split(separator: " ", maxSplits: 1)
        let reversed = parts[1].split(separator: ",").reversed().joined(separator: ", ")
        try verify(try headerV4.changing("authorization", to: "\(parts[0]) \(reversed)"))
    }

    @Test("a verifier accepts any region or only one")
    func region() throws {
        try verify(headerV4, region: "cn-shanghai")
        try verify(headerV1, region: "cn-beijing")
        for request in [headerV4, queryV4] {
            #expect(throws: RequestSignatureFailure.wrongRegion) { try verify(request, region: "cn-beijing") }
        }
    }

    @Test("dates are required and compared with the clock")
    func dates() throws {
        for text in ["2026-01-02", "Fri, 99 Jan 2026 03:04:05 GMT", "x"] {
            #expect(throws: RequestSignatureFailure.malformed("date")) {
                try verify(try headerV1.changing("date", to: text))
            }
        }
        for text in ["", nil, " "] {
            #expect(throws: RequestSignatureFailure.missingHeader("date")) {
                try verify(try headerV1.changing("date", to: text))
            }
            #expect(throws: RequestSignatureFailure.missingHeader("x-oss-date")) {
                try verify(try headerV4.changing("x-oss-date", to: text))
            }
        }
        for text in ["20260102T030460Z", "Fri, 02 Jan 2026 03:04:05 GMT", "20260102"] {
            #expect(throws: RequestSignatureFailure.malformed("x-oss-date")) {
                try verify(try headerV4.changing("x-oss-date", to: text))
            }
        }
        // Some clients use their own format for Date.
        var request = headerV4
        request.headers.append(SigningField("Date", "20260102T030405Z"))
        try verify(request)
    }

    @Test("a signature in the query is valid until its expiry")
    func expiry() throws {
        for (name, request, text, failure) in [
            ("Expires", queryV1, "", RequestSignatureFailure.malformed("Expires")),
            ("Expires", queryV1, "-1", .malformed("Expires")), ("Expires", queryV1, "1e9", .malformed("Expires")),
            ("Expires", queryV1, "99999999999999999999", .malformed("Expires")),
            ("Expires", queryV1, "0", .expired), ("x-oss-expires", queryV4, "", .malformed("x-oss-expires")),
            ("x-oss-expires", queryV4, "-1", .malformed("x-oss-expires")),
            ("x-oss-expires", queryV4, "0", .lifetimeOutOfRange),
            ("x-oss-expires", queryV4, "604801", .lifetimeOutOfRange),
            ("x-oss-expires", queryV4, "99999999999999999999", .lifetimeOutOfRange),
            ("x-oss-expires", queryV4, "604800", .wrongSignature),
        ] {
            #expect(throws: failure) { try verify(try request.changing(name, to: text)) }
        }
        for name in ["x-oss-credential", "x-oss-date", "x-oss-expires", "x-oss-signature", "x-oss-signature-version"] {
            #expect(throws: RequestSignatureFailure.missingParameter(name)) {
                try verify(try queryV4.changing(name, to: nil))
            }
        }
        for name in ["OSSAccessKeyId", "Expires", "Signature"] {
            #expect(throws: RequestSignatureFailure.missingParameter(name)) {
                try verify(try queryV1.changing(name, to: nil))
            }
        }
    }

    @Test("lifetimes are clamped to the allowed range")
    func lifetimes() throws {
        for (lifetime, v1, v4) in [
            (Int64.max, Int64.max, Known.now + 604_800), (0, Known.now + 1, Known.now + 1),
            (Int64.min, Known.now + 1, Known.now + 1),
        ] {
            for (scheme, expiry) in [v1, v4].enumerated() {
                var request = SigningRequest(method: "GET", path: "/")
                request.query = Known.signer(scheme, isTemporary: true)
                    .presign(request, resource: Known.resource, at: Known.now, lifetime: lifetime)
                #expect(try OSSVerifier.forTests.claim(request, at: Known.now).expiry == expiry)
                try verify(request, at: expiry)
            }
        }
    }

    @Test("repeated parts and wrong declarations about the content are refused")
    func repeated() throws {
        for (request, field) in [
            (headerV1, "Authorization"), (headerV4, "x-oss-date"), (queryV1, "x-oss-meta-a"),
            (headerV1, "content-type"),
            (headerV1, "date"),
        ] {
            var twice = request
            twice.headers.append(SigningField(field, try #require(request[field])))
            #expect(throws: RequestSignatureFailure.duplicate(field.lowercased())) { try verify(twice) }
        }
        for (request, field) in [(queryV1, "Expires"), (queryV4, "x-oss-signature"), (queryV4, "x-oss-security-token")]
        {
            var twice = request
            twice.query.append(SigningField(field, try #require(request[field])))
            #expect(throws: RequestSignatureFailure.duplicate(field)) { try verify(twice) }
        }
        #expect(throws: RequestSignatureFailure.malformed("x-oss-content-sha256")) {
            try verify(try headerV4.changing("x-oss-content-sha256", to: String(repeating: "0", count: 64)))
        }
        #expect(throws: RequestSignatureFailure.missingHeader("x-oss-content-sha256")) {
            try verify(try headerV4.changing("x-oss-content-sha256", to: nil))
        }
    }

    @Test("missing, changed or wrong fields of a form are refused")
    func forms() throws {
        func verify(_ fields: [SigningField], at now: Int64 = Known.now) throws(RequestSignatureFailure) {
            let claim = try OSSVerifier.forTests.claim(form: fields, at: now)
            try OSSVerifier.forTests.verify(claim, credentials: Known.credentials(true))
        }
        for scheme in 0...1 {
            let fields = Known.signer(scheme, isTemporary: true).form(policy: { "e30=\($0.count)" }, at: Known.now)
            try verify(fields)
            try verify(fields.map { SigningField($0.name.uppercased(), $0.value) })
            try verify(fields, at: Known.now + 10_000_000)
            for (index, field) in fields.enumerated() {
                for value in ["x", ""] {
                    var changed = fields
                    changed[index] = SigningField(field.name, value)
                    #expect(throws: RequestSignatureFailure.self) { try verify(changed) }
                }
                var without = fields
                without.remove(at: index)
                #expect(throws: RequestSignatureFailure.self) { try verify(without) }
                #expect(throws: RequestSignatureFailure.duplicate(field.name.lowercased())) {
                    try verify(fields + [field])
                }
            }
        }
        #expect(throws: RequestSignatureFailure.noSignature) { try verify([SigningField("key", "k")]) }
        #expect(throws: RequestSignatureFailure.missingParameter("ossaccesskeyid")) {
            try verify([SigningField("policy", "e30=")])
        }
        let late = Known.signer(1, isTemporary: true).form(policy: { _ in "e30=" }, at: Known.now + 901)
        #expect(throws: RequestSignatureFailure.skewed) { try verify(late) }
    }

    @Test("signed requests are accepted, and nothing else", arguments: 0..<200)
    func property(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let request = random.request(repeats: true)
        let credentials = random.credentials()
        let resource = OSSResource(bucket: "bucket-1", key: random.text(6))
        for (index, scheme) in OSSSigner.Scheme.forTests.enumerated() {
            let signer = OSSSigner(credentials: credentials, scheme: scheme)
            for isQuery in [false, true] {
                var signed = request
                if isQuery {
                    signed.query = signer.presign(
                        request,
                        resource: resource,
                        additionalHeaders: ["host"],
                        at: Known.now,
                        lifetime: 9
                    ).shuffled(using: &random)
                } else {
                    signed.headers += signer.sign(
                        request,
                        resource: resource,
                        additionalHeaders: ["host"],
                        at: Known.now
                    )
                    signed.headers.shuffle(using: &random)
                }
                func verify(_ request: SigningRequest) throws(RequestSignatureFailure) {
                    let claim = try OSSVerifier.forTests.claim(request, at: Known.now)
                    _ = try OSSVerifier.forTests.verify(claim, resources: [resource], credentials: credentials)
                }
                try verify(signed)
                for (position, field) in signed.query.enumerated()
                where index == 1 || OSSSubresource.isSigned(field.name) {
                    var changed = signed
                    changed.query[position] = SigningField(field.name, field.value + "%")
                    #expect(throws: RequestSignatureFailure.self) { try verify(changed) }
                }
                for (position, field) in signed.headers.enumerated()
                where OSSCanonical.isAlwaysSigned(field.name.lowercased()) {
                    var changed = signed
                    changed.headers[position] = SigningField(field.name, field.value + "%")
                    #expect(throws: RequestSignatureFailure.self) { try verify(changed) }
                }
            }
        }
    }
}
