internal import Bytes
internal import Digests

/// The signature among the parameters of a request to the OpenAPI of Alibaba Cloud in RPC style ("Request signatures", version
/// 1.0): HMAC-SHA1 of the method and all parameters.
package enum AliyunRPCSignature {
    /// Maximum clock difference in seconds ("Common parameters", ApsaraVideo VOD documentation).
    package static let maximumSkew: Int64 = 900

    /// The signature information in a request; not verified yet.
    package struct Claim: Sendable {
        /// The id of the secret to look up.
        package let accessKeyID: String
        /// When it was signed, Unix seconds; `nil` only with a session token.
        package let timestamp: Int64?
        /// Must not be reused while the timestamp, or without one the session, is valid.
        package let nonce: String
        package let token: String?
        /// In base64.
        package let signature: String
        /// What the client should have signed; clients compare it with the response to a wrong signature.
        ///
        /// Contains the token of the request, but no secret.
        package let stringToSign: String
    }

    /// Parses the signature of a request and checks everything that needs no secret.
    ///
    /// The VOD SDK for browsers (1.5.0 to 1.5.6) sends no `Timestamp` with session credentials, so it may be missing there:
    /// the session bounds the time.
    ///
    /// - Parameters:
    ///   - request: Its query, followed by form parameters from the content. Path and headers are ignored.
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
        guard try parameters.single("SignatureMethod") == method, try parameters.single("SignatureVersion") == version
        else { throw .unsupportedAlgorithm }
        guard Base64.decode(signature)?.count == DigestAlgorithm.sha1.byteCount else { throw .malformed("Signature") }
        let accessKeyID = try parameters.single("AccessKeyId")
        let token = try parameters.optional("SecurityToken")
        let timestamp = try Self.timestamp(parameters, hasSession: token?.isEmpty == false)
        if let timestamp, abs(timestamp - now) > min(skew, maximumSkew) { throw .skewed }
        return Claim(
            accessKeyID: accessKeyID,
            timestamp: timestamp,
            nonce: try parameters.single("SignatureNonce"),
            token: token,
            signature: signature,
            stringToSign: stringToSign(request)
        )
    }

    private static func timestamp(
        _ parameters: [SigningField],
        hasSession: Bool
    ) throws(RequestSignatureFailure) -> Int64? {
        if hasSession, try parameters.optional("Timestamp") == nil { return nil }
        guard let timestamp = SigningTime.parseExtended(try parameters.single("Timestamp")) else {
            throw .malformed("Timestamp")
        }
        return timestamp
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

    /// Signs a request.
    ///
    /// - Parameters:
    ///   - request: Its query must include all parameters; form parameters count as query parameters.
    ///   - credentials: The signing credentials.
    ///   - nonce: Must differ for each request.
    ///   - now: Unix seconds; `nil` for no timestamp.
    /// - Returns: All parameters to send, including the signature.
    package static func sign(
        _ request: SigningRequest,
        credentials: SigningCredentials,
        nonce: String,
        at now: Int64?
    ) -> [SigningField] {
        var fields = [
            SigningField("AccessKeyId", credentials.accessKeyID), SigningField("SignatureMethod", method),
            SigningField("SignatureVersion", version), SigningField("SignatureNonce", nonce),
        ]
        if let now { fields.append(SigningField("Timestamp", SigningTime.formatExtended(now))) }
        if let token = credentials.sessionToken { fields.append(SigningField("SecurityToken", token)) }
        var signed = request
        signed.query.removeAll { parameter in
            parameter.name == "Signature" || fields.contains { $0.name == parameter.name }
        }
        signed.query += fields
        let code = signature(stringToSign(signed), secret: credentials.secretAccessKey)
        return signed.query + [SigningField("Signature", code)]
    }

    private static let method = "HMAC-SHA1"
    private static let version = "1.0"

    private static func stringToSign(_ request: SigningRequest) -> String {
        let query = request.query.filter { $0.name != "Signature" }.canonicalByName()
        return "\(request.method)&%2F&\(SigningText.escaped(query))"
    }

    private static func signature(_ stringToSign: String, secret: String) -> String {
        Base64.encode(HMAC.code(.sha1, key: Array("\(secret)&".utf8), message: Array(stringToSign.utf8)))
    }
}
