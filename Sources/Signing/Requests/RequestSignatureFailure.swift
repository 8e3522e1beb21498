/// Why the signature of a request is refused; contains only values from the request.
package enum RequestSignatureFailure: Error, Sendable, Equatable {
    /// The request contains no part of a signature.
    case noSignature
    /// There are signatures in more than one place, such as `Authorization` and the query.
    case twoSignatures
    /// The algorithm is not that of the scheme.
    case unsupportedAlgorithm
    /// A part of the signature is repeated, or a header or parameter that must not be repeated.
    case duplicate(String)
    /// A part of the signature or a parameter that is listed as signed is missing.
    case missingParameter(String)
    /// A part of the signature is malformed.
    case malformed(String)
    /// A required header or a header that is listed as signed is missing.
    case missingHeader(String)
    /// A header that must be signed is not, such as `host` in the schemes of AWS.
    case unsignedHeader(String)
    /// The credential scope has a wrong last part.
    case wrongScope
    /// The day in the credential scope is not that of the request.
    case wrongDay
    /// The credential scope is for another region.
    case wrongRegion
    /// The credential scope is for another service.
    case wrongService
    /// The lifetime of a signature in a query is not 1 to 604800 seconds.
    case lifetimeOutOfRange
    /// The time of the request differs from the current time by more than the scheme allows; if the signature has an
    /// expiry, only times in the future count.
    case skewed
    /// The signature has expired.
    case expired
    /// The token does not belong to the credentials.
    case wrongToken
    /// The signature does not match the request and the secret of the access key.
    case wrongSignature
}
