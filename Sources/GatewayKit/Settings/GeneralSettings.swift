package import HTTPWire
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
    package var trustedProxies: [PeerRange] = []
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
        /// Whether trusted proxies begin each connection with a header of the PROXY protocol.
        package var expectsProxyHeader = false
        /// The path below which the gateway is served; `nil` for the root.
        package var basePath: BasePath?
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

    /// Paths of PEM files.
    package struct TLS: Sendable, Equatable {
        package var certificates: [String] = []
        /// As many, in the same order.
        package var keys: [String] = []
        /// `nil` asks clients for no certificate.
        package var clientAuthorities: String?

        package var certificate: String? { certificates.first }
        package var key: String? { keys.first }
        package var files: [TLSFiles] { zip(certificates, keys).map { TLSFiles(certificate: $0, key: $1) } }
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
            "gateway.proxyProtocol",
            \.gateway.expectsProxyHeader,
            .flag,
            "Whether trusted proxies begin each connection with a header of the PROXY protocol (version 1 or 2), which names the client; other peers may not send one."
        ),
        setting(
            "gateway.basePath",
            \.gateway.basePath,
            .basePath,
            "Path below which everything is served and all URLs in responses are, for a proxy that passes it on; /healthz, /readyz and /metrics are at the root, too."
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
            .peers,
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
        setting(
            "tls.certificate",
            \.tls.certificates,
            .paths,
            "PEM files, each with a certificate and its chain; a client gets the first one with the host name that it asks for, otherwise the first."
        ),
        setting(
            "tls.key",
            \.tls.keys,
            .paths,
            "PEM files with the private keys of the certificates, in the same order."
        ),
        setting(
            "tls.clientAuthorities",
            \.tls.clientAuthorities,
            optional: .path,
            "PEM file of the certificate authorities whose certificates clients need; if not set, clients need none."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let tls = settings.general.tls
        demands.pair("tls.certificate", tls.certificate != nil, "tls.key", tls.key != nil)
        demands.demand(
            tls.certificates.count == tls.keys.count || tls.certificates.isEmpty || tls.keys.isEmpty,
            "tls.key",
            because: "tls.certificate",
            "must name \(tls.certificates.count) files, one for each certificate"
        )
        demands.demand(
            tls.clientAuthorities == nil || settings.servesTLS,
            "tls.certificate",
            because: "tls.clientAuthorities",
            "must be set too, because tls.clientAuthorities is"
        )
        demands.demand(
            !settings.general.gateway.expectsProxyHeader || !settings.general.trustedProxies.isEmpty,
            "trustedProxies",
            because: "gateway.proxyProtocol",
            "must name the proxies, because gateway.proxyProtocol is true"
        )
    }
}

extension Settings {
    package var general: GeneralSettings {
        get { self[GeneralSettings.self] }
        set { self[GeneralSettings.self] = newValue }
    }
}

extension SettingFormat where Value == BasePath? {
    package static let basePath = SettingFormat(
        allowed: "a path such as /uploads, with letters, digits, slashes and - . _ ~; / means no base path",
        parse: { text in text == "/" ? .some(nil) : BasePath(text).map { .some($0) } },
        render: { $0?.description }
    )
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
