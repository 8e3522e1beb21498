internal import HTTPWire
internal import Signing

/// How the clients of one vendor ask a security token service for credentials, and how they are answered.
protocol TokenDialect: Sendable {
    /// Whose clients will have the credentials.
    var vendor: ObjectDialect { get }

    /// Takes the signature of a call apart, and checks all of it that needs no secret.
    func claim(_ call: TokenCall) throws(RequestSignatureFailure) -> TokenClaim

    /// What a call asks for.
    func request(_ call: TokenCall) throws(TokenRefusal) -> TokenRequest

    /// The vendor's words for a failure.
    func refusal(_ failure: TokenFailure) -> TokenRefusal

    func response(to request: TokenRequest, _ credentials: SessionCredentials, _ call: TokenCall) -> Response

    func response(_ refusal: TokenRefusal, _ call: TokenCall) -> Response
}

/// What a call says about who signed it; nobody has vouched for it.
struct TokenClaim {
    /// What a call must have for itself.
    struct Nonce {
        let text: String
        /// Until when a call with this nonce is looked at, Unix seconds.
        let expiry: Int64
        /// For a call whose nonce was used before.
        let refusal: TokenRefusal
    }

    let accessKeyID: String
    let token: String?
    /// `nil` where the vendor has none.
    let nonce: Nonce?
    /// What should have been signed, for vendors that tell it to whoever signed something else.
    let stringToSign: String?
    /// Checks the signature, in constant time.
    let verify: (SigningCredentials) throws(RequestSignatureFailure) -> Void
}

/// Why a call is refused, in words for all vendors.
enum TokenFailure: Error {
    /// Query or content are not what they must be, as the sentence says.
    case unreadable(String)
    /// The signature is missing, or wrong; the text is what should have been signed, if that is known.
    case signature(RequestSignatureFailure, stringToSign: String? = nil)
    /// The access key is not that of somebody who may mint.
    case unknownKey
    /// It is signed with credentials that were minted; these mint no others.
    case fromSession
    /// The access key is that of an API key for other users than the one that the session is named after.
    case otherSubject
    /// It can not be answered now.
    case unavailable(status: Int, String)
    case tooLong(GrantTooLong)
    case refused(TokenRefusal)
}

extension TokenFailure {
    static let otherSubjectMessage = "The access key is not for the user that the session is named after."
}
