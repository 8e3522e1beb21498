internal import Foundation
package import HTTPWire
package import Signing
internal import UploadModel

/// Calls of Tencent Cloud's API, signed in the header (TC3-HMAC-SHA256, version 3) or in the parameters of a query or a
/// form (version 1), and its responses, which are JSON and always have status 200.
package enum TencentCalls {
    private static let scheme = "TC3-HMAC-SHA256"

    /// The unverified claim of a call about its signer.
    package struct Claim: Sendable {
        package let secretID: String
        package let token: String?
        /// What another call must not repeat until a time in Unix seconds; `nil` for version 3.
        package let nonce: (text: String, expiry: Int64)?
        /// Verifies the signature, in constant time.
        package let verify: @Sendable (SigningCredentials) throws(RequestSignatureFailure) -> Void
    }

    /// Whether a request has header fields that only version 3 uses.
    package static func isSignedInHeader(_ head: RequestHead) -> Bool {
        head.fields["X-TC-Action"] != nil || head.fields["Authorization"]?.hasPrefix(scheme) ?? false
    }

    /// Parses the signature of a call, and checks everything that needs no secret.
    ///
    /// - Parameters:
    ///   - call: The call.
    ///   - service: The service in the scope of version 3, such as `vod`; version 1 names none.
    /// - Returns: The claim.
    /// - Throws: The first problem found.
    package static func claim(_ call: CloudCall, service: String) throws(RequestSignatureFailure) -> Claim {
        let now = call.time.unixSeconds
        guard isSignedInHeader(call.head) else {
            let claim = try TencentParameterSignature.claim(call.requestWithForm, at: now, skew: call.skew)
            // Parameters are signed unescaped: other text could contain the parameter that follows.
            guard !claim.nonce.isEmpty, claim.nonce.utf8.allSatisfy({ (48...57).contains($0) }) else {
                throw .malformed("Nonce")
            }
            return Claim(
                secretID: claim.secretID,
                token: claim.token,
                // Clients draw from few nonces, which need to be unique only within a second.
                nonce: (
                    "\(claim.timestamp) \(claim.nonce)", claim.timestamp + TencentParameterSignature.maximumSkew
                )
            ) { (credentials) throws(RequestSignatureFailure) in
                try TencentParameterSignature.verify(claim, credentials: credentials)
            }
        }
        let verifier = TC3Verifier(service: service)
        let claim = try verifier.claim(call.request, at: now, skew: call.skew)
        return Claim(secretID: claim.secretID, token: claim.token, nonce: nil) {
            (credentials) throws(RequestSignatureFailure) in
            try verifier.verify(claim, credentials: credentials)
        }
    }

    /// Checks that the parameters of a call that is signed in them have only one reading.
    ///
    /// Version 1 signs `a=1&B=2` for the value `1&B=2` as well as for two parameters. Parameters have capital letters.
    ///
    /// - Throws: `InvalidParameter`.
    package static func checkMeaning(of call: CloudCall) throws(TencentCallFailure) {
        for parameter in call.parameters where hasParameter(parameter.value) {
            throw TencentCallFailure(
                "InvalidParameter",
                "`\(parameter.name)` contains what looks like another parameter; sign this call by TC3-HMAC-SHA256."
            )
        }
    }

    /// Whether a value contains `&`, a name with a capital letter first, and `=`.
    ///
    /// Compares bytes: a regular expression takes 40 µs for each value. A form can have thousands of values, and its signature is
    /// checked only later.
    private static func hasParameter(_ value: String) -> Bool {
        var rest = value.utf8[...]
        while let mark = rest.firstIndex(of: UInt8(ascii: "&")) {
            rest = rest[mark...].dropFirst()
            guard let first = rest.first, (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(first) else { continue }
            rest = rest.drop(while: isOfName)
            if rest.first == UInt8(ascii: "=") { return true }
        }
        return false
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."):
            true
        default: false
        }
    }

    // MARK: Responses

    // Names as in the documents.

    private struct Envelope<Content: Encodable>: Encodable {
        let Response: Content
    }

    private struct Refusal: Encodable {
        let Error: TencentCallFailure
        let RequestId: String
    }

    /// A response with the object in `Response`, which has its `RequestId`.
    package static func response(_ content: some Encodable) -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Texts, numbers and lists of them always encode.
        let data = (try? encoder.encode(Envelope(Response: content))) ?? Data()
        // The Python SDK finds errors only with this media type without parameters.
        return Response(200, ["Content-Type": "application/json"], .bytes(Array(data)))
    }

    /// The response to a refused call.
    package static func response(_ failure: TencentCallFailure, requestID: String) -> Response {
        response(Refusal(Error: failure, RequestId: requestID))
    }
}

/// Why a call is refused.
package struct TencentCallFailure: Error, Sendable, Equatable {
    /// Such as `InvalidParameter`, for programs.
    package let code: String
    /// What to change, in one sentence.
    package let message: String

    package init(_ code: String, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension TencentCallFailure: Encodable {
    private enum CodingKeys: String, CodingKey {
        case code = "Code"
        case message = "Message"
    }
}

/// Codes from "Common error codes" of the API, version 3.
extension TencentCallFailure {
    package static let unknownKey = TencentCallFailure(
        "AuthFailure.SecretIdNotFound",
        "The SecretId is unknown, or is not allowed to call this service."
    )
    package static let usedNonce = TencentCallFailure(
        "AuthFailure.SignatureFailure",
        "This nonce was used before with this timestamp; sign with another one."
    )
    package static let tooManyNonces = TencentCallFailure(
        "InternalError",
        "There are too many calls; try again in some minutes."
    )

    /// - Parameters:
    ///   - failure: What is wrong with a signature.
    ///   - service: The service, such as `vod`.
    package init(_ failure: RequestSignatureFailure, service: String) {
        switch failure {
        case .wrongSignature:
            self.init(
                "AuthFailure.SignatureFailure",
                "The signature does not match this request; check the SecretKey, and the signed host."
            )
        case .skewed, .expired:
            self.init("AuthFailure.SignatureExpire", "The request was signed too long ago, or too early.")
        case .missingParameter(let name), .missingHeader(let name):
            self.init("MissingParameter", "`\(name)` is missing.")
        case .wrongToken:
            self.init("AuthFailure.TokenFailure", "The token does not belong to the SecretId.")
        case .wrongScope, .wrongDay, .wrongService:
            self.init(
                "AuthFailure.InvalidAuthorization",
                "The scope of the credential must be <day of the timestamp>/\(service)/tc3_request."
            )
        case .malformed(let name), .duplicate(let name):
            self.init("AuthFailure.InvalidAuthorization", "`\(name)` is invalid or repeated.")
        case .unsignedHeader(let name):
            self.init("AuthFailure.InvalidAuthorization", "`\(name)` must be signed.")
        case .noSignature, .twoSignatures, .unsupportedAlgorithm, .wrongRegion, .lifetimeOutOfRange:
            self.init(
                "AuthFailure.InvalidAuthorization",
                "The request must be signed by TC3-HMAC-SHA256, HmacSHA256 or HmacSHA1."
            )
        }
    }
}
