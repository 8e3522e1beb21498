/// Why a signature is refused.
package enum SignatureFailure: Error, Sendable, Equatable {
    /// It is not standard base64 with padding and without white space.
    case notBase64
    /// It has no bytes after the code.
    case tooShort
    /// The bytes after the code are not form-encoded `name=value` pairs joined with `&`.
    case malformed
    /// A parameter is repeated.
    case duplicateParameter(String)
    /// A required parameter is missing.
    case missingParameter(String)
    /// The `secretId` is unknown.
    case unknownSecretID
    /// The code does not match these bytes and the key of the `secretId`.
    case wrongCode
    /// The value of this parameter is not a decimal integer.
    case notAnInteger(String)
    /// The value of this parameter is an integer outside its range.
    case outOfRange(String)
    /// `expireTime` is in the past.
    case expired
    /// `expireTime` is more than 90 days after `currentTimeStamp`, or from now.
    case lifetimeTooLong
    /// `currentTimeStamp` is later than clocks can differ.
    case notYetValid
}
