// Signatures of Tencent Cloud: TC3, the parameters of version 1, and the client upload signature of VOD.

internal import Bytes
internal import Signing

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

private let verifier = TC3Verifier(service: nil)
private let signer = TC3Signer(credentials: credentials, service: "sts")

func fuzzTc3(_ bytes: [UInt8]) {
    let given = FuzzedRequest(bytes).request
    expectRefusal { () throws(RequestSignatureFailure) in
        let claim = try verifier.claim(given, at: now)
        _ = (claim.stringToSign, claim.canonicalRequest)
        try verifier.verify(claim, credentials: otherCredentials)
    }
    expectRefusal { () throws(RequestSignatureFailure) in
        let claim = try TencentParameterSignature.claim(given, at: now)
        _ = claim.stringToSign
        try TencentParameterSignature.verify(claim, credentials: otherCredentials)
    }
    checkUploadSignature(text(bytes), bytes)

    // Slow, because of the codes.
    var generator = SeededGenerator(for: bytes)
    guard generator.oneIn(64) else { return }
    var plain = given.plain(without: ["content-type"])
    plain.headers.append(SigningField("content-type", "application/json"))
    let signed = plain.adding(signer.sign(plain, at: now))
    expectAcceptance("\(signed)") { () throws(RequestSignatureFailure) in try check(signed) }
    var changed = signed
    changed.query.append(SigningField("Action", "x"))
    expectRefusal { () throws(RequestSignatureFailure) in try check(changed) }
    changed = signed
    changed.payload = SigV4Payload(content: bytes + [0])
    expectRefusal { () throws(RequestSignatureFailure) in try check(changed) }
    expectRefusal { () throws(RequestSignatureFailure) in try check(signed, at: now + 301) }
}

private func check(_ request: SigningRequest, at moment: Int64 = now) throws(RequestSignatureFailure) {
    try verifier.verify(try verifier.claim(request, at: moment), credentials: credentials)
}

private func checkUploadSignature(_ given: String, _ bytes: [UInt8]) {
    for signature in [given, Base64.encode([UInt8](repeating: 7, count: 20) + bytes)] {
        if let parsed = try? TencentUploadSignature.parse(signature) {
            expectEqual(parsed.code.count, 20, "bytes of the code")
            expectEqual(Base64.encode(parsed.code + parsed.original), signature, "what was parsed")
            expectEqual(Set(parsed.fields.map(\.name)).count, parsed.fields.count, "names")
        }
        let verified = try? TencentUploadSignature.verify(signature, secretKey: { _ in "another secret" }, at: now)
        expect(verified == nil, "accepted")
    }
}
