/// The signature information in a request; not verified yet.
///
/// `SigV4Verifier.claim` has checked everything except the signature and the token, which need the secret.
package struct SigV4Claim: Sendable {
    /// The id of the secret to look up.
    package let accessKeyID: String
    package let scope: SigV4Scope
    /// When it was signed, Unix seconds.
    package let date: Int64
    /// What it declares about the content.
    package let payload: SigV4Payload
    /// Seconds after `date` during which a signature in a query is valid; `nil` for one in `Authorization`.
    package let lifetime: Int64?
    /// In lower case, in order.
    package let signedHeaders: [String]
    package let token: String?

    let timestamp: String
    let signature: String
    let request: SigningRequest
    /// The parameters of the query except the signature.
    let query: [SigningField]
}

/// The parts of a signature, as written in `Authorization` or in the query.
struct SigV4Parts {
    let isQuery: Bool
    let credential: String
    let signedHeaders: [String]
    let signature: String
    /// Only from a query; as written.
    let date: String?
    let lifetime: String?
    let token: String?

    /// The access key and the scope in the credential; the access key can contain `/`.
    func scope() throws(RequestSignatureFailure) -> (accessKeyID: String, scope: SigV4Scope) {
        let (accessKeyID, parts) = try AuthorizationParts.credential(credential, count: 4)
        guard parts[3] == SigV4Scope.terminator else { throw .wrongScope }
        return (accessKeyID, SigV4Scope(day: parts[0], region: parts[1], service: parts[2]))
    }
}

extension SigV4Parts {
    /// Parses `Authorization`: the algorithm, and `Credential`, `SignedHeaders` and `Signature` in any order, separated
    /// by commas with or without white space.
    init(authorization: String) throws(RequestSignatureFailure) {
        let parts = try AuthorizationParts(authorization, algorithm: SigV4Signature.algorithm)
        try parts.allow(["Credential", "SignedHeaders", "Signature"])
        isQuery = false
        credential = try parts.value("Credential")
        signedHeaders = try AuthorizationParts.names(try parts.value("SignedHeaders"), "SignedHeaders")
        signature = try AuthorizationParts.signature(try parts.value("Signature"), count: 32)
        date = nil
        lifetime = nil
        token = nil
    }

    init(query: [SigningField]) throws(RequestSignatureFailure) {
        guard try query.single("X-Amz-Algorithm") == SigV4Signature.algorithm else { throw .unsupportedAlgorithm }
        isQuery = true
        credential = try query.single("X-Amz-Credential")
        signedHeaders = try AuthorizationParts.names(try query.single("X-Amz-SignedHeaders"), "SignedHeaders")
        signature = try AuthorizationParts.signature(try query.single("X-Amz-Signature"), count: 32)
        date = try query.single("X-Amz-Date")
        lifetime = try query.single("X-Amz-Expires")
        token = try query.optional("X-Amz-Security-Token")
    }

    /// Whether a query contains any part of a signature.
    static func areIn(_ query: [SigningField]) -> Bool {
        query.contains { ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"].contains($0.name) }
    }
}
