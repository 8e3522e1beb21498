/// What a request says about its signature; nobody has vouched for it.
///
/// It is what `SigV4Verifier.claim` found in order, all but the signature and the token, for which the secret is needed.
package struct SigV4Claim: Sendable {
    /// Whose secret is to be looked up.
    package let accessKeyID: String
    package let scope: SigV4Scope
    /// When it was signed, Unix seconds.
    package let date: Int64
    /// What it says of the content.
    package let payload: SigV4Payload
    /// Seconds from `date` in which a signature in a query is in force; `nil` for one in `Authorization`.
    package let lifetime: Int64?
    /// Names in lower case, in order.
    package let signedHeaders: [String]
    package let token: String?

    let timestamp: String
    let signature: String
    let request: SigningRequest
    /// The parameters of the query without the signature.
    let query: [SigningField]
}

/// The parts of a signature as they stand in `Authorization` or the query.
struct SigV4Parts {
    let isQuery: Bool
    let credential: String
    let signedHeaders: [String]
    let signature: String
    /// Of a query only, as they came.
    let date: String?
    let lifetime: String?
    let token: String?

    /// The scope and the access key that the credential is made of; the access key may hold `/`.
    func scope() throws(RequestSignatureFailure) -> (accessKeyID: String, scope: SigV4Scope) {
        let (accessKeyID, parts) = try AuthorizationParts.credential(credential, count: 4)
        guard parts[3] == SigV4Scope.terminator else { throw .wrongScope }
        return (accessKeyID, SigV4Scope(day: parts[0], region: parts[1], service: parts[2]))
    }
}

extension SigV4Parts {
    /// Reads `Authorization`: the algorithm, and `Credential`, `SignedHeaders` and `Signature` in any order, separated by
    /// commas with or without white space.
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

    /// Whether there is anything of a signature in a query.
    static func areIn(_ query: [SigningField]) -> Bool {
        query.contains { ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"].contains($0.name) }
    }
}
