internal import HTTPClient
internal import GatewayKit
package import SettingsKit
package import Signing
internal import Telemetry

/// Settings converted for the module.
extension Settings {
    /// `nil` without hooks.
    package func hookCaller(_ master: MasterSecret) -> HookCaller? {
        guard let url = hooks.url else { return nil }
        let settings = HookSettings(
            url: url,
            events: hooks.events,
            timeout: hooks.timeout,
            isFailOpen: hooks.onFailure == .allow,
            maximumAttempts: hooks.attempts,
            concurrency: hooks.concurrency,
            forwardedFields: hooks.forwardHeaders
        )
        return HookCaller(settings, client: Self.hookClient(), signer: hookSigner(master))
    }

    /// Posts to a URL that the operator chose.
    package func webhookPoster(_ url: String, _ master: MasterSecret) -> WebhookPoster {
        WebhookPoster(url: url, client: Self.hookClient(), signer: hookSigner(master))
    }

    /// The operator chose where hooks go, and an app's backend often has a private address.
    private static func hookClient() -> HTTPClient {
        HTTPClient(userAgent: "Sluice/\(Version.current)", addresses: .any)
    }

    /// Signs hooks with the configured key, or with one that is derived from each master secret.
    package func hookSigner(_ master: MasterSecret) -> WebhookSigner {
        if let key = hooks.secret.flatMap({ WebhookSigner.key(in: $0.exposed) }) { return WebhookSigner(key: key) }
        let purpose = "webhooks v1"
        return WebhookSigner(
            key: master.key(for: purpose),
            others: master.each.dropFirst().map { $0.key(for: purpose) }
        )
    }
}
