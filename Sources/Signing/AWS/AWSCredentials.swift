/// What requests to AWS, and to stores that speak as it does, are signed with.
///
/// The secret and the token never appear in a description, a reflection or a log.
package struct AWSCredentials: Sendable {
    package let accessKeyID: String
    package let secretAccessKey: String
    /// What comes with keys that are valid for some time only (AWS STS).
    package let sessionToken: String?

    package init(accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil) {
        self.accessKeyID = accessKeyID
        self.secretAccessKey = secretAccessKey
        self.sessionToken = sessionToken
    }
}

extension AWSCredentials: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "\(accessKeyID) <redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
