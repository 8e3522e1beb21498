package import HTTPServer
internal import HTTPWire
internal import RESTKit
package import SettingsKit
internal import Telemetry
internal import Transport
internal import UploadCore

/// Settings that can change while the gateway runs.
extension GatewayContext {
    /// Keys of the settings that `follow` applies.
    package static let liveKeys: Set<String> = Set(
        ["log.level", "trustedProxies", "cors.enabled", "cors.origins", "limits.address.exempt"]
            // Not `quota.period`: nodes that count by another one would begin new periods in turn.
            + QuotaSettings.policyKeys
            + ["address", "key", "subject"].flatMap { client in
                ["requestsPerSecond", "burst", "uploads", "bytesPerSecond"].map { "limits.\(client).\($0)" }
            }
    )

    /// Takes over the values of `liveKeys`, for all requests that begin now.
    package func follow(_ settings: Settings) {
        logLevel.set(settings.log.loggerLevel)
        publicURL.trustedProxies.replace(with: settings.general.trustedProxies)
        unlimitedPeers.replace(with: settings.unlimitedPeers)
        cors.follow(settings.corsPolicy)
        requestLimits.follow(settings.limits)
        services.quota.replaceDefaults(settings.quota.policies)
    }

    /// Settings of a listener; all listeners share what can change.
    package var serverConfiguration: ServerConfiguration {
        var configuration = settings.serverConfiguration
        configuration.unlimitedPeers = unlimitedPeers
        return configuration
    }
}

extension Settings {
    /// Peers that may have any number of connections.
    var unlimitedPeers: [PeerRange] { general.trustedProxies + limits.address.exempt }
}
