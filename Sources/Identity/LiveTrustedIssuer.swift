package import Foundation
internal import Synchronization
package import TokenServices

/// The identity provider whose users get credentials for the object endpoint, as the settings name it now.
package final class LiveTrustedIssuer: WebIdentityVerifier {
    private let current: Mutex<TrustedIssuer?>

    package init(_ issuer: TrustedIssuer?) { current = Mutex(issuer) }

    /// `nil` if there is none.
    package var issuer: TrustedIssuer? { current.withLock { $0 } }

    package func replace(with issuer: TrustedIssuer?) { current.withLock { $0 = issuer } }

    package func identity(
        in token: String,
        lifetime: TimeInterval,
        at now: Date
    ) async throws(WebIdentityFailure) -> WebIdentity {
        guard let issuer else { throw .noProvider }
        return try await issuer.identity(in: token, lifetime: lifetime, at: now)
    }

    /// Whether the issuer and audience with this name in place of an API key are trusted.
    package func trusts(_ id: String) -> Bool { issuer?.trusts(id) == true }
}
