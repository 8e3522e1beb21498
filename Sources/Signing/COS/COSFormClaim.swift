internal import Bytes
internal import Digests

/// What a form for COS says of its signature ("POST Object", COS documentation, 436/14690); nobody has vouched for it.
package struct COSFormClaim: Sendable {
    /// Whose secret is to be looked up.
    package let secretID: String
    package let keyTime: COSWindow
    /// As it came: JSON in Base64.
    ///
    /// It has the end of the form, and says what other fields may be.
    package let policy: String
    package let token: String?
    /// 40 hexadecimal digits in lower case.
    package let signature: String
    /// The window as it came.
    let keyTimeText: String
}

extension COSVerifier {
    /// Takes the signature of a form apart.
    ///
    /// The policy says what may be uploaded. It is checked by who takes the form, and only when `verify` has vouched for it.
    ///
    /// - Parameters:
    ///   - fields: Those of the form in front of the file, their names in any case.
    ///   - now: Unix seconds.
    /// - Returns: What it says.
    /// - Throws: The first thing that is wrong; `.noSignature` for a form with nothing of a signature in it.
    package func claim(form fields: [SigningField], at now: Int64) throws(RequestSignatureFailure) -> COSFormClaim {
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
        try Self.check(window, at: now)
        return COSFormClaim(
            secretID: secretID,
            keyTime: window,
            policy: try fields.single("policy"),
            token: try fields.optional("x-cos-security-token"),
            signature: signature,
            keyTimeText: text
        )
    }

    /// Checks signature and token of the claim of a form, in constant time.
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
    ///   - policy: Makes it, in Base64, of what must be in it beside conditions of its own; `q-sign-time` there is
    ///     `q-key-time` in the form.
    ///   - window: When the signature is in force.
    /// - Returns: The fields of the form that are for the signature, the policy among them.
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
    /// The signature of a form, whose text to sign is the hash of its policy; `nil` for what is not in Base64.
    fileprivate static func signature(policy: String, keyTime: String, secret: String) -> String? {
        guard let json = Base64.decode(policy) else { return nil }
        return signature(Hexadecimal.encode(Digest.hash(json, .sha1)), keyTime: keyTime, secret: secret)
    }
}
