internal import HTTPClient
package import SettingsKit
package import Transport

/// Certificates that the gateway gets and renews itself, from an authority that speaks ACME (RFC 8555).
package struct ACMESettings: SettingsSection {
    /// In lower case; without any, no certificate is ordered.
    package var domains: [String] = []
    /// URL of the authority's directory.
    package var directory = "https://acme-v02.api.letsencrypt.org/directory"
    package var email: String?
    package var authorities: String?
    package var challenge = Challenge.tlsALPN
    /// Only with `http-01`.
    package var httpListen = ListenAddress(host: "0.0.0.0", port: 80)
    package var bindingKeyID: String?
    package var bindingKey: Secret<String>?

    /// How the authority validates that a name is that of this gateway.
    package enum Challenge: String, Sendable, CaseIterable {
        /// RFC 8737.
        case tlsALPN = "tls-alpn-01"
        /// RFC 8555 §8.3.
        case http = "http-01"
    }

    /// Authorities accept at most this many names in a certificate.
    private static let maximumDomains = 100

    package init() {}

    package static let table: [Setting] = [
        setting(
            "acme.domains",
            \.domains,
            .domains,
            "Host names of this gateway, for which it gets one certificate from a certificate authority, and renews it; if not set, it orders none. Whoever sets it agrees to the authority's terms of service."
        ),
        setting(
            "acme.directory",
            \.directory,
            .directory,
            "URL of the certificate authority's directory (ACME); the default is Let's Encrypt."
        ),
        setting(
            "acme.email",
            \.email,
            optional: .email,
            "Where the certificate authority can reach the operator."
        ),
        setting(
            "acme.authorities",
            \.authorities,
            optional: .path,
            "PEM file of the certificate authorities that are trusted for the directory's own TLS, instead of those of the system."
        ),
        setting(
            "acme.challenge",
            \.challenge,
            .choice,
            "How the certificate authority validates the names: by a TLS handshake with port 443, or by an HTTP request to port 80."
        ),
        setting(
            "acme.httpListen",
            \.httpListen,
            .listenAddress,
            "Address of the listener for http-01, which serves nothing else; the certificate authority connects to port 80 of each name."
        ),
        setting(
            "acme.eabKeyId",
            \.bindingKeyID,
            optional: .visible(minimum: 1),
            "Name of the key that binds the account to one that the certificate authority knows (external account binding)."
        ),
        setting("acme.eabKey", \.bindingKey, secret: .bindingKey, "The key that acme.eabKeyId names."),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let acme = settings.acme
        demands.pair("acme.eabKeyId", acme.bindingKeyID != nil, "acme.eabKey", acme.bindingKey != nil)
        demands.demand(
            acme.domains.count <= maximumDomains,
            "acme.domains",
            because: "acme.domains",
            "may name at most \(maximumDomains), because they are in one certificate"
        )
        demands.demand(
            acme.isOn || acme.bindingKeyID == nil && acme.email == nil && acme.authorities == nil,
            "acme.domains",
            because: acme.bindingKeyID != nil ? "acme.eabKeyId" : acme.email != nil ? "acme.email" : "acme.authorities",
            "must name the hosts, because another setting of acme is set"
        )
    }

    /// Whether the gateway gets a certificate itself.
    package var isOn: Bool { !domains.isEmpty }

    /// Where an authority's account and certificate are kept, below the data directory: a folder for each authority.
    package func folder(in dataDirectory: String) -> String {
        var name = directory.dropFirst("https://".count).utf8.map { byte in
            let isPlain =
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                || byte == UInt8(ascii: ".")
            return isPlain ? byte : UInt8(ascii: "-")
        }.prefix(200)
        if name.first == UInt8(ascii: ".") { name[0] = UInt8(ascii: "-") }
        return dataDirectory + "/acme/" + String(decoding: name, as: UTF8.self)
    }
}

extension Settings {
    package var acme: ACMESettings {
        get { self[ACMESettings.self] }
        set { self[ACMESettings.self] = newValue }
    }

    /// Whether the listeners speak TLS.
    package var servesTLS: Bool { general.tls.certificate != nil || acme.isOn }

    /// The certificate that the gateway gets itself: chain and key in one file, so that a renewal replaces both at once.
    ///
    /// `nil` if it gets none.
    package var keptCertificate: TLSFiles? {
        guard acme.isOn else { return nil }
        let path = acme.folder(in: general.dataDirectory) + "/certificate.pem"
        return TLSFiles(certificate: path, key: path)
    }
}

extension SettingFormat where Value == [String] {
    fileprivate static let domains = SettingFormat(
        allowed: "host names separated by commas, such as uploads.example.com; no addresses, and none with *",
        isList: true,
        parse: { text in
            let names = ListText.parse(text, empty: []) { isHostName($0) ? $0.lowercased() : nil }
            return names.flatMap { Set($0).count == $0.count ? $0 : nil }
        },
        render: { $0.isEmpty ? nil : $0.joined(separator: ", ") }
    )

    /// RFC 1123 §2.1; as a certificate has it, without a dot at the end.
    private static func isHostName(_ text: String) -> Bool {
        let labels = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return text.utf8.count <= 253
            && labels.allSatisfy { label in
                let isPlain = label.allSatisfy { byte in
                    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                        || byte == UInt8(ascii: "-")
                }
                let hyphen = UInt8(ascii: "-")
                return isPlain && (1...63).contains(label.count) && label.first != hyphen && label.last != hyphen
            }
            // Otherwise it is an address.
            && labels.last.map { !$0.allSatisfy { (0x30...0x39).contains($0) } } == true
    }
}

extension SettingFormat where Value == String {
    fileprivate static let directory = SettingFormat(
        allowed: "an https URL without user, query and fragment, such as https://ca.example.com/acme/directory",
        parse: { text in
            guard let url = WebAddress(text), url.shown == url.text, !text.contains("#"), text.hasPrefix("https://")
            else { return nil }
            return text
        },
        render: { $0 }
    )

    fileprivate static let email = SettingFormat(
        allowed: "an email address, such as ops@example.com",
        parse: { text in
            let parts = text.split(separator: "@", omittingEmptySubsequences: false)
            let isPlain = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"\"<>,;:()[]\\?&#%".utf8.contains($0) }
            return parts.count == 2 && parts.allSatisfy { !$0.isEmpty } && isPlain && text.utf8.count <= 254
                ? text : nil
        },
        render: { $0 }
    )

    fileprivate static let bindingKey = SettingFormat(
        allowed: "base64url of at least 16 bytes, as the authority gives it",
        parse: { text in
            let isPlain = text.utf8.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                    || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
            }
            return isPlain && text.utf8.count >= 22 && text.utf8.count % 4 != 1 ? text : nil
        },
        render: { $0 }
    )
}
