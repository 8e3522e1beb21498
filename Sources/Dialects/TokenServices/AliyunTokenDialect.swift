internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadModel

/// Requests to Alibaba Cloud's token service, signed in the parameters (RPC, version 1.0) or in the header
/// (ACS3-HMAC-SHA256).
///
/// Parameters are in the query, in a form, or in both.
struct AliyunTokenDialect: TokenDialect {
    var vendor: Vendor { .aliyun }

    func claim(_ call: CloudCall) throws(RequestSignatureFailure) -> TokenClaim {
        let claim = try AliyunCalls.claim(call)
        // Only browsers leave the time out, and they ask for no credentials here.
        guard let expiry = claim.nonce.expiry else { throw .missingParameter("Timestamp") }
        return TokenClaim(
            accessKeyID: claim.accessKeyID,
            token: claim.token,
            nonce: TokenClaim.Nonce(
                text: claim.nonce.text,
                expiry: expiry,
                refusal: TokenRefusal(.usedNonce)
            ),
            stringToSign: claim.stringToSign,
            verify: claim.verify
        )
    }

    func request(_ call: CloudCall) throws(TokenRefusal) -> TokenRequest {
        guard AliyunCalls.format(of: call) != nil else {
            throw TokenRefusal(400, "InvalidParameter.Format", "`Format` must be JSON or XML.")
        }
        let parameters: [(name: String, value: String)]
        do throws(AliyunCallFailure) {
            parameters = try AliyunCalls.parameters(of: call)
        } catch {
            throw TokenRefusal(error)
        }
        return try AliyunTokenService.request(parameters)
    }

    func response(to request: TokenRequest, _ credentials: SessionCredentials, _ call: CloudCall) -> Response {
        AliyunCalls.response(AliyunTokenService.document(to: request, credentials), to: "AssumeRole", call)
    }

    func response(_ refusal: TokenRefusal, _ call: CloudCall) -> Response {
        AliyunCalls.response(AliyunCallFailure(refusal.status, refusal.code, refusal.message), to: call)
    }

    /// Codes from "Common error codes" of the OpenAPI; the messages are for client developers.
    func refusal(_ failure: TokenFailure) -> TokenRefusal {
        switch failure {
        case .unreadable(let message): TokenRefusal(400, "InvalidParameter", message)
        case .signature(let failure, let text):
            TokenRefusal(AliyunCallFailure(failure, stringToSign: text ?? ""))
        case .unknownKey:
            TokenRefusal(404, "InvalidAccessKeyId.NotFound", "The access key is unknown, or is not allowed to mint.")
        case .otherSubject:
            TokenRefusal(403, "NoPermission", TokenFailure.otherSubjectMessage)
        case .fromSession:
            TokenRefusal(403, "NoPermission", "Session credentials cannot mint others; use a key that is allowed to.")
        case .unavailable(let status, let message, _): TokenRefusal(.unavailable(status, message))
        case .tooLong(let problem): AliyunTokenService.refusal(problem)
        case .refused(let refusal): refusal
        }
    }
}

extension TokenRefusal {
    fileprivate init(_ failure: AliyunCallFailure) { self.init(failure.status, failure.code, failure.message) }
}
