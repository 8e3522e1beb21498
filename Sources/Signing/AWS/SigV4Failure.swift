/// Why a request is not accepted as signed; names only what the request itself says.
package enum SigV4Failure: Error, Sendable, Equatable {
    /// Neither `Authorization` nor a signature in the query.
    case noSignature
    /// Both `Authorization` and a signature in the query.
    case twoSignatures
    /// Something other than `AWS4-HMAC-SHA256`.
    case unsupportedAlgorithm
    /// A part of the signature, or a header that must not be repeated, is there more than once.
    case duplicate(String)
    /// A part of the signature is not there, such as `Credential` or `X-Amz-Expires`.
    case missingParameter(String)
    /// A part of the signature is not what it must be.
    case malformed(String)
    /// A header that must be there, or is said to be signed, is not there.
    case missingHeader(String)
    /// A header is there that must be signed and is not: `host`, and all that begin with `x-amz-`.
    case unsignedHeader(String)
    /// The credential scope does not end as it must.
    case wrongScope
    /// The day of the credential scope is not that of the request.
    case wrongDay
    /// The credential scope is for another region.
    case wrongRegion
    /// The credential scope is for another service.
    case wrongService
    /// `X-Amz-Expires` is not 1 to 604800.
    case lifetimeOutOfRange
    /// The request was signed more than 15 minutes away from now; in a query, more than 15 minutes from now on.
    case skewed
    /// The time of a signature in a query is over.
    case expired
    /// The session token is not that of the credentials.
    case wrongToken
    /// The signature is not that of this request under the secret of the access key.
    case wrongSignature
}
