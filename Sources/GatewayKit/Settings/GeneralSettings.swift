package import SettingsKit
package import Signing
package import Transport

/// Settings that several modules use: data directory, public URL and secrets.
package struct GeneralSettings: SettingsSection {
    /// Directory for uploads and state; relative to the working directory.
    package var dataDirectory = "./data"
    package var gateway = Gateway()
    /// `http(s)://host[:port][/prefix]` without a trailing slash; `nil` derives it from each request.
    package var publicURL: String?
    /// Peers whose forwarding fields are trusted.
    package var trustedProxies: [CIDR] = []
    /// Presets the first API key; at least 16 visible ASCII characters.
    package var adminKey: Secret<String>?
    /// `nil` uses the secret in the data directory.
    package var masterSecret: Secret<MasterSecret>?
    package var storage = Storage.disk
    package var durability = Durability.acknowledged
    package var tls = TLS()

    package struct Gateway: Sendable, Equatable {
        package var listen = ListenAddress(host: "127.0.0.1", port: 8080)
        /// Event loops; 0 means one per core.
        package var loops = 0
    }

    /// Where upload bytes are stored.
    package enum Storage: String, Sendable, CaseIterable {
        /// The data directory.
        case disk
        /// An S3-compatible store.
        case s3
    }

    /// When stored bytes are forced to stable storage; the names are those of the storage.
    package enum Durability: String, Sendable, CaseIterable {
        case acknowledged, completed, none
    }

    /// Paths of PEM files; set both or neither.
    package struct TLS: Sendable, Equatable {
        package var certificate: String?
        package var key: String?
    }

    package init() {}

    package static let table: [Setting] = [
        setting("dataDir", \.dataDirectory, .path, "Directory for uploads, state and secrets; created if missing."),
        setting("gateway.listen", \.gateway.listen, .listenAddress, "Address of the listener."),
        setting(
            "gateway.loops",
            \.gateway.loops,
            .count(0...1024, meaning: "; 0 is one per core"),
            "Number of event loops."
        ),
        setting(
            "publicURL",
            \.publicURL,
            optional: .publicURL,
            "URL under which clients reach the gateway; if not set, it is taken from each request."
        ),
        setting(
            "trustedProxies",
            \.trustedProxies,
            .ranges,
            "Proxies whose Forwarded and X-Forwarded fields are trusted."
        ),
        setting(
            "adminKey",
            \.adminKey,
            secret: .visible(minimum: 16),
            "API key with all scopes, instead of one that is created and printed at the first start."
        ),
        setting(
            "masterSecret",
            \.masterSecret,
            secret: .masterSecret,
            "Secret from which all others are derived, instead of the one in the data directory; if there are several, the first makes new credentials, and credentials made with any of them are accepted."
        ),
        setting("storage", \.storage, .choice, "Where the bytes of uploads are stored."),
        setting("durability", \.durability, .choice, "When bytes are forced to stable storage."),
        setting("tls.certificate", \.tls.certificate, optional: .path, "PEM file with the certificate and its chain."),
        setting("tls.key", \.tls.key, optional: .path, "PEM file with the private key of the certificate."),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let tls = settings.general.tls
        demands.pair("tls.certificate", tls.certificate != nil, "tls.key", tls.key != nil)
    }
}

extension Settings {
    package var general: GeneralSettings {
        get { self[GeneralSettings.self] }
        set { self[GeneralSettings.self] = newValue }
    }
}

extension SettingFormat where Value == MasterSecret {
    package static let masterSecret = SettingFormat(
        allowed:
            "base64 of at least 32 random bytes, such as the output of `openssl rand -base64 32`; up to 8 different ones, separated by commas, while it is rotated",
        isList: true,
        parse: { MasterSecret(text: $0) },
        render: { $0.text }
    )
}
