/// Why a request to a cloud failed.
package struct CloudFailure: Error, Sendable, Equatable {
    package enum Kind: String, Sendable {
        /// No response, overload, or no credentials; a later retry may succeed.
        case unavailable
        /// The cloud refused.
        case refused
        /// The response cannot be parsed.
        case malformed
    }

    package let kind: Kind
    /// For the client: which cloud, which request, and what happened, without secrets.
    package let message: String
    /// For the log of the operator only.
    package let cause: String?
    /// The cloud's error code.
    let code: String?

    /// Whether the cloud refused the account's key, what was signed by it, or its rights: settings of the gateway, or its clock, are wrong.
    package var isAboutAccount: Bool { kind == .refused && code.map(Self.isAboutAccount) == true }

    /// The same for a code.
    ///
    /// `InvalidAccessKeyId.NotFound`, `SignatureDoesNotMatch`, `IncompleteSignature`, `InvalidTimeStamp.Expired`, `Forbidden.RAM`, `InvalidClientTokenId`,
    /// `AuthFailure.SignatureFailure`.
    static func isAboutAccount(_ code: String) -> Bool {
        code.contains("Signature") || code.contains("AccessKey")
            || accountCodes.contains { code == $0 || code.hasPrefix($0 + ".") }
    }

    private static let accountCodes = [
        "AuthFailure", "InvalidTimeStamp", "InvalidSecurityToken", "MissingSecurityToken", "Forbidden", "NoPermission",
        "InvalidClientTokenId", "ExpiredToken", "AccessDenied", "UnauthorizedOperation",
    ]

    init(_ kind: Kind, _ message: String, cause: String? = nil, code: String? = nil) {
        self.kind = kind
        self.message = message
        self.cause = cause
        self.code = code
    }
}
