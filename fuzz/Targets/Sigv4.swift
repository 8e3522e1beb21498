// AWS Signature Version 4: what is signed is accepted, in a header and in a query, and nothing else is.

internal import Signing

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

private let verifier = SigV4Verifier(region: "us-east-1")
private let general = SigV4Verifier(region: nil, service: "sts", rules: .general)
private let signer = SigV4Signer(credentials: credentials, region: "us-east-1")
private let made: Set<String> = ["date"]

func fuzzSigv4(_ bytes: [UInt8]) {
    let given = FuzzedRequest(bytes).request
    for verifier in [verifier, general] {
        expectRefusal { () throws(RequestSignatureFailure) in
            let claim = try verifier.claim(given, at: now)
            expect(claim.signedHeaders.contains("host"), "the host is not signed")
            _ = try verifier.verify(claim, credentials: otherCredentials)
        }
    }
    if let payload = SigV4Payload(text(bytes)) { expectEqual(payload.text, text(bytes), "payload") }

    // Slow, because of the codes.
    var generator = SeededGenerator(for: bytes)
    guard generator.oneIn(64) else { return }
    let plain = given.plain(without: made)
    let signed = plain.adding(signer.sign(plain, at: now).fields)
    expectAcceptance("\(signed)") { () throws(RequestSignatureFailure) in try check(signed) }
    for changed in changes(of: signed) { expectRefusal { () throws(RequestSignatureFailure) in try check(changed) } }

    var presigned = plain
    // The signer of a URL does not know the content.
    presigned.payload = .unsigned
    presigned.query = signer.presign(presigned, at: now, lifetime: 60)
    expectAcceptance("\(presigned)") { () throws(RequestSignatureFailure) in try check(presigned) }
    for changed in changes(of: presigned) { expectRefusal { () throws(RequestSignatureFailure) in try check(changed) } }
    expectRefusal { () throws(RequestSignatureFailure) in try check(presigned, at: now + 61) }
}

private func check(_ request: SigningRequest, at moment: Int64 = now) throws(RequestSignatureFailure) {
    _ = try verifier.verify(try verifier.claim(request, at: moment), credentials: credentials)
}

/// Each changes what the request means.
private func changes(of request: SigningRequest) -> [SigningRequest] {
    var all: [SigningRequest] = []
    var changed = request
    changed.path = (request.path.isEmpty ? "/" : request.path) + "x"
    all.append(changed)
    changed = request
    changed.method += "X"
    all.append(changed)
    changed = request
    changed.query.append(SigningField("uploads", ""))
    all.append(changed)
    changed = request
    changed.headers.append(SigningField("x-amz-copy-source", "/bucket/key"))
    all.append(changed)
    changed = request
    changed.headers = request.headers.map { $0.name == "host" ? SigningField("host", "other.example") : $0 }
    all.append(changed)
    return all
}
