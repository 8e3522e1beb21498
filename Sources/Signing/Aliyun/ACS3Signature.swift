internal import Bytes
internal import Digests

/// The signature in the header `Authorization` of a request to the OpenAPI of Alibaba Cloud ("Request syntax and signature
/// method V3"): ACS3-HMAC-SHA256.
package enum ACS3Signature {
    /// Maximum clock difference in seconds ("Common parameters", ApsaraVideo VOD documentation).
    package static let maximumSkew: Int64 = 900

    private static let algorithm = "ACS3-HMAC-SHA256"

    /// The signature information in a request; not verified yet.
    package struct Claim: Sendable {
        /// The id of the secret to look up.
        package let accessKeyID: String
        /// When it was signed, Unix seconds.
        package let date: Int64
        /// Must not be reused while the date is valid.
        package let nonce: String
        /// SHA-256 of the content, 32 bytes; the reader of the content must check it.
        package let contentHash: [UInt8]
        /// In lower case, in order.
        package let signedHeaders: [String]
        package let token: String?
        /// 64 hexadecimal digits in lower case.
        package let signature: String
        /// The signed form of the request.
        package let canonicalRequest: String

        /// What the client should have signed; contains no secret.
        package var stringToSign: String { ACS3Signature.stringToSign(canonicalRequest) }
    }

    /// Parses the signature of a request and checks everything that needs no secret.
    ///
    /// - Parameters:
    ///   - request: With all its headers; `host` and all `x-acs-*` must be signed. `payload` is ignored.
    ///   - now: Unix seconds.
    ///   - skew: Seconds by which clocks may differ, if that is less than the vendor's limit.
    /// - Returns: The claim.
    /// - Throws: The first problem found: any failure except `.wrongToken` and `.wrongSignature`.
    package static func claim(
        _ request: SigningRequest,
        at now: Int64,
        skew: Int64 = Self.maximumSkew
    ) throws(RequestSignatureFailure) -> Claim {
        let headers = RequestHeaders(request.headers)
        guard let authorization = try headers.single("authorization") else { throw .noSignature }
        let parts = try AuthorizationParts(authorization, algorithm: algorithm)
        try parts.allow(["Credential", "SignedHeaders", "Signature"])
        let accessKeyID = try parts.value("Credential")
        guard !accessKeyID.isEmpty else { throw .malformed("Credential") }
        let signedHeaders = try AuthorizationParts.names(try parts.value("SignedHeaders"), "SignedHeaders")
        let signature = try AuthorizationParts.signature(try parts.value("Signature"), count: 32)
        for name in ["host"] + headers.names.filter({ $0.hasPrefix("x-acs-") }) {
            guard signedHeaders.contains(name) else { throw .unsignedHeader(name) }
        }
        for name in signedHeaders where try headers.single(name) == nil { throw .missingHeader(name) }
        try request.query.checkNoneIsRepeated()

        guard let date = SigningTime.parseExtended(try headers.required("x-acs-date")) else {
            throw .malformed("x-acs-date")
        }
        guard abs(date - now) <= min(skew, maximumSkew) else { throw .skewed }
        let hash = try headers.required("x-acs-content-sha256")
        guard let contentHash = SigV4Hash(hash) else { throw .malformed("x-acs-content-sha256") }
        return Claim(
            accessKeyID: accessKeyID,
            date: date,
            nonce: try headers.required("x-acs-signature-nonce"),
            contentHash: contentHash.bytes,
            signedHeaders: signedHeaders,
            token: try headers.single("x-acs-security-token"),
            signature: signature,
            canonicalRequest: canonicalRequest(request, signedHeaders, hash)
        )
    }

    /// Verifies signature and token of a claim in constant time.
    ///
    /// - Throws: `.wrongSignature`, `.wrongToken`.
    package static func verify(
        _ claim: Claim,
        credentials: SigningCredentials
    ) throws(RequestSignatureFailure) {
        let wanted = signature(claim.stringToSign, secret: credentials.secretAccessKey)
        let isSigned = constantTimeEquals(wanted.utf8, claim.signature.utf8)
        try credentials.check(accessKeyID: claim.accessKeyID, isSigned: isSigned, token: claim.token)
    }

    /// Signs a request in its header `Authorization`.
    ///
    /// - Parameters:
    ///   - request: All its headers are signed; `payload` must match the content.
    ///   - credentials: The signing credentials.
    ///   - nonce: Must differ for each request.
    ///   - now: Unix seconds.
    /// - Returns: The fields to add to the request, in lower case; they replace fields of the same name.
    package static func sign(
        _ request: SigningRequest,
        credentials: SigningCredentials,
        nonce: String,
        at now: Int64
    ) -> [SigningField] {
        var fields = [
            SigningField("x-acs-date", SigningTime.formatExtended(now)),
            SigningField("x-acs-signature-nonce", nonce),
            SigningField("x-acs-content-sha256", request.payload.text),
        ]
        if let token = credentials.sessionToken {
            fields += [
                SigningField("x-acs-accesskey-id", credentials.accessKeyID),
                SigningField("x-acs-security-token", token),
            ]
        }
        var signed = request
        signed.headers.removeAll { header in
            let name = SigningText.lowercased(header.name)
            return name == "authorization" || fields.contains { $0.name == name }
        }
        signed.headers += fields
        let names = RequestHeaders(signed.headers).names
        let canonical = canonicalRequest(signed, names, request.payload.text)
        let code = signature(stringToSign(canonical), secret: credentials.secretAccessKey)
        let text =
            "\(algorithm) Credential=\(credentials.accessKeyID),SignedHeaders=\(names.joined(separator: ";")),"
            + "Signature=\(code)"
        return fields + [SigningField("authorization", text)]
    }

    private static func canonicalRequest(
        _ request: SigningRequest,
        _ signedHeaders: [String],
        _ contentHash: String
    ) -> String {
        let headers = RequestHeaders(request.headers)
        var text = "\(request.method)\n\(request.path.isEmpty ? "/" : request.path)\n"
        text += "\(request.query.canonicalByName())\n"
        for name in signedHeaders {
            text += "\(name):\(headers.values(name).map { SigningText.trimmed($0) }.joined(separator: ","))\n"
        }
        return text + "\n\(signedHeaders.joined(separator: ";"))\n\(contentHash)"
    }

    private static func stringToSign(_ canonicalRequest: String) -> String {
        "\(algorithm)\n\(Hexadecimal.encode(Digest.hash(canonicalRequest.utf8, .sha256)))"
    }

    private static func signature(_ stringToSign: String, secret: String) -> String {
        Hexadecimal.encode(HMAC.code(.sha256, key: Array(secret.utf8), message: Array(stringToSign.utf8)))
    }
}
