internal import CloudCalls
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadModel

/// The protocol of one vendor's clients with a security token service.
protocol TokenDialect: Sendable {
    /// The vendor whose clients use the credentials.
    var vendor: Vendor { get }

    /// Parses the signature of a request, and checks everything that needs no secret.
    func claim(_ call: CloudCall) throws(RequestSignatureFailure) -> TokenClaim

    /// Decodes the request.
    func request(_ call: CloudCall) throws(TokenRefusal) -> TokenRequest

    /// The vendor's error for a failure.
    func refusal(_ failure: TokenFailure) -> TokenRefusal

    func response(to request: TokenRequest, _ credentials: SessionCredentials, _ call: CloudCall) -> Response

    func response(_ refusal: TokenRefusal, _ call: CloudCall) -> Response
}

/// The unverified claim of a request about its signer.
struct TokenClaim {
    /// A nonce that a request must not share with another one.
    struct Nonce {
        let text: String
        /// Until when a request with this nonce is accepted, in Unix seconds.
        let expiry: Int64
        /// The error for a reused nonce.
        let refusal: TokenRefusal
    }

    let accessKeyID: String
    let token: String?
    /// `nil` if the vendor has none.
    let nonce: Nonce?
    /// The string to sign, for vendors that report it on a mismatch.
    let stringToSign: String?
    /// Verifies the signature, in constant time.
    let verify: (SigningCredentials) throws(RequestSignatureFailure) -> Void
}

/// Why a request is refused, independent of the vendor.
enum TokenFailure: Error {
    /// Query or content are malformed; the text is a sentence about it.
    case unreadable(String)
    /// The signature is missing or wrong; the text is the expected string to sign, if known.
    case signature(RequestSignatureFailure, stringToSign: String? = nil)
    /// The owner of the access key must not mint.
    case unknownKey
    /// It is signed with session credentials, which must not mint others.
    case fromSession
    /// The API key is limited to other users than the one in the session name.
    case otherSubject
    /// It cannot be processed now.
    case unavailable(status: Int, String, retryAfter: String? = nil)
    case tooLong(GrantTooLong)
    case refused(TokenRefusal)
}

extension TokenFailure {
    static func limited(_ error: UploadError) -> Self {
        .unavailable(status: 503, error.message, retryAfter: error.retryAfter)
    }

    static let otherSubjectMessage = "The access key is not valid for the user that the session is named after."
}
