internal import Callbacks
internal import GatewayKit
internal import ObjectStore
package import SettingsKit

/// The object endpoint, to which clients of S3, OSS and COS upload.
package struct ObjectSettings: SettingsSection {
    /// `nil` disables the endpoint.
    package var listen: ListenAddress? = ListenAddress(host: "127.0.0.1", port: 9000)
    /// Whether trusted proxies begin each connection with a header of the PROXY protocol.
    package var expectsProxyHeader = false
    /// `https://host[:port]`; `nil` uses the host of the request with the endpoint's port.
    package var publicURL: String?
    /// Created at start if missing.
    package var buckets = ["uploads"]
    /// Host names with buckets as subdomains.
    package var domains: [String] = []
    /// In the syntax of `CallbackHost`.
    package var callbackHosts: [String] = []
    /// In the syntax of `PublicRead.Rule`.
    package var publicRead: [String] = []
    package var publicMaximumAge = Duration.seconds(3600)
    /// The region in signatures, also reported to clients.
    package var region = "us-east-1"

    package init() {}

    package static let table: [Setting] = [
        setting(
            "object.listen",
            \.listen,
            .listenAddressOrNone,
            "Address of the endpoint for clients of S3, OSS and COS."
        ),
        setting(
            "object.proxyProtocol",
            \.expectsProxyHeader,
            .flag,
            "The same as gateway.proxyProtocol, for that endpoint."
        ),
        setting(
            "object.publicURL",
            \.publicURL,
            optional: .origin,
            "URL at which clients reach that endpoint, for URLs that are signed for them; if not set, the host of the request with the port of that endpoint."
        ),
        setting(
            "object.buckets",
            \.buckets,
            .buckets,
            "Buckets of that endpoint that are created at the start if they are missing."
        ),
        setting(
            "object.domains",
            \.domains,
            .texts("names of hosts separated by commas, such as s3.example.com") { ListenAddress($0 + ":0") != nil },
            "Host names of that endpoint that have a subdomain for each bucket (bucket.s3.example.com)."
        ),
        setting(
            "object.callbackHosts",
            \.callbackHosts,
            .texts("hosts separated by commas, such as app.example.com, 10.1.2.3:8000, *.example.com") {
                CallbackHost($0) != nil
            },
            "Hosts to which clients of OSS may have callbacks sent (x-oss-callback); if empty, callbacks are refused."
        ),
        setting(
            "object.publicRead",
            \.publicRead,
            .texts("bucket or bucket/prefix, separated by commas, such as media/public/; no *") {
                PublicRead.Rule($0) != nil
            },
            "Objects that anyone can read without a credential: those of a bucket, or those whose keys begin with the prefix."
        ),
        setting(
            "object.publicMaxAge",
            \.publicMaximumAge,
            .duration(.zero ... .seconds(365 * 86_400)),
            "How long browsers and caches may keep such an object, in whole seconds, unless it has its own Cache-Control or Expires."
        ),
        setting(
            "object.region",
            \.region,
            .visible(minimum: 1),
            "Region for which clients of that endpoint sign."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        demands.demand(
            settings.object.publicRead.isEmpty || settings.uploads.downloads,
            "media.downloads",
            because: "object.publicRead",
            "must be true, because object.publicRead is set"
        )
        demands.demand(
            !settings.object.expectsProxyHeader || !settings.general.trustedProxies.isEmpty,
            "trustedProxies",
            because: "object.proxyProtocol",
            "must name the proxies, because object.proxyProtocol is true"
        )
        demands.demand(
            settings.object.listen?.unixPath == nil || settings.object.publicURL != nil,
            "object.publicURL",
            because: "object.listen",
            "must be set, because a Unix socket has no URL that clients could be given"
        )
    }
}

extension Settings {
    package var object: ObjectSettings {
        get { self[ObjectSettings.self] }
        set { self[ObjectSettings.self] = newValue }
    }
}
