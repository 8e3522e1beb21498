internal import Digests

/// What a form for OSS says about its signature; nobody has vouched for it ("PostObject", OSS documentation).
package struct OSSFormClaim: Sendable {
    package let version: OSSVersion
    /// Whose secret is to be looked up.
    package let accessKeyID: String
    /// Of version 4 only.
    package let scope: OSSScope?
    /// When it was signed, Unix seconds; `nil` in version 1, which does not say.
    package let date: Int64?
    /// As it came: JSON in base64.
    ///
    /// It has the end of the signature, and says what other fields may be.
    package let policy: String
    package let token: String?
    /// As it came: base64 in version 1, hexadecimal in version 4.
    package let signature: String
}

extension OSSVerifier {
    /// Takes the signature of a form apart.
    ///
    /// The policy ends the signature and says what may be uploaded. It is checked by who takes the form, and only when
    /// `verify` has vouched for it.
    ///
    /// - Parameters:
    ///   - fields: Those of the form in front of the file, their names in any case.
    ///   - now: Unix seconds.
    /// - Returns: What it says.
    /// - Throws: The first thing that is wrong; `.noSignature` for a form with nothing of a signature in it.
    package func claim(form fields: [SigningField], at now: Int64) throws(RequestSignatureFailure) -> OSSFormClaim {
        let fields = fields.map { SigningField(SigningText.lowercased($0.name), $0.value) }
        let isV1 = fields.contains { ["ossaccesskeyid", "signature"].contains($0.name) }
        let isV4 = fields.contains {
            ["x-oss-signature-version", "x-oss-credential", "x-oss-signature"].contains($0.name)
        }
        guard !isV1 || !isV4 else { throw .twoSignatures }
        guard isV1 || isV4 || fields.contains(where: { $0.name == "policy" }) else { throw .noSignature }
        let policy = try fields.single("policy")
        let token = try fields.optional("x-oss-security-token")
        guard isV4 else {
            let accessKeyID = try fields.single("ossaccesskeyid")
            guard !accessKeyID.isEmpty else { throw .malformed("OSSAccessKeyId") }
            return OSSFormClaim(
                version: .v1,
                accessKeyID: accessKeyID,
                scope: nil,
                date: nil,
                policy: policy,
                token: token,
                signature: try Self.signatureV1(try fields.single("signature"))
            )
        }
        guard try fields.single("x-oss-signature-version") == OSSVersion.algorithmV4 else {
            throw .unsupportedAlgorithm
        }
        let (accessKeyID, scope) = try scope(try fields.single("x-oss-credential"))
        let (_, date) = try Self.timestamp(try fields.single("x-oss-date"), scope)
        guard date <= now + Self.maximumSkew else { throw .skewed }
        return OSSFormClaim(
            version: .v4,
            accessKeyID: accessKeyID,
            scope: scope,
            date: date,
            policy: policy,
            token: token,
            signature: try AuthorizationParts.signature(try fields.single("x-oss-signature"), count: 32)
        )
    }

    /// Checks signature and token of the claim of a form, in constant time.
    ///
    /// - Throws: `.wrongSignature`, `.wrongToken`.
    package func verify(_ claim: OSSFormClaim, credentials: SigningCredentials) throws(RequestSignatureFailure) {
        let wanted = OSSCanonical.signature(claim.policy, scope: claim.scope, secret: credentials.secretAccessKey)
        let isSigned = constantTimeEquals(wanted.utf8, claim.signature.utf8)
        try credentials.check(accessKeyID: claim.accessKeyID, isSigned: isSigned, token: claim.token)
    }
}
