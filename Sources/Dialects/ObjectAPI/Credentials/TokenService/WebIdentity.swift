package import Foundation

/// Somebody whom a trusted identity provider vouches for.
package struct WebIdentity: Sendable {
    package let subject: String
    package let audience: String
    /// The issuer of the token.
    package let provider: String
    /// What sessions may do at most, which end with it.
    package let grant: ObjectGrant

    package init(subject: String, audience: String, provider: String, grant: ObjectGrant) {
        self.subject = subject
        self.audience = audience
        self.provider = provider
        self.grant = grant
    }
}

/// Why a token tells nothing; the texts are sentences that say what to change.
package enum WebIdentityFailure: Error, Sendable, Equatable {
    case invalid(String)
    case expired(String)
    /// The keys of the provider can not be had now.
    case providerAway(String)
}

/// Trusts the tokens of an identity provider.
package protocol WebIdentityVerifier: Sendable {
    /// Checks a token.
    ///
    /// - Parameters:
    ///   - token: As it came.
    ///   - lifetime: Seconds that the session is to last, unless it may only be shorter.
    ///   - now: The time.
    /// - Returns: Whom it is about.
    /// - Throws: `WebIdentityFailure`.
    func identity(
        in token: String,
        lifetime: TimeInterval,
        at now: Date
    ) async throws(WebIdentityFailure) -> WebIdentity
}
