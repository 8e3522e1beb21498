package import ObjectGrants

/// A request to a security token service, independent of the vendor.
package struct TokenRequest: Sendable, Equatable {
    package enum Operation: Sendable, Equatable {
        case assumeRole(Role)
        /// With an identity provider's token, not yet verified.
        case assumeRoleWithWebIdentity(Role, token: String)
        case getFederationToken
        /// For the caller itself, without a name.
        case getSessionToken
    }

    /// A role by its name, as `arn:aws:iam::account:role/name`, `acs:ram::account:role/name` and
    /// `qcs::cam::uin/account:roleName/name` have it.
    package struct Role: Sendable, Equatable {
        /// The complete name.
        package let resourceName: String
        /// Digits.
        package let account: String
        /// Without the path that AWS roles may have; for Tencent Cloud it may be the id.
        package let name: String
    }

    package let operation: Operation
    /// Name of the session or the federated user; it is the grant's subject if the app names its users so.
    package let name: String
    package let seconds: Int
    /// The policy that restricts the session.
    package let policy: SessionPolicy?
    /// External id that a role may require.
    package let externalID: String?

    init(operation: Operation, name: String, seconds: Int, policy: SessionPolicy?, externalID: String? = nil) {
        self.operation = operation
        self.name = name
        self.seconds = seconds
        self.policy = policy
        self.externalID = externalID
    }
}

/// Why a request to a security token service is refused, with a code for the vendor's clients.
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
    /// An opaque id for the role in the vendor's format; stable while the role has this name.
    func id(prefix: String) -> String { prefix + TokenSyntax.stamp(of: resourceName) }
}
