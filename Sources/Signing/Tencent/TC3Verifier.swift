internal import Digests

/// The signature information in a request to the API of Tencent Cloud (TC3-HMAC-SHA256); not verified yet.
package struct TC3Claim: Sendable {
    /// The id of the secret to look up.
    package let secretID: String
    /// For example `vod` or `sts`.
    package let service: String
    /// When it was signed, Unix seconds.
    package let timestamp: Int64
    /// In lower case, in order.
    ///
    /// The SDKs only sign `content-type` and `host`, so the sender can change `X-TC-Action` and `X-TC-Version`.
    package let signedHeaders: [String]
    /// Not necessarily signed.
    package let token: String?
    /// 64 hexadecimal digits in lower case.
    package let signature: String

    let timestampText: String
    let scope: TC3Scope
    let payload: [UInt8]
    let request: SigningRequest
}

extension TC3Claim {
    /// What the client should have signed; contains no secret.
    package var stringToSign: String { stringToSign(.sdk) }

    /// The form of the request whose hash is in the string to sign.
    package var canonicalRequest: String { canonicalRequest(.sdk) }

    private func canonicalRequest(_ style: TC3Canonical.Style) -> String {
        TC3Canonical.request(request, signedHeaders: signedHeaders, payload: payload, style: style)
    }

    private func stringToSign(_ style: TC3Canonical.Style) -> String {
        TC3Canonical.stringToSign(
            canonicalRequest: canonicalRequest(style),
            timestamp: timestampText,
            scope: scope
        )
    }

    func isSigned(secret: String) -> Bool {
        let key = scope.key(secret)
        return TC3Canonical.Style.all.contains { style in
            let wanted = TC3Canonical.signature(stringToSign(style), key: key)
            return constantTimeEquals(wanted.utf8, signature.utf8)
        }
    }
}

/// Verifies requests to the API of Tencent Cloud that are signed with TC3-HMAC-SHA256.
///
/// In two steps, because the secret comes from elsewhere:
///
///     let claim = try verifier.claim(request, at: now)
///     let credentials = …                               // of claim.secretID
///     try verifier.verify(claim, credentials: credentials)
package struct TC3Verifier: Sendable {
    /// Maximum clock difference in seconds ("AuthFailure.SignatureExpire", Tencent Cloud API documentation).
    package static let maximumSkew: Int64 = 300

    private let service: String?

    /// - Parameter service: Required service in the scope; `nil` for any.
    package init(service: String?) {
        self.service = service
    }

    /// Parses the signature of a request and checks everything that needs no secret.
    ///
    /// - Parameters:
    ///   - request: With all its headers, its query in the received order, and `payload` of the received content, which
    /// does not count
    ///     if `X-TC-Content-SHA256` declares it unsigned.
    ///   - now: Unix seconds.
    ///   - skew: Seconds by which clocks may differ, if that is less than the vendor's limit.
    /// - Returns: The claim.
    /// - Throws: The first problem found: any failure except `.wrongToken` and `.wrongSignature`.
    package func claim(
        _ request: SigningRequest,
        at now: Int64,
        skew: Int64 = Self.maximumSkew
    ) throws(RequestSignatureFailure) -> TC3Claim {
        let headers = RequestHeaders(request.headers)
        guard let authorization = try headers.single("authorization") else { throw .noSignature }
        let parts = try AuthorizationParts(authorization, algorithm: TC3Canonical.algorithm)
        try parts.allow(["Credential", "SignedHeaders", "Signature"])
        let (secretID, scopeParts) = try AuthorizationParts.credential(try parts.value("Credential"), count: 3)
        guard scopeParts[2] == TC3Scope.terminator else { throw .wrongScope }
        let scope = TC3Scope(day: scopeParts[0], service: scopeParts[1])
        guard service == nil || scope.service == service else { throw .wrongService }
        let signedHeaders = try AuthorizationParts.names(try parts.value("SignedHeaders"), "SignedHeaders")
        let signature = try AuthorizationParts.signature(try parts.value("Signature"), count: 32)
        for name in ["content-type", "host"] {
            guard signedHeaders.contains(name) else { throw .unsignedHeader(name) }
        }
        for name in signedHeaders where try headers.single(name) == nil { throw .missingHeader(name) }

        let timestampText = try headers.required("x-tc-timestamp")
        guard let timestamp = SigningText.number(timestampText) else { throw .malformed("X-TC-Timestamp") }
        guard SigningTime.day(timestamp) == scope.day else { throw .wrongDay }
        // The number has no sign, so the difference cannot overflow.
        guard abs(timestamp - now) <= min(skew, Self.maximumSkew) else { throw .skewed }
        let isUnsigned = try headers.single("x-tc-content-sha256") == SigV4Payload.unsigned.text
        return TC3Claim(
            secretID: secretID,
            service: scope.service,
            timestamp: timestamp,
            signedHeaders: signedHeaders,
            token: try headers.single("x-tc-token"),
            signature: signature,
            timestampText: timestampText,
            scope: scope,
            payload: TC3Canonical.hash(of: isUnsigned ? .unsigned : request.payload),
            request: request
        )
    }

    /// Verifies signature and token of a claim in constant time.
    ///
    /// - Throws: `.wrongSignature`, `.wrongToken`.
    package func verify(_ claim: TC3Claim, credentials: SigningCredentials) throws(RequestSignatureFailure) {
        let isSigned = claim.isSigned(secret: credentials.secretAccessKey)
        try credentials.check(accessKeyID: claim.secretID, isSigned: isSigned, token: claim.token)
    }
}
