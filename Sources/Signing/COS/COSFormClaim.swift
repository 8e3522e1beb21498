internal import Bytes
internal import Digests

/// The signature information in a form for COS ("POST Object", COS documentation, 436/14690); not verified yet.
package struct COSFormClaim: Sendable {
    /// The id of the secret to look up.
    package let secretID: String
    package let keyTime: COSWindow
    /// As received: JSON in Base64.
    ///
    /// It contains the expiry of the form and conditions for its other fields.
    package let policy: String
    package let token: String?
    /// 40 hexadecimal digits in lower case.
    package let signature: String
    /// The window as received.
    let keyTimeText: String
}

extension COSVerifier {
    /// Parses the signature of a form.
    ///
    /// The receiver of the form must check the policy, which says what may be uploaded, after `verify` has succeeded.
    ///
    /// - Parameters:
    ///   - fields: The fields of the form before the file, with names in any case.
    ///   - now: Unix seconds.
    ///   - skew: Seconds by which clocks may differ, if that is less than the vendor's limit.
    /// - Returns: The claim.
    /// - Throws: The first problem found; `.noSignature` for a form without any part of a signature.
    package func claim(
        form fields: [SigningField],
        at now: Int64,
        skew: Int64 = Self.maximumSkew
    ) throws(RequestSignatureFailure) -> COSFormClaim {
        let fields = fields.map { SigningField(SigningText.lowercased($0.name), $0.value) }
        let names = ["policy", "q-sign-algorithm", "q-ak", "q-key-time", "q-signature"]
        guard fields.contains(where: { names.contains($0.name) }) else { throw .noSignature }
        guard try fields.single("q-sign-algorithm") == "sha1" else { throw .unsupportedAlgorithm }
        let secretID = try fields.single("q-ak")
        guard !secretID.isEmpty else { throw .malformed("q-ak") }
        let (text, window) = try Self.window(fields, "q-key-time")
        let signature = try fields.single("q-signature")
        guard SigningText.isHexadecimal(signature, count: DigestAlgorithm.sha1.byteCount) else {
            throw .malformed("q-signature")
        }
        try Self.check(window, at: now, skew)
        return COSFormClaim(
            secretID: secretID,
            keyTime: window,
            policy: try fields.single("policy"),
            token: try fields.optional("x-cos-security-token"),
            signature: signature,
            keyTimeText: text
        )
    }

    /// Verifies signature and token of a form's claim in constant time.
    ///
    /// - Throws: `.wrongSignature`, `.wrongToken`.
    package func verify(_ claim: COSFormClaim, credentials: SigningCredentials) throws(RequestSignatureFailure) {
        let wanted = COSCanonical.signature(
            policy: claim.policy,
            keyTime: claim.keyTimeText,
            secret: credentials.secretAccessKey
        )
        let isSigned = wanted.map { constantTimeEquals($0.utf8, claim.signature.utf8) } ?? false
        try credentials.check(accessKeyID: claim.secretID, isSigned: isSigned, token: claim.token)
    }
}

extension COSSigner {
    /// Signs the policy of a form.
    ///
    /// - Parameters:
    ///   - policy: Makes the policy in Base64. In addition to its own conditions it must include `fields`;
    /// `q-sign-time` there
    ///     corresponds to `q-key-time` in the form.
    ///   - window: The validity of the signature.
    /// - Returns: The signature fields of the form, including the policy.
    package func form(policy: (_ fields: [SigningField]) -> String, window: COSWindow) -> [SigningField] {
        let (algorithm, key) = (SigningField("q-sign-algorithm", "sha1"), SigningField("q-ak", credentials.accessKeyID))
        let policy = policy([algorithm, key, SigningField("q-sign-time", window.text)])
        let signature = COSCanonical.signature(
            policy: policy,
            keyTime: window.text,
            secret: credentials.secretAccessKey
        )
        return [algorithm, key, SigningField("q-key-time", window.text), SigningField("policy", policy)]
            + (signature.map { [SigningField("q-signature", $0)] } ?? [])
            + (credentials.sessionToken.map { [SigningField("x-cos-security-token", $0)] } ?? [])
    }
}

extension COSCanonical {
    /// The signature of a form: the hash of its policy is signed.
    ///
    /// `nil` if the policy is not Base64.
    fileprivate static func signature(policy: String, keyTime: String, secret: String) -> String? {
        guard let json = Base64.decode(policy) else { return nil }
        return signature(Hexadecimal.encode(Digest.hash(json, .sha1)), keyTime: keyTime, secret: secret)
    }
}
