internal import Digests
internal import Foundation
package import GatewayKit
internal import HTTPClient
internal import ObjectGrants
internal import ObjectGateway
package import SettingsKit
internal import Signing
internal import Telemetry
package import UploadModel

/// Settings converted for the module.
extension Settings {
    /// The identity provider whose users get credentials.
    ///
    /// - Parameters:
    ///   - clock: For what is fetched.
    ///   - former: The one before; keys that were fetched from the same place stay in use.
    /// - Returns: `nil` if there is none.
    package func trustedIssuer(_ clock: any WallClock, replacing former: TrustedIssuer? = nil) -> TrustedIssuer? {
        guard let issuer = identity.issuer, let bucket = identity.bucket ?? object.buckets.first else { return nil }
        let source = TrustedIssuer.Source(
            issuer: issuer,
            keysURL: identity.keysURL,
            authorities: identity.authorities
        )
        let keys = former?.source == source ? former?.keys : nil
        return TrustedIssuer(
            source: source,
            rules: IdentityTokenRules(
                issuer: issuer,
                audiences: identity.audiences,
                leeway: min(IdentityTokenRules.leeway, limits.clockSkewSeconds)
            ),
            keys: keys
                ?? IdentityKeys(
                    identity.keysURL.map { .at($0) } ?? .ofIssuer(issuer),
                    client: Self.client(trusting: identity.authorities),
                    clock: clock
                ),
            bucket: bucket,
            keyPrefix: identity.keyPrefix,
            actions: identity.actions.reduce(into: []) { $0.formUnion($1.actions) },
            maximumBytes: identity.maximumBytes,
            maximumLifetime: Double(identity.maximumLifetime.components.seconds)
        )
    }

    /// The issuers whose tokens admit app users.
    ///
    /// - Parameters:
    ///   - clock: For what is fetched.
    ///   - former: Those before; keys that were fetched stay in use.
    /// - Returns: Without any, no token is accepted.
    /// - Throws: `StartFailure` if a file with keys cannot be used.
    package func appUserIssuers(
        _ clock: any WallClock,
        replacing former: AppUserIssuers? = nil
    ) throws(StartFailure) -> AppUserIssuers {
        var issuers: [AppUserIssuer] = []
        for issuer in jwt.issuers.issuers {
            let place: IdentityKeys.Place
            switch issuer.keys {
            case .discovered: place = .ofIssuer(issuer.issuer)
            case .at(let url): place = .at(url)
            case .file(let path):
                issuers.append(AppUserIssuer(issuer, keys: .fixed(try Self.keys(in: path))))
                continue
            }
            let keys =
                former?.fetchedKeys(of: issuer)
                ?? IdentityKeys(place, client: Self.client(trusting: issuer.authorities), clock: clock)
            issuers.append(AppUserIssuer(issuer, keys: .fetched(keys)))
        }
        return AppUserIssuers(issuers)
    }

    private static func keys(in path: String) throws(StartFailure) -> JSONWebKeySet {
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else {
            throw StartFailure("jwt.issuers: the file \(path) cannot be read, or is not text")
        }
        do throws(PublicKeyFile.Failure) {
            return JSONWebKeySet(try PublicKeyFile.keys(in: text))
        } catch {
            let reason =
                switch error {
                case .noKey: "has no public key or certificate in PEM"
                case .unsupportedKey:
                    "has a key that is not supported; use RSA (2048 bits or more), EC with P-256, or Ed25519"
                case .privateKey: "has a private key; give the gateway only the public one"
                }
            throw StartFailure("jwt.issuers: the file \(path) \(reason)")
        }
    }

    private static func client(trusting authorities: String?) -> HTTPClient {
        // Any address is allowed: the operator chose the provider, which is often private.
        HTTPClient(
            userAgent: "Sluice/\(Version.current)",
            purpose: "identity",
            maximumTransfers: 4,
            addresses: .any,
            authorities: authorities
        )
    }
}
