internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadModel

/// Requests to Tencent Cloud's token service, signed in the header (TC3-HMAC-SHA256, version 3) or in the parameters of
/// a query or a form (version 1).
struct TencentTokenDialect: TokenDialect {
    private static let service = "sts"

    var vendor: Vendor { .tencent }

    /// Whether a request has header fields that only version 3 of Tencent Cloud's API uses.
    static func isMeant(by head: RequestHead) -> Bool { TencentCalls.isSignedInHeader(head) }

    func claim(_ call: CloudCall) throws(RequestSignatureFailure) -> TokenClaim {
        let claim = try TencentCalls.claim(call, service: Self.service)
        return TokenClaim(
            accessKeyID: claim.secretID,
            token: claim.token,
            nonce: claim.nonce.map { nonce in
                TokenClaim.Nonce(text: nonce.text, expiry: nonce.expiry, refusal: Self.refusal(.usedNonce))
            },
            stringToSign: nil,
            verify: claim.verify
        )
    }

    func request(_ call: CloudCall) throws(TokenRefusal) -> TokenRequest {
        guard Self.isMeant(by: call.head) else {
            return try TencentTokenService.request(call.parameters.map { (name: $0.name, value: $0.value) })
        }
        var parameters = call.request.query.map { (name: $0.name, value: $0.value) }
        if call.head.method == .post { parameters += try TencentTokenService.parameters(json: call.content) }
        if let action = call.head.fields["X-TC-Action"] { parameters.append((name: "Action", value: action)) }
        if let version = call.head.fields["X-TC-Version"] { parameters.append((name: "Version", value: version)) }
        return try TencentTokenService.request(parameters)
    }

    func response(to request: TokenRequest, _ credentials: SessionCredentials, _ call: CloudCall) -> Response {
        TencentTokenService.response(credentials, requestID: call.id)
    }

    func response(_ refusal: TokenRefusal, _ call: CloudCall) -> Response {
        TencentCalls.response(TencentCallFailure(refusal.code, refusal.message), requestID: call.id)
    }

    /// Codes from "Common error codes" of the API, version 3.
    func refusal(_ failure: TokenFailure) -> TokenRefusal {
        switch failure {
        case .unreadable(let message): TokenRefusal(200, "InvalidParameter", message)
        case .signature(let failure, _): Self.refusal(TencentCallFailure(failure, service: Self.service))
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
        case .unavailable(_, let message, _): TokenRefusal(200, "InternalError", message)
        case .tooLong(let problem): TencentTokenService.refusal(problem)
        case .refused(let refusal): refusal
        }
    }

    private static func refusal(_ failure: TencentCallFailure) -> TokenRefusal {
        TokenRefusal(200, failure.code, failure.message)
    }
}
