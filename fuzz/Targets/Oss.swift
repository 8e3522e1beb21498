// Signatures of OSS, version 1 and 4, in headers, queries and forms.

internal import HTTPWire
internal import Signing

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

private let verifier = OSSVerifier(region: nil) { HTTPDate.parse($0) }
private let resource = OSSResource(bucket: "bucket", key: "key")
private let signers = [
    OSSSigner(credentials: credentials, scheme: .v1 { HTTPDate.format($0) }),
    OSSSigner(credentials: credentials, scheme: .v4(region: "cn-shanghai")),
]
private let made: Set<String> = ["date", "ossaccesskeyid", "signature", "expires", "security-token"]

func fuzzOss(_ bytes: [UInt8]) {
    let given = FuzzedRequest(bytes).request
    expectRefusal { () throws(RequestSignatureFailure) in
        let claim = try verifier.claim(given, at: now)
        _ = claim.stringToSign(for: resource)
        _ = claim.canonicalRequest(for: resource)
        _ = try verifier.verify(claim, resources: [resource, OSSResource(bucket: nil)], credentials: otherCredentials)
    }
    expectRefusal { () throws(RequestSignatureFailure) in
        let claim = try verifier.claim(form: given.query, at: now)
        try verifier.verify(claim, credentials: otherCredentials)
    }
    // Slow, because of the codes.
    var generator = SeededGenerator(for: bytes)
    guard generator.oneIn(64) else { return }
    let plain = given.plain(without: made)
    let additional = plain.headers.map { $0.name.lowercased() }.filter { $0 != "content-type" && $0 != "content-md5" }
    for signer in signers {
        let signed = plain.adding(
            signer.sign(plain, resource: resource, additionalHeaders: additional, at: now)
        )
        expectAcceptance("\(signed)") { () throws(RequestSignatureFailure) in try check(signed, resource) }
        var presigned = plain
        presigned.query = signer.presign(
            plain,
            resource: resource,
            additionalHeaders: additional,
            at: now,
            lifetime: 60
        )
        expectAcceptance("\(presigned)") { () throws(RequestSignatureFailure) in try check(presigned, resource) }
        expectRefusal { () throws(RequestSignatureFailure) in try check(presigned, resource, at: now + 61) }
        for request in [signed, presigned] {
            expectRefusal { () throws(RequestSignatureFailure) in
                try check(request, OSSResource(bucket: "bucket", key: "key2"))
            }
            for name in ["uploads", "callback", "response-content-type"]
            where !request.query.contains(where: { $0.name == name }) {
                var changed = request
                changed.query.append(SigningField(name, "x"))
                expectRefusal { () throws(RequestSignatureFailure) in try check(changed, resource) }
            }
            var changed = request
            changed.headers.append(SigningField("x-oss-copy-source", "/bucket/other"))
            expectRefusal { () throws(RequestSignatureFailure) in try check(changed, resource) }
        }
        let policy = text(bytes)
        let form = signer.form(policy: { _ in policy }, at: now)
        expectAcceptance("\(form)") { () throws(RequestSignatureFailure) in
            try verifier.verify(try verifier.claim(form: form, at: now), credentials: credentials)
        }
    }
}

private func check(
    _ request: SigningRequest,
    _ resource: OSSResource,
    at moment: Int64 = now
) throws(RequestSignatureFailure) {
    _ = try verifier.verify(
        try verifier.claim(request, at: moment),
        resources: [resource],
        credentials: credentials
    )
}
