internal import Bytes
internal import Digests

/// The signature among the parameters of a request to the API of Tencent Cloud ("Signature method v1", Tencent Cloud
/// API documentation): HMAC-SHA1 or HMAC-SHA256 of method, host, path and unescaped parameters.
///
/// Names and values are joined without escapes, so `a=1&b=2` has the same signature as `a` with the value `1&b=2`. The
/// meaning of a verified request is therefore only certain if each parameter is validated.
package enum TencentParameterSignature {
    /// Maximum clock difference in seconds ("AuthFailure.SignatureExpire", Tencent Cloud API documentation).
    package static let maximumSkew: Int64 = 300

    /// The signature information in a request; not verified yet.
    package struct Claim: Sendable {
        /// The id of the secret to look up.
        package let secretID: String
        /// When it was signed, Unix seconds.
        package let timestamp: Int64
        /// Must not be reused while the timestamp is valid.
        package let nonce: String
        package let token: String?
        /// In base64.
        package let signature: String

        let algorithm: DigestAlgorithm
        let request: SigningRequest
        let hosts: [String]

        /// What the client should have signed; contains the token of the request, but no secret.
        package var stringToSign: String { TencentParameterSignature.stringToSign(request, host: hosts.first ?? "") }
    }

    /// Parses the signature of a request and checks everything that needs no secret.
    ///
    /// - Parameters:
    ///   - request: Must include `host`. Its query is followed by form parameters from the content.
    ///   - now: Unix seconds.
    ///   - skew: Seconds by which clocks may differ, if that is less than the vendor's limit.
    /// - Returns: The claim.
    /// - Throws: The first problem found: any failure except `.wrongToken` and `.wrongSignature`.
    package static func claim(
        _ request: SigningRequest,
        at now: Int64,
        skew: Int64 = Self.maximumSkew
    ) throws(RequestSignatureFailure) -> Claim {
        let parameters = request.query
        guard let signature = try parameters.optional("Signature") else { throw .noSignature }
        try parameters.checkNoneIsRepeated()
        let algorithm: DigestAlgorithm =
            switch try parameters.optional("SignatureMethod") {
            case nil, "HmacSHA1": .sha1
            case "HmacSHA256": .sha256
            default: throw .unsupportedAlgorithm
            }
        guard Base64.decode(signature)?.count == algorithm.byteCount else { throw .malformed("Signature") }
        let secretID = try parameters.single("SecretId")
        guard let timestamp = SigningText.number(try parameters.single("Timestamp")) else {
            throw .malformed("Timestamp")
        }
        guard abs(timestamp - now) <= min(skew, maximumSkew) else { throw .skewed }
        let host = try RequestHeaders(request.headers).required("host")
        return Claim(
            secretID: secretID,
            timestamp: timestamp,
            nonce: try parameters.single("Nonce"),
            token: try parameters.optional("Token"),
            signature: signature,
            algorithm: algorithm,
            request: request,
            // The client may have signed the host name that it was given, without the port.
            hosts: [host, SigningText.withoutPort(host)]
        )
    }

    /// Verifies signature and token of a claim in constant time.
    ///
    /// - Throws: `.wrongSignature`, `.wrongToken`.
    package static func verify(
        _ claim: Claim,
        credentials: SigningCredentials
    ) throws(RequestSignatureFailure) {
        let isSigned = claim.hosts.contains { host in
            let text = stringToSign(claim.request, host: host)
            let wanted = signature(text, claim.algorithm, secret: credentials.secretAccessKey)
            return constantTimeEquals(wanted.utf8, claim.signature.utf8)
        }
        try credentials.check(accessKeyID: claim.secretID, isSigned: isSigned, token: claim.token)
    }

    /// Signs a request.
    ///
    /// - Parameters:
    ///   - request: Must include `host`. Form parameters count as query parameters.
    ///   - credentials: The signing credentials.
    ///   - isSHA256: Whether to use HMAC-SHA256.
    ///   - nonce: Must differ for each request.
    ///   - now: Unix seconds.
    /// - Returns: All parameters to send, including the signature.
    package static func sign(
        _ request: SigningRequest,
        credentials: SigningCredentials,
        isSHA256: Bool = false,
        nonce: String,
        at now: Int64
    ) -> [SigningField] {
        var fields = [
            SigningField("SecretId", credentials.accessKeyID), SigningField("Timestamp", String(now)),
            SigningField("Nonce", nonce), SigningField("SignatureMethod", isSHA256 ? "HmacSHA256" : "HmacSHA1"),
        ]
        if let token = credentials.sessionToken { fields.append(SigningField("Token", token)) }
        var signed = request
        signed.query.removeAll { parameter in
            parameter.name == "Signature" || fields.contains { $0.name == parameter.name }
        }
        signed.query += fields
        let text = stringToSign(signed, host: RequestHeaders(request.headers).values("host").first ?? "")
        let code = signature(text, isSHA256 ? .sha256 : .sha1, secret: credentials.secretAccessKey)
        return signed.query + [SigningField("Signature", code)]
    }

    private static func stringToSign(_ request: SigningRequest, host: String) -> String {
        let pairs = request.query.filter { $0.name != "Signature" }
            // As in the API of 2017, whose parameter names have dots.
            .map { (name: $0.name.replacing("_", with: "."), value: $0.value) }
            .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
            .map { "\($0.name)=\($0.value)" }
        return "\(request.method)\(host)\(request.path.isEmpty ? "/" : request.path)?\(pairs.joined(separator: "&"))"
    }

    private static func signature(_ text: String, _ algorithm: DigestAlgorithm, secret: String) -> String {
        Base64.encode(HMAC.code(algorithm, key: Array(secret.utf8), message: Array(text.utf8)))
    }
}
