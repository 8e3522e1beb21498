internal import Bytes
package import HTTPWire
package import Signing
internal import UploadModel

/// Calls of Alibaba Cloud's OpenAPI in RPC style, signed in the parameters (version 1.0) or in the header
/// (ACS3-HMAC-SHA256), and its responses.
///
/// Parameters are in the query, in a form, or in both.
package enum AliyunCalls {
    private static let scheme = "ACS3-HMAC-SHA256"

    /// The unverified claim of a call about its signer.
    package struct Claim: Sendable {
        package let accessKeyID: String
        package let token: String?
        /// What another call must not repeat until a time in Unix seconds; `nil` for the end of its session.
        package let nonce: (text: String, expiry: Int64?)
        /// What the client should have signed; contains no secret.
        package let stringToSign: String
        /// Verifies the signature, in constant time.
        package let verify: @Sendable (SigningCredentials) throws(RequestSignatureFailure) -> Void
    }

    /// Whether a request has header fields that only Alibaba Cloud's OpenAPI uses.
    package static func isMeant(by head: RequestHead) -> Bool {
        head.fields["x-acs-action"] != nil || isSignedInHeader(head)
    }

    package static func isSignedInHeader(_ head: RequestHead) -> Bool {
        head.fields["Authorization"]?.hasPrefix(scheme) ?? false
    }

    /// Whether a call says who signed it.
    ///
    /// The VOD SDK for browsers sends reports with a `Signature`, but without `AccessKeyId`: they count as unsigned.
    package static func isSigned(_ call: CloudCall) -> Bool {
        isSignedInHeader(call.head) || call.parameter("AccessKeyId") != nil
    }

    /// Parses the signature of a call, and checks everything that needs no secret.
    ///
    /// - Throws: The first problem found.
    package static func claim(_ call: CloudCall) throws(RequestSignatureFailure) -> Claim {
        let now = call.time.unixSeconds
        guard isSignedInHeader(call.head) else {
            let claim = try AliyunRPCSignature.claim(call.requestWithForm, at: now, skew: call.skew)
            return Claim(
                accessKeyID: claim.accessKeyID,
                token: claim.token,
                nonce: (claim.nonce, claim.timestamp.map { $0 + AliyunRPCSignature.maximumSkew }),
                stringToSign: claim.stringToSign
            ) { (credentials) throws(RequestSignatureFailure) in
                try AliyunRPCSignature.verify(claim, credentials: credentials)
            }
        }
        let claim = try ACS3Signature.claim(call.request, at: now, skew: call.skew)
        guard call.request.payload == .sha256(claim.contentHash) else { throw .malformed("x-acs-content-sha256") }
        return Claim(
            accessKeyID: claim.accessKeyID,
            token: claim.token,
            nonce: (claim.nonce, claim.date + ACS3Signature.maximumSkew),
            stringToSign: claim.stringToSign
        ) { (credentials) throws(RequestSignatureFailure) in
            try ACS3Signature.verify(claim, credentials: credentials)
        }
    }

    /// The parameters of a call, with `Action` and `Version` also if they are in the header.
    ///
    /// - Throws: `InvalidParameter`.
    package static func parameters(of call: CloudCall) throws(AliyunCallFailure) -> [(name: String, value: String)] {
        var parameters = call.parameters.map { (name: $0.name, value: $0.value) }
        guard isSignedInHeader(call.head) else { return parameters }
        // The content type need not be signed. Without this check, changing it would remove parameters.
        guard call.content.isEmpty || CloudCall.hasForm(call.head) else {
            throw AliyunCallFailure(400, "InvalidParameter", "The content must be a form; set its `Content-Type`.")
        }
        if let action = call.head.fields["x-acs-action"] { parameters.append((name: "Action", value: action)) }
        if let version = call.head.fields["x-acs-version"] { parameters.append((name: "Version", value: version)) }
        return parameters
    }

    /// Parameters of the signature and of each call, without `Action` and `Version`.
    package static let commonParameters: Set<String> = [
        "Format", "AccessKeyId", "Signature", "SignatureMethod", "SignatureVersion", "SignatureNonce", "SignatureType",
        "Timestamp", "SecurityToken", "RegionId",
    ]

    // MARK: Responses

    package enum Format: Sendable {
        case json, xml

        fileprivate var contentType: String {
            switch self {
            case .json: "application/json;charset=utf-8"
            case .xml: "text/xml;charset=utf-8"
            }
        }
    }

    /// The format in which a call wants its response; `nil` for an unknown one.
    package static func format(of call: CloudCall) -> Format? {
        switch call.parameter("Format")?.uppercasedASCII() {
        case "JSON": .json
        case "XML": .xml
        // SDKs that sign in the header do not state their format.
        case nil: isSignedInHeader(call.head) ? .json : .xml
        default: nil
        }
    }

    /// The response to a call.
    ///
    /// - Parameters:
    ///   - document: What it tells; the request id is added.
    ///   - name: The name of the action.
    ///   - call: The call.
    /// - Returns: The response.
    package static func response(_ document: AliyunDocument, to name: String, _ call: CloudCall) -> Response {
        var document = document
        document.members.append((name: "RequestId", value: .text(call.id)))
        return response(200, document, "\(name)Response", format(of: call) ?? .xml)
    }

    /// The response to a refused call.
    package static func response(_ failure: AliyunCallFailure, to call: CloudCall) -> Response {
        let document = failure.document(requestID: call.id, host: call.head.fields["Host"] ?? "")
        var response = Self.response(Status(failure.status), document, "Error", format(of: call) ?? .xml)
        if failure.status == 503 { response.fields["Retry-After"] = "5" }
        return response
    }

    /// A response whose content is in the format that the call wants already.
    package static func response(_ status: Status, _ content: [UInt8], to call: CloudCall) -> Response {
        Response(status, ["Content-Type": (format(of: call) ?? .xml).contentType], .bytes(content))
    }

    private static func response(
        _ status: Status,
        _ document: AliyunDocument,
        _ root: String,
        _ format: Format
    ) -> Response {
        let bytes: [UInt8] =
            switch format {
            case .json: document.json
            case .xml: document.xml(root)
            }
        return Response(status, ["Content-Type": format.contentType], .bytes(bytes))
    }
}

