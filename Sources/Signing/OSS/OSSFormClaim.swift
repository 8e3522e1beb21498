internal import Digests

/// The signature information in a form for OSS; not verified yet ("PostObject", OSS documentation).
package struct OSSFormClaim: Sendable {
    package let version: OSSVersion
    /// The id of the secret to look up.
    package let accessKeyID: String
    /// Only in version 4.
    package let scope: OSSScope?
    /// When it was signed, Unix seconds; `nil` in version 1, which does not contain it.
    package let date: Int64?
    /// As received: JSON in base64.
    ///
    /// It contains the expiry of the signature and conditions for the other fields.
    package let policy: String
    package let token: String?
    /// As received: base64 in version 1, hexadecimal in version 4.
    package let signature: String
}

extension OSSVerifier {
    /// Parses the signature of a form.
    ///
    /// The receiver of the form must check the policy, which contains the expiry and says what may be uploaded, after
    /// `verify` has succeeded.
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
    ) throws(RequestSignatureFailure) -> OSSFormClaim {
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
        guard date <= now + min(skew, Self.maximumSkew) else { throw .skewed }
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

    /// Verifies signature and token of a form's claim in constant time.
    ///
    /// - Throws: `.wrongSignature`, `.wrongToken`.
    package func verify(_ claim: OSSFormClaim, credentials: SigningCredentials) throws(RequestSignatureFailure) {
        let wanted = OSSCanonical.signature(claim.policy, scope: claim.scope, secret: credentials.secretAccessKey)
        let isSigned = constantTimeEquals(wanted.utf8, claim.signature.utf8)
        try credentials.check(accessKeyID: claim.accessKeyID, isSigned: isSigned, token: claim.token)
    }
}
