internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadCore

/// Requests to Alibaba Cloud's token service, signed in the parameters (RPC, version 1.0) or in the header
/// (ACS3-HMAC-SHA256).
///
/// Parameters are in the query, in a form, or in both.
struct AliyunTokenDialect: TokenDialect {
    private static let scheme = "ACS3-HMAC-SHA256"

    var vendor: Vendor { .aliyun }

    /// Whether a request has header fields that only Alibaba Cloud's OpenAPI uses.
    static func isMeant(by head: RequestHead) -> Bool { head.fields["x-acs-action"] != nil || isSignedInHeader(head) }

    private static func isSignedInHeader(_ head: RequestHead) -> Bool {
        head.fields["Authorization"]?.hasPrefix(scheme) ?? false
    }

    func claim(_ call: CloudCall) throws(RequestSignatureFailure) -> TokenClaim {
        let now = call.time.unixSeconds
        guard Self.isSignedInHeader(call.head) else {
            let claim = try AliyunRPCSignature.claim(call.requestWithForm, at: now)
            return TokenClaim(
                accessKeyID: claim.accessKeyID,
                token: claim.token,
                nonce: Self.nonce(claim.nonce, until: claim.timestamp + AliyunRPCSignature.maximumSkew),
                stringToSign: claim.stringToSign
            ) { (credentials) throws(RequestSignatureFailure) in
                try AliyunRPCSignature.verify(claim, credentials: credentials)
            }
        }
        let claim = try ACS3Signature.claim(call.request, at: now)
        guard call.request.payload == .sha256(claim.contentHash) else { throw .malformed("x-acs-content-sha256") }
        return TokenClaim(
            accessKeyID: claim.accessKeyID,
            token: claim.token,
            nonce: Self.nonce(claim.nonce, until: claim.date + ACS3Signature.maximumSkew),
            stringToSign: claim.stringToSign
        ) { (credentials) throws(RequestSignatureFailure) in
            try ACS3Signature.verify(claim, credentials: credentials)
        }
    }

    private static func nonce(_ text: String, until expiry: Int64) -> TokenClaim.Nonce {
        TokenClaim.Nonce(
            text: text,
            expiry: expiry,
            refusal: TokenRefusal(400, "SignatureNonceUsed", "This nonce was used before; sign with another one.")
        )
    }

    func request(_ call: CloudCall) throws(TokenRefusal) -> TokenRequest {
        guard Self.format(of: call) != nil else {
            throw TokenRefusal(400, "InvalidParameter.Format", "`Format` must be JSON or XML.")
        }
        var parameters = call.parameters.map { (name: $0.name, value: $0.value) }
        if Self.isSignedInHeader(call.head) {
            // The content type need not be signed. Without this check, changing it would remove parameters.
            guard call.content.isEmpty || CloudCall.hasForm(call.head) else {
                throw TokenRefusal(400, "InvalidParameter", "The content must be a form; set its `Content-Type`.")
            }
            if let action = call.head.fields["x-acs-action"] { parameters.append((name: "Action", value: action)) }
            if let version = call.head.fields["x-acs-version"] { parameters.append((name: "Version", value: version)) }
        }
        return try AliyunTokenService.request(parameters)
    }

    func response(to request: TokenRequest, _ credentials: SessionCredentials, _ call: CloudCall) -> Response {
        let format = Self.format(of: call) ?? .xml
        return Self.response(
            200,
            AliyunTokenService.response(to: request, credentials, requestID: call.id, in: format),
            format
        )
    }

    func response(_ refusal: TokenRefusal, _ call: CloudCall) -> Response {
        let format = Self.format(of: call) ?? .xml
        let host = call.head.fields["Host"] ?? ""
        let text = AliyunTokenService.response(refusal, requestID: call.id, host: host, in: format)
        return Self.response(Status(refusal.status), text, format)
    }

    private static func response(_ status: Status, _ text: String, _ format: AliyunTokenService.Format) -> Response {
        Response(status, ["Content-Type": format.contentType], .bytes(Array(text.utf8)))
    }

    /// `nil` for an unknown format.
    private static func format(of call: CloudCall) -> AliyunTokenService.Format? {
        switch call.parameter("Format")?.uppercased() {
        case "JSON": .json
        case "XML": .xml
        // SDKs that sign in the header do not state their format.
        case nil: isSignedInHeader(call.head) ? .json : .xml
        default: nil
        }
    }

    /// Codes from "Common error codes" of the OpenAPI; the messages are for client developers.
    func refusal(_ failure: TokenFailure) -> TokenRefusal {
        switch failure {
        case .unreadable(let message): TokenRefusal(400, "InvalidParameter", message)
        case .signature(let failure, let text): Self.refusal(failure, stringToSign: text ?? "")
        case .unknownKey:
            TokenRefusal(404, "InvalidAccessKeyId.NotFound", "The access key is unknown, or is not allowed to mint.")
        case .otherSubject:
            TokenRefusal(403, "NoPermission", TokenFailure.otherSubjectMessage)
        case .fromSession:
            TokenRefusal(403, "NoPermission", "Session credentials cannot mint others; use a key that is allowed to.")
        case .unavailable(let status, let message): TokenRefusal(status, "ServiceUnavailable", message)
        case .tooLong(let problem): AliyunTokenService.refusal(problem)
        case .refused(let refusal): refusal
        }
    }

    private static func refusal(_ failure: RequestSignatureFailure, stringToSign: String) -> TokenRefusal {
        switch failure {
        case .wrongSignature:
            // Clients parse the text after the first colon as the string to sign, and crash without one.
            TokenRefusal(
                400,
                "SignatureDoesNotMatch",
                "The signature does not match this request, server string to sign is:\(stringToSign)"
            )
        case .skewed, .expired:
            TokenRefusal(400, "InvalidTimeStamp.Expired", "The request was signed too long ago, or too early.")
        case .malformed("Timestamp"), .malformed("x-acs-date"):
            TokenRefusal(400, "InvalidTimeStamp.Format", "The time must look like 2026-01-02T03:04:05Z, in UTC.")
        case .noSignature: TokenRefusal(400, "MissingParameter", "`Signature` is mandatory for this action.")
        case .missingParameter(let name), .missingHeader(let name):
            TokenRefusal(400, "MissingParameter", "`\(name)` is mandatory for this action.")
        case .unsupportedAlgorithm:
            TokenRefusal(
                400,
                "IncompleteSignature",
                "The signature must be by HMAC-SHA1 of version 1.0, or by ACS3-HMAC-SHA256."
            )
        case .malformed(let name), .duplicate(let name):
            TokenRefusal(400, "IncompleteSignature", "`\(name)` is invalid or repeated.")
        case .unsignedHeader(let name):
            TokenRefusal(400, "IncompleteSignature", "`\(name)` must be signed.")
        case .wrongToken:
            TokenRefusal(
                400,
                "InvalidSecurityToken.MismatchWithAccessKey",
                "The token does not belong to the access key."
            )
        case .twoSignatures, .wrongScope, .wrongDay, .wrongRegion, .wrongService, .lifetimeOutOfRange:
            TokenRefusal(400, "IncompleteSignature", "The signature is not valid for the OpenAPI.")
        }
    }
}
