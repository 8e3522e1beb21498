// Signatures of the OpenAPI of Alibaba Cloud: ACS3 in a header, and the parameters of the RPC style.

internal import Signing

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

private let made: Set<String> = [
    "accesskeyid", "signaturemethod", "signatureversion", "signaturenonce", "timestamp", "securitytoken", "signature",
]

func fuzzAcs(_ bytes: [UInt8]) {
    let given = FuzzedRequest(bytes).request
    expectRefusal { () throws(RequestSignatureFailure) in
        let claim = try ACS3Signature.claim(given, at: now)
        expectEqual(claim.contentHash.count, 32, "bytes of the hash")
        try ACS3Signature.verify(claim, credentials: otherCredentials)
    }
    expectRefusal { () throws(RequestSignatureFailure) in
        try AliyunRPCSignature.verify(try AliyunRPCSignature.claim(given, at: now), credentials: otherCredentials)
    }
    // Slow, because of the codes.
    var generator = SeededGenerator(for: bytes)
    guard generator.oneIn(64) else { return }
    var plain = given.plain(without: made)
    var seen: Set<String> = []
    plain.query.removeAll { !seen.insert($0.name).inserted }

    let signed = plain.adding(ACS3Signature.sign(plain, credentials: credentials, nonce: "1", at: now))
    expectAcceptance("\(signed)") { () throws(RequestSignatureFailure) in try checkACS3(signed) }
    var changed = signed
    changed.query.append(SigningField("zz", ""))
    expectRefusal { () throws(RequestSignatureFailure) in try checkACS3(changed) }
    changed = signed
    changed.headers.append(SigningField("x-acs-action", "AssumeRole"))
    expectRefusal { () throws(RequestSignatureFailure) in try checkACS3(changed) }
    expectRefusal { () throws(RequestSignatureFailure) in try checkACS3(signed, at: now + 901) }

    var called = plain
    called.query = AliyunRPCSignature.sign(plain, credentials: credentials, nonce: "1", at: now)
    expectAcceptance("\(called)") { () throws(RequestSignatureFailure) in try checkRPC(called) }
    called.query.append(SigningField("zz", ""))
    expectRefusal { () throws(RequestSignatureFailure) in try checkRPC(called) }
}

private func checkACS3(_ request: SigningRequest, at moment: Int64 = now) throws(RequestSignatureFailure) {
    try ACS3Signature.verify(try ACS3Signature.claim(request, at: moment), credentials: credentials)
}

private func checkRPC(_ request: SigningRequest) throws(RequestSignatureFailure) {
    try AliyunRPCSignature.verify(try AliyunRPCSignature.claim(request, at: now), credentials: credentials)
}
