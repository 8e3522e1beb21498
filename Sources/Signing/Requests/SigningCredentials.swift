internal import Bytes
internal import Digests

/// Credentials that sign requests to AWS, OSS, COS and compatible stores.
///
/// The secret and the token never appear in a description, a reflection or a log.
package struct SigningCredentials: Sendable {
    package let accessKeyID: String
    package let secretAccessKey: String
    /// The token of temporary credentials (STS).
    package let sessionToken: String?
    /// Unix seconds; `nil` if there is no known expiry.
    package let expiresAt: Int64?

    package init(
        accessKeyID: String,
        secretAccessKey: String,
        sessionToken: String? = nil,
        expiresAt: Int64? = nil
    ) {
        self.accessKeyID = accessKeyID
        self.secretAccessKey = secretAccessKey
        self.sessionToken = sessionToken
        self.expiresAt = expiresAt
    }
}

extension SigningCredentials: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "\(accessKeyID) <redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension SigningCredentials {
    /// Checks that these credentials signed a request; compares the token in constant time.
    ///
    /// - Parameters:
    ///   - other: The access key id in the request.
    ///   - isSigned: Whether the signature matches the secret key.
    ///   - token: The token in the request.
    /// - Throws: `.wrongSignature`; `.wrongToken`, also if only one side has a token.
    func check(
        accessKeyID other: String,
        isSigned: Bool,
        token: String?
    ) throws(RequestSignatureFailure) {
        guard accessKeyID.isExactly(other), isSigned else { throw .wrongSignature }
        switch (sessionToken, token) {
        case (nil, nil): break
        case (let wanted?, let token?) where constantTimeEquals(wanted.utf8, token.utf8): break
        default: throw .wrongToken
        }
    }
}

extension [SigningCredentials] {
    /// Tries each of the credentials until one verifies: during a rotation an access key id has several secrets.
    ///
    /// - Parameter verify: Verifies with one of the credentials.
    /// - Returns: The result of the first success.
    /// - Throws: The error of the first attempt; `.wrongSignature` if there are no credentials.
    package func verified<Verified>(
        by verify: (SigningCredentials) throws(RequestSignatureFailure) -> Verified
    ) throws(RequestSignatureFailure) -> Verified {
        var failure: RequestSignatureFailure?
        for credentials in self {
            do throws(RequestSignatureFailure) {
                return try verify(credentials)
            } catch {
                failure = failure ?? error
            }
        }
        throw failure ?? .wrongSignature
    }
}
