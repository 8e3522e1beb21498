// Signatures of COS in headers, queries and forms.

internal import Bytes
internal import Signing

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

private let verifier = COSVerifier()
private let signer = COSSigner(credentials: credentials)
private let window = COSWindow(start: now, end: now + 60)

func fuzzCos(_ bytes: [UInt8]) {
    let given = FuzzedRequest(bytes).request
    expectRefusal { () throws(RequestSignatureFailure) in
        let claim = try verifier.claim(given, at: now)
        _ = (claim.stringToSign, claim.formatString)
        try verifier.verify(claim, credentials: otherCredentials)
    }
    expectRefusal { () throws(RequestSignatureFailure) in
        try verifier.verify(try verifier.claim(form: given.query, at: now), credentials: otherCredentials)
    }
    // Slow, because of the codes.
    var generator = SeededGenerator(for: bytes)
    guard generator.oneIn(64) else { return }
    // With one host, which is signed.
    var plain = given.plain(without: ["vod-forward-cos"])
    // A list of names has no place for one that is empty.
    plain.query.removeAll { $0.name.isEmpty }
    let signed = plain.adding(signer.sign(plain, window: window))
    expectAcceptance("\(signed)") { () throws(RequestSignatureFailure) in try check(signed) }
    var presigned = plain
    presigned.query = signer.presign(plain, window: window)
    expectAcceptance("\(presigned)") { () throws(RequestSignatureFailure) in try check(presigned) }
    for request in [signed, presigned] {
        var changed = request
        changed.path = (request.path.isEmpty ? "/" : request.path) + "x"
        expectRefusal { () throws(RequestSignatureFailure) in try check(changed) }
        changed = request
        changed.method += "X"
        expectRefusal { () throws(RequestSignatureFailure) in try check(changed) }
        changed = request
        changed.headers = request.headers.map { $0.name == "host" ? SigningField("host", "other.example") : $0 }
        expectRefusal { () throws(RequestSignatureFailure) in try check(changed) }
        expectRefusal { () throws(RequestSignatureFailure) in try check(request, at: now + 61) }
    }
    let policy = Base64.encode(bytes)
    let form = signer.form(policy: { _ in policy }, window: window)
    expectAcceptance("\(form)") { () throws(RequestSignatureFailure) in
        try verifier.verify(try verifier.claim(form: form, at: now), credentials: credentials)
    }
}

private func check(_ request: SigningRequest, at moment: Int64 = now) throws(RequestSignatureFailure) {
    try verifier.verify(try verifier.claim(request, at: moment), credentials: credentials)
}
