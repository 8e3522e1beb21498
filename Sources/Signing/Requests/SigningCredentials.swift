internal import Digests

/// What requests to AWS, OSS, COS and the stores that speak as they do are signed with.
///
/// The secret and the token never appear in a description, a reflection or a log.
package struct SigningCredentials: Sendable {
    package let accessKeyID: String
    package let secretAccessKey: String
    /// What comes with keys that are valid for some time only (STS).
    package let sessionToken: String?
    /// Unix seconds, if they have an end that is known.
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
    /// Checks that a request was signed with these, the token in constant time.
    ///
    /// - Parameters:
    ///   - other: The access key id that the request names.
    ///   - isSigned: Whether its signature is that of the secret key.
    ///   - token: That it brings.
    /// - Throws: `.wrongSignature`; `.wrongToken`, also where only one of the two has one.
    func check(
        accessKeyID other: String,
        isSigned: Bool,
        token: String?
    ) throws(RequestSignatureFailure) {
        guard accessKeyID.utf8.elementsEqual(other.utf8), isSigned else { throw .wrongSignature }
        switch (sessionToken, token) {
        case (nil, nil): break
        case (let wanted?, let token?) where constantTimeEquals(wanted.utf8, token.utf8): break
        default: throw .wrongToken
        }
    }
}

extension [SigningCredentials] {
    /// Checks a signature with each until it is right: while a master secret is rotated, an access key id stands for several.
    ///
    /// - Parameter verify: Checks it with one.
    /// - Returns: What that gives for the first with which it does not throw.
    /// - Throws: What it throws for the first of all; `.wrongSignature` if there are none.
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
