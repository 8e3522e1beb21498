internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadCore

/// Requests to Tencent Cloud's token service, signed in the header (TC3-HMAC-SHA256, version 3) or in the parameters of
/// a query or a form (version 1).
struct TencentTokenDialect: TokenDialect {
    private static let scheme = "TC3-HMAC-SHA256"
    private static let verifier = TC3Verifier(service: "sts")

    var vendor: Vendor { .tencent }

    /// Whether a request has header fields that only version 3 of Tencent Cloud's API uses.
    static func isMeant(by head: RequestHead) -> Bool {
        head.fields["X-TC-Action"] != nil || head.fields["Authorization"]?.hasPrefix(scheme) ?? false
    }

    func claim(_ call: TokenCall) throws(RequestSignatureFailure) -> TokenClaim {
        let now = call.time.unixSeconds
        guard Self.isMeant(by: call.head) else {
            let claim = try TencentParameterSignature.claim(call.requestWithForm, at: now)
            // Parameters are signed unescaped: other text could contain the parameter that follows.
            guard TokenSyntax.isNumber(claim.nonce) else { throw .malformed("Nonce") }
            return TokenClaim(
                accessKeyID: claim.secretID,
                token: claim.token,
                // Clients draw from few nonces, which need to be unique only within a second.
                nonce: TokenClaim.Nonce(
                    text: "\(claim.timestamp) \(claim.nonce)",
                    expiry: claim.timestamp + TencentParameterSignature.maximumSkew,
                    refusal: TokenRefusal(
                        200,
                        "AuthFailure.SignatureFailure",
                        "This nonce was used before with this timestamp; sign with another one."
                    )
                ),
                stringToSign: nil
            ) { (credentials) throws(RequestSignatureFailure) in
                try TencentParameterSignature.verify(claim, credentials: credentials)
            }
        }
        let claim = try Self.verifier.claim(call.request, at: now)
        return TokenClaim(accessKeyID: claim.secretID, token: claim.token, nonce: nil, stringToSign: nil) {
            (credentials) throws(RequestSignatureFailure) in
            try Self.verifier.verify(claim, credentials: credentials)
        }
    }

    func request(_ call: TokenCall) throws(TokenRefusal) -> TokenRequest {
        guard Self.isMeant(by: call.head) else {
            return try TencentTokenService.request(call.parameters.map { (name: $0.name, value: $0.value) })
        }
        var parameters = call.request.query.map { (name: $0.name, value: $0.value) }
        if call.head.method == .post { parameters += try TencentTokenService.parameters(json: call.content) }
        if let action = call.head.fields["X-TC-Action"] { parameters.append((name: "Action", value: action)) }
        if let version = call.head.fields["X-TC-Version"] { parameters.append((name: "Version", value: version)) }
        return try TencentTokenService.request(parameters)
    }

    func response(to request: TokenRequest, _ credentials: SessionCredentials, _ call: TokenCall) -> Response {
        Self.response(TencentTokenService.response(credentials, requestID: call.id))
    }

    func response(_ refusal: TokenRefusal, _ call: TokenCall) -> Response {
        Self.response(TencentTokenService.response(refusal, requestID: call.id))
    }

    /// The Python SDK parses errors only with this media type without parameters.
    private static func response(_ text: String) -> Response {
        Response(200, ["Content-Type": "application/json"], .bytes(Array(text.utf8)))
    }

    /// Codes from "Common error codes" of the API, version 3.
    func refusal(_ failure: TokenFailure) -> TokenRefusal {
        switch failure {
        case .unreadable(let message): TokenRefusal(200, "InvalidParameter", message)
        case .signature(let failure, _): Self.refusal(failure)
        case .unknownKey:
            TokenRefusal(200, "AuthFailure.SecretIdNotFound", "The SecretId is unknown, or is not allowed to mint.")
        case .otherSubject:
            TokenRefusal(200, "UnauthorizedOperation", TokenFailure.otherSubjectMessage)
        case .fromSession:
            TokenRefusal(
                200,
                "AuthFailure.TokenFailure",
                "Session credentials cannot mint others; use a key that is allowed to."
            )
        case .unavailable(_, let message): TokenRefusal(200, "InternalError", message)
        case .tooLong(let problem): TencentTokenService.refusal(problem)
        case .refused(let refusal): refusal
        }
    }

    private static func refusal(_ failure: RequestSignatureFailure) -> TokenRefusal {
        switch failure {
        case .wrongSignature:
            TokenRefusal(
                200,
                "AuthFailure.SignatureFailure",
                "The signature does not match this request; check the SecretKey, and the signed host."
            )
        case .skewed, .expired:
            TokenRefusal(200, "AuthFailure.SignatureExpire", "The request was signed too long ago, or too early.")
        case .missingParameter(let name), .missingHeader(let name):
            TokenRefusal(200, "MissingParameter", "`\(name)` is missing.")
        case .wrongToken:
            TokenRefusal(200, "AuthFailure.TokenFailure", "The token does not belong to the SecretId.")
        case .wrongScope, .wrongDay, .wrongService:
            TokenRefusal(
                200,
                "AuthFailure.InvalidAuthorization",
                "The scope of the credential must be <day of the timestamp>/sts/tc3_request."
            )
        case .malformed(let name), .duplicate(let name):
            TokenRefusal(
                200,
                "AuthFailure.InvalidAuthorization",
                "`\(name)` is invalid or repeated."
            )
        case .unsignedHeader(let name):
            TokenRefusal(200, "AuthFailure.InvalidAuthorization", "`\(name)` must be signed.")
        case .noSignature, .twoSignatures, .unsupportedAlgorithm, .wrongRegion, .lifetimeOutOfRange:
            TokenRefusal(
                200,
                "AuthFailure.InvalidAuthorization",
                "The request must be signed by TC3-HMAC-SHA256, HmacSHA256 or HmacSHA1."
            )
        }
    }
}
