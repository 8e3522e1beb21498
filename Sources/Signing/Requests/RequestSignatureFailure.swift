/// Why a request is not accepted as signed; names only what the request itself says.
package enum RequestSignatureFailure: Error, Sendable, Equatable {
    /// There is nothing of a signature in the request.
    case noSignature
    /// A signature in more than one place, such as `Authorization` and the query.
    case twoSignatures
    /// Something other than the algorithm of the scheme.
    case unsupportedAlgorithm
    /// A part of the signature, or a header or parameter that must not be repeated, is there more than once.
    case duplicate(String)
    /// A part of the signature, or a parameter that is said to be signed, is not there.
    case missingParameter(String)
    /// A part of the signature is not what it must be.
    case malformed(String)
    /// A header that must be there, or is said to be signed, is not there.
    case missingHeader(String)
    /// A header is there that must be signed and is not, such as `host` in the schemes of AWS.
    case unsignedHeader(String)
    /// The credential scope does not end as it must.
    case wrongScope
    /// The day of the credential scope is not that of the request.
    case wrongDay
    /// The credential scope is for another region.
    case wrongRegion
    /// The credential scope is for another service.
    case wrongService
    /// The seconds in which a signature in a query is in force are not 1 to 604800.
    case lifetimeOutOfRange
    /// The request was signed further away from now than the scheme lets clocks differ; where the signature has an end of its
    /// own, only further in the future.
    case skewed
    /// The time of a signature that has an end of its own is over.
    case expired
    /// The token is not that of the credentials.
    case wrongToken
    /// The signature is not that of this request under the secret of the access key.
    case wrongSignature
}
