package import Foundation
internal import ObjectGrants
internal import Signing
package import TokenServices
internal import UploadModel

/// An identity provider whose users get credentials for the object endpoint.
package struct TrustedIssuer: WebIdentityVerifier {
    /// Where its keys are from.
    struct Source: Sendable, Equatable {
        let issuer: String
        let keysURL: String?
        let authorities: String?
    }

    let source: Source
    let rules: IdentityTokenRules
    let keys: IdentityKeys
    /// As clients name it.
    let bucket: String
    let keyPrefix: IdentityKeyPrefix
    let actions: Set<ObjectAction>
    let maximumBytes: Int64?
    /// Seconds.
    let maximumLifetime: TimeInterval

    package func identity(
        in text: String,
        lifetime: TimeInterval,
        at now: Date
    ) async throws(WebIdentityFailure) -> WebIdentity {
        let token: JSONWebToken
        do throws(JSONWebToken.Malformed) {
            token = try JSONWebToken(text)
        } catch {
            throw .invalid("The token \(error.reason).")
        }
        // Tokens of other issuers must not cause a fetch of this one's keys.
        guard rules.areMeant(by: token) else {
            throw .invalid("The issuer of the token is not trusted here.")
        }
        let known: [JSONWebKey]
        do throws(IdentityKeys.Unavailable) {
            known = try await keys.keys(for: token)
        } catch {
            throw .providerAway("The keys of the identity provider are not available: \(error.reason).")
        }
        let identity: IdentityTokenRules.Identity
        do throws(IdentityTokenRules.Failure) {
            identity = try rules.identity(in: token, keys: known, at: now.unixSeconds)
        } catch {
            switch error {
            case .invalid(let reason): throw .invalid("The token \(reason).")
            case .expired: throw .expired("The token has expired; get a new one from the identity provider.")
            }
        }
        let prefix: String
        do throws(IdentityKeyPrefix.MissingClaim) {
            prefix = try keyPrefix.prefix(for: identity.claims)
        } catch {
            throw .invalid(
                "The token has no claim \(error.name), a text or a number, which names the keys of its user."
            )
        }
        guard let prefix = KeyPrefix(prefix), SubjectText.isValid(identity.subject) else {
            throw .invalid(
                "The claims of the token do not form a valid key prefix, or its subject has control characters."
            )
        }
        return WebIdentity(
            subject: identity.subject,
            audience: identity.audience,
            provider: rules.issuer,
            grant: grant(to: identity, within: prefix, lifetime: lifetime, at: now)
        )
    }

    private func grant(
        to identity: IdentityTokenRules.Identity,
        within prefix: KeyPrefix,
        lifetime: TimeInterval,
        at now: Date
    ) -> ObjectGrant {
        ObjectGrant(
            upload: Grant(
                id: Grant.newID(at: now),
                issuer: IdentityName.text(rules.issuer, audience: identity.audience),
                subject: identity.subject,
                maximumBytes: maximumBytes,
                expiresAt: now.addingTimeInterval(min(lifetime, maximumLifetime)),
                issuedAt: now
            ),
            bucket: bucket,
            keys: .within(prefix),
            actions: actions
        )
    }

    // MARK: Revocation

    /// Whether a session with this in place of an API key was minted for an identity token.
    package static func isMeant(by id: String) -> Bool { IdentityName.isMeant(by: id) }

    /// Whether the issuer and audience of that session are still trusted.
    package func trusts(_ id: String) -> Bool {
        rules.audiences.contains { IdentityName.text(rules.issuer, audience: $0) == id }
    }
}
