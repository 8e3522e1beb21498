internal import Foundation
internal import HTTPClient
internal import ObjectGrants
internal import ObjectGateway
package import SettingsKit
internal import Signing
internal import Telemetry
package import UploadCore

/// Settings converted for the module.
extension Settings {
    /// The identity provider whose users get credentials; `nil` for none.
    package func trustedIssuer(_ clock: any WallClock) -> TrustedIssuer? {
        guard let issuer = identity.issuer, let bucket = identity.bucket ?? object.buckets.first else { return nil }
        // Any address is allowed: the operator chose the provider, which is often private.
        let client = HTTPClient(
            userAgent: "Sluice/\(Version.current)",
            maximumTransfers: 4,
            addresses: .any,
            authorities: identity.authorities
        )
        return TrustedIssuer(
            rules: IdentityTokenRules(issuer: issuer, audiences: identity.audiences),
            keys: IdentityKeys(identity.keysURL.map { .at($0) } ?? .ofIssuer(issuer), client: client, clock: clock),
            bucket: bucket,
            keyPrefix: identity.keyPrefix,
            actions: identity.actions.reduce(into: []) { $0.formUnion($1.actions) },
            maximumBytes: identity.maximumBytes,
            maximumLifetime: Double(identity.maximumLifetime.components.seconds)
        )
    }
}
