internal import Callbacks
package import SettingsKit

/// The object endpoint, to which clients of S3, OSS and COS upload.
package struct ObjectSettings: SettingsSection {
    /// `nil` disables the endpoint.
    package var listen: ListenAddress? = ListenAddress(host: "127.0.0.1", port: 9000)
    /// `https://host[:port]`; `nil` uses the host of the request with the endpoint's port.
    package var publicURL: String?
    /// Created at start if missing.
    package var buckets = ["uploads"]
    /// Host names with buckets as subdomains.
    package var domains: [String] = []
    /// In the syntax of `CallbackHost`.
    package var callbackHosts: [String] = []
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
            "object.region",
            \.region,
            .visible(minimum: 1),
            "Region for which clients of that endpoint sign."
        ),
    ]
}

extension Settings {
    package var object: ObjectSettings {
        get { self[ObjectSettings.self] }
        set { self[ObjectSettings.self] = newValue }
    }
}
