/// Why a signature is not accepted.
package enum SignatureFailure: Error, Sendable, Equatable {
    /// Not standard base64 with padding, without white space.
    case notBase64
    /// Fewer bytes than a code and one more.
    case tooShort
    /// What follows the code is not `name=value` pairs joined with `&` and encoded as a form.
    case malformed
    /// A parameter is there more than once.
    case duplicateParameter(String)
    /// A required parameter is not there.
    case missingParameter(String)
    /// Nobody has this `secretId`.
    case unknownSecretID
    /// The code is not the one of these bytes under the key of the `secretId`.
    case wrongCode
    /// The value of this parameter is not a decimal integer.
    case notAnInteger(String)
    /// The value of this parameter is an integer beyond what it may be.
    case outOfRange(String)
    /// `expireTime` is over.
    case expired
    /// `expireTime` is more than 90 days after `currentTimeStamp`.
    case lifetimeTooLong
}
