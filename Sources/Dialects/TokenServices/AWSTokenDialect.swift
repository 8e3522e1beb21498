internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadModel

/// Requests to AWS's token service: POST forms signed for the service `sts` with Signature Version 4.
struct AWSTokenDialect: TokenDialect {
    /// The account id reported for federated users.
    private static let account = "000000000000"
    private static let verifier = SigV4Verifier(region: nil, service: "sts", rules: .general, keys: SigV4Keys())

    var vendor: Vendor { .aws }

    func claim(_ call: CloudCall) throws(RequestSignatureFailure) -> TokenClaim {
        let claim = try Self.verifier.claim(call.request, at: call.time.unixSeconds, skew: call.skew)
        // The signature covers a different form.
        guard claim.payload == call.request.payload else { throw .wrongSignature }
        return TokenClaim(accessKeyID: claim.accessKeyID, token: claim.token, nonce: nil, stringToSign: nil) {
            (credentials) throws(RequestSignatureFailure) in
            _ = try Self.verifier.verify(claim, credentials: credentials)
        }
    }

    func request(_ call: CloudCall) throws(TokenRefusal) -> TokenRequest {
        try AWSTokenService.request(call.form.map { (name: $0.name, value: $0.value) })
    }

    /// Whether a request has a token of an identity provider instead of a signature.
    static func bringsIdentity(_ call: CloudCall) -> Bool {
        call.form.contains { $0.name == "Action" && $0.value == "AssumeRoleWithWebIdentity" }
    }

    func response(to request: TokenRequest, _ credentials: SessionCredentials, _ call: CloudCall) -> Response {
        response(to: request, credentials, for: nil, call)
    }

    /// Responds with credentials, possibly for a user whom an identity provider authenticated.
    func response(
        to request: TokenRequest,
        _ credentials: SessionCredentials,
        for identity: WebIdentity?,
        _ call: CloudCall
    ) -> Response {
        let text = AWSTokenService.response(
            to: request,
            credentials,
            account: Self.account,
            identity: identity,
            requestID: call.id
        )
        return Self.response(200, text, call)
    }

    func response(_ refusal: TokenRefusal, _ call: CloudCall) -> Response {
        Self.response(Status(refusal.status), AWSTokenService.response(refusal, requestID: call.id), call)
    }

    private static func response(_ status: Status, _ text: String, _ call: CloudCall) -> Response {
        Response(status, ["Content-Type": "text/xml", "x-amzn-RequestId": call.id], .bytes(Array(text.utf8)))
    }

    /// Codes from "Common Errors", AWS Security Token Service API Reference.
    func refusal(_ failure: TokenFailure) -> TokenRefusal {
        switch failure {
        case .unreadable(let message): TokenRefusal(400, "MalformedQueryString", message)
        case .signature(let failure, _): Self.refusal(failure)
        case .unknownKey:
            TokenRefusal(403, "InvalidClientTokenId", "The access key is unknown, or is not allowed to mint.")
        case .otherSubject:
            TokenRefusal(403, "AccessDenied", TokenFailure.otherSubjectMessage)
        case .fromSession:
            TokenRefusal(
                403,
                "InvalidClientTokenId",
                "Session credentials cannot mint others; use a key that is allowed to."
            )
        case .unavailable(let status, let message, _): TokenRefusal(status, "ServiceUnavailable", message)
        case .tooLong(let problem): AWSTokenService.refusal(problem)
        case .refused(let refusal): refusal
        }
    }

    /// Codes from "AssumeRoleWithWebIdentity", same document.
    static func refusal(_ failure: WebIdentityFailure) -> TokenRefusal {
        switch failure {
        case .invalid(let message): TokenRefusal(400, "InvalidIdentityToken", message)
        case .expired(let message): TokenRefusal(400, "ExpiredTokenException", message)
        case .providerAway(let message): TokenRefusal(400, "IDPCommunicationError", message)
        }
    }

    private static func refusal(_ failure: RequestSignatureFailure) -> TokenRefusal {
        switch failure {
        case .noSignature: TokenRefusal(403, "MissingAuthenticationToken", "The request must be signed.")
        case .skewed, .expired:
            TokenRefusal(403, "RequestExpired", "The request was signed too long ago, or too early.")
        case .wrongSignature, .missingHeader, .unsignedHeader:
            TokenRefusal(
                403,
                "SignatureDoesNotMatch",
                "The signature does not match this request; check the secret key."
            )
        case .wrongToken:
            TokenRefusal(403, "InvalidClientTokenId", "The session token does not belong to the access key.")
        case .wrongRegion, .wrongService, .wrongScope, .wrongDay:
            TokenRefusal(
                403,
                "SignatureDoesNotMatch",
                "The scope of the credential must be <day>/<region>/sts/aws4_request."
            )
        case .twoSignatures, .unsupportedAlgorithm, .duplicate, .missingParameter, .malformed, .lifetimeOutOfRange:
            TokenRefusal(
                400,
                "IncompleteSignature",
                "The signature is not a valid AWS Signature Version 4."
            )
        }
    }
}
