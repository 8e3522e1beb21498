package import HTTPClient
internal import GatewayKit
package import SettingsKit
package import UploadCore
internal import UploadModel

/// Settings converted for the module.
extension Settings {
    package var pullAddresses: AddressPolicy { .publicOnly(allowing: pull.allow) }

    package var pullLimits: PullLimits {
        let delay = pull.retryDelay / .seconds(1)
        return PullLimits(
            concurrency: pull.concurrency,
            attempts: pull.attempts,
            retryDelay: delay,
            longestDelay: max(600, delay)
        )
    }

    /// The HTTP origin and its limits.
    func pullOrigin(_ client: HTTPClient, publicOnly: HTTPClient, _ clock: any WallClock) -> HTTPOrigin {
        HTTPOrigin(
            client: client,
            publicClient: publicOnly,
            maximumRedirects: pull.maximumRedirects,
            connectTimeout: pull.connectTimeout,
            stallTimeout: pull.timeout,
            minimumRate: Int(clamping: limits.bodyRate),
            clock: clock
        )
    }
}
