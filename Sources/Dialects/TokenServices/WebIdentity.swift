package import Foundation
package import ObjectGrants

/// A user authenticated by a trusted identity provider.
package struct WebIdentity: Sendable {
    package let subject: String
    package let audience: String
    /// The issuer of the token.
    package let provider: String
    /// The most that sessions may do; they end with it.
    package let grant: ObjectGrant

    package init(subject: String, audience: String, provider: String, grant: ObjectGrant) {
        self.subject = subject
        self.audience = audience
        self.provider = provider
        self.grant = grant
    }
}

/// Why a token is rejected; the texts are sentences that say what to change.
package enum WebIdentityFailure: Error, Sendable, Equatable {
    case invalid(String)
    case expired(String)
    /// The provider's keys are not available now.
    case providerAway(String)

    /// No provider is trusted.
    package static let noProvider = WebIdentityFailure.invalid(
        "This server trusts no identity provider; have a backend request credentials with a key that is allowed to mint."
    )
}

/// Verifies the tokens of trusted identity providers.
package protocol WebIdentityVerifier: Sendable {
    /// Checks a token.
    ///
    /// - Parameters:
    ///   - token: The token, unchanged.
    ///   - lifetime: Requested lifetime of the session in seconds; it may become shorter.
    ///   - now: The time.
    /// - Returns: The authenticated user.
    /// - Throws: `WebIdentityFailure`.
    func identity(
        in token: String,
        lifetime: TimeInterval,
        at now: Date
    ) async throws(WebIdentityFailure) -> WebIdentity
}