/// Why a call is refused.
package struct AliyunCallFailure: Error, Sendable, Equatable {
    package let status: Int
    /// Such as `InvalidParameter`, for programs.
    package let code: String
    /// What to change, in one sentence.
    package let message: String

    package init(_ status: Int, _ code: String, _ message: String) {
        self.status = status
        self.code = code
        self.message = message
    }

    package func document(requestID: String, host: String) -> AliyunDocument {
        AliyunDocument([
            ("RequestId", .text(requestID)), ("HostId", .text(host)), ("Code", .text(code)),
            ("Message", .text(message)),
        ])
    }
}

/// Codes from "Common error codes" of the OpenAPI; the messages are for client developers.
extension AliyunCallFailure {
    package static let usedNonce = AliyunCallFailure(
        400,
        "SignatureNonceUsed",
        "This nonce was used before; sign with another one."
    )
    package static let tooManyNonces = unavailable(503, "There are too many calls; try again in some minutes.")

    package static func unavailable(_ status: Int, _ message: String) -> AliyunCallFailure {
        AliyunCallFailure(status, "ServiceUnavailable", message)
    }

    package static func missing(_ name: String) -> AliyunCallFailure {
        AliyunCallFailure(400, "MissingParameter", "`\(name)` is mandatory for this action.")
    }

    /// - Parameters:
    ///   - failure: What is wrong with a signature.
    ///   - stringToSign: What the client should have signed, if that is known.
    package init(_ failure: RequestSignatureFailure, stringToSign: String) {
        switch failure {
        case .wrongSignature:
            // Clients parse the text after the first colon as the string to sign, and crash without one.
            self.init(
                400,
                "SignatureDoesNotMatch",
                "The signature does not match this request, server string to sign is:\(stringToSign)"
            )
        case .skewed, .expired:
            self.init(400, "InvalidTimeStamp.Expired", "The request was signed too long ago, or too early.")
        case .malformed("Timestamp"), .malformed("x-acs-date"):
            self.init(400, "InvalidTimeStamp.Format", "The time must look like 2026-01-02T03:04:05Z, in UTC.")
        case .noSignature: self = .missing("Signature")
        case .missingParameter(let name), .missingHeader(let name): self = .missing(name)
        case .unsupportedAlgorithm:
            self.init(
                400,
                "IncompleteSignature",
                "The signature must be by HMAC-SHA1 of version 1.0, or by ACS3-HMAC-SHA256."
            )
        case .malformed(let name), .duplicate(let name):
            self.init(400, "IncompleteSignature", "`\(name)` is invalid or repeated.")
        case .unsignedHeader(let name):
            self.init(400, "IncompleteSignature", "`\(name)` must be signed.")
        case .wrongToken:
            self.init(
                400,
                "InvalidSecurityToken.MismatchWithAccessKey",
                "The token does not belong to the access key."
            )
        case .twoSignatures, .wrongScope, .wrongDay, .wrongRegion, .wrongService, .lifetimeOutOfRange:
            self.init(400, "IncompleteSignature", "The signature is not valid for the OpenAPI.")
        }
    }
}
