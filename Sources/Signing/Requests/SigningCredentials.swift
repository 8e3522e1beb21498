internal import Digests

/// What requests to AWS, OSS, COS and the stores that speak as they do are signed with.
///
/// The secret and the token never appear in a description, a reflection or a log.
package struct SigningCredentials: Sendable {
    package let accessKeyID: String
    package let secretAccessKey: String
    /// What comes with keys that are valid for some time only (STS).
    package let sessionToken: String?

    package init(accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil) {
        self.accessKeyID = accessKeyID
        self.secretAccessKey = secretAccessKey
        self.sessionToken = sessionToken
    }
}

extension SigningCredentials: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "\(accessKeyID) <redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension SigningCredentials {
    /// Compares the token of a request, in constant time.
    ///
    /// - Throws: `.wrongToken`, also where only one of the two has one.
    func checkToken(_ token: String?) throws(RequestSignatureFailure) {
        switch (sessionToken, token) {
        case (nil, nil): break
        case (let wanted?, let token?) where constantTimeEquals(wanted.utf8, token.utf8): break
        default: throw .wrongToken
        }
    }
}
