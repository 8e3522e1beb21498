package import GatewayKit
internal import HTTPClient
package import Logging
package import MetricsKit
package import SettingsKit
package import Signing
internal import SystemIO
internal import Telemetry

/// Settings converted for the module.
extension Settings {
    /// `nil` without hooks.
    ///
    /// - Throws: `StartFailure` if the directory of the programs cannot be used.
    package func hookCaller(
        _ signer: HookSigner,
        _ report: HookReport,
        _ metrics: MetricsRegistry,
        _ logger: Logger
    ) throws(StartFailure) -> HookCaller? {
        var settings = hookSettings
        if let path = hooks.directory {
            let directory = HookDirectory(path, running: hooks.events, .onCallingThread)
            guard directory.problems.isEmpty else {
                throw StartFailure("hooks.directory: \(directory.problems.joined(separator: "; "))")
            }
            for remark in directory.remarks { logger.warning("hooks.directory: \(remark)") }
            settings.events = directory.hooks
            // At most half of them run events, so that these keep no blocking hook waiting.
            let pool = PoolMetrics.pool(threads: 2 * hooks.concurrency, label: "sluice.hook", as: "hooks", in: metrics)
            // Where events have threads, some calls wait for one; a call that gets none in time is refused like one without a turn.
            let programs = HookPrograms(in: path, pool: pool, logger)
            return HookCaller(settings, programs, report: report, blockingCalls: 2 * hooks.concurrency)
        }
        return hooks.url.map { HookCaller(settings, webhookPoster($0, signer), report: report) }
    }

    fileprivate var hookSettings: HookSettings {
        HookSettings(
            events: hooks.events,
            timeout: hooks.timeout,
            isFailOpen: hooks.onFailure == .allow,
            maximumAttempts: hooks.attempts,
            concurrency: hooks.concurrency,
            forwardedFields: hooks.forwardHeaders
        )
    }

    /// Posts to a URL that the operator chose.
    package func webhookPoster(_ url: String, _ signer: HookSigner) -> WebhookPoster {
        // Events and blocking hooks have places of their own, so that no call waits in the client.
        let transfers = HookCaller.usualBlockingCalls + hooks.concurrency
        return WebhookPoster(url: url, client: Self.hookClient(transfers), signer: signer)
    }

    /// The operator chose where hooks go, and an app's backend often has a private address.
    private static func hookClient(_ transfers: Int) -> HTTPClient {
        HTTPClient(
            userAgent: "Sluice/\(Version.current)",
            purpose: "hook",
            maximumTransfers: transfers,
            addresses: .any
        )
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

extension HookCaller {
    /// Keys of the settings that `follow` applies.
    ///
    /// None of them is one if `hooks.url` appears or disappears.
    package static let liveKeys: Set<String> = [
        "hooks.url", "hooks.timeout", "hooks.onFailure", "hooks.attempts", "hooks.forwardHeaders",
    ]

    /// Takes over the values of `liveKeys`, for all calls that begin now.
    package func follow(_ settings: Settings) {
        var next = settings.hookSettings
        (next.events, next.concurrency) = (self.settings.events, self.settings.concurrency)
        follow(next, url: settings.hooks.url)
    }
}
