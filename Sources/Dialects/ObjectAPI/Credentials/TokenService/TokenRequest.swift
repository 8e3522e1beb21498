/// A request to a security token service, in words for all vendors.
package struct TokenRequest: Sendable, Equatable {
    package enum Operation: Sendable, Equatable {
        case assumeRole(Role)
        /// With the token of an identity provider, which nobody has looked at yet.
        case assumeRoleWithWebIdentity(Role, token: String)
        case getFederationToken
        /// For whoever asks, without a name.
        case getSessionToken
    }

    /// A role by its name, as `arn:aws:iam::account:role/name`, `acs:ram::account:role/name` and
    /// `qcs::cam::uin/account:roleName/name` have it.
    package struct Role: Sendable, Equatable {
        /// All of the name.
        package let resourceName: String
        /// Digits.
        package let account: String
        /// Without the path that roles of AWS may have; of Tencent Cloud it may be the id.
        package let name: String
    }

    package let operation: Operation
    /// Of the session or of the federated user; the subject of the grant, for an app that names its users so.
    package let name: String
    package let seconds: Int
    /// What the session is narrowed to.
    package let policy: SessionPolicy?
    /// What a role may want from whoever assumes it.
    package let externalID: String?

    init(operation: Operation, name: String, seconds: Int, policy: SessionPolicy?, externalID: String? = nil) {
        self.operation = operation
        self.name = name
        self.seconds = seconds
        self.policy = policy
        self.externalID = externalID
    }
}

/// Why a request to a security token service is refused, with a code that the clients of the vendor know.
package struct TokenRefusal: Error, Sendable, Equatable {
    package let status: Int
    package let code: String
    /// What to change, in one sentence.
    package let message: String

    package init(_ status: Int, _ code: String, _ message: String) {
        self.status = status
        self.code = code
        self.message = message
    }
}

extension TokenRequest.Role {
    /// An id for the role, as opaque as those of the vendors, which is the same as long as the role has this name.
    func id(prefix: String) -> String { prefix + TokenSyntax.stamp(of: resourceName) }
}
