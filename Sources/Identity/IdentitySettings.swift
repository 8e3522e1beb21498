internal import HTTPClient
package import ObjectGrants
internal import ObjectGateway
package import SettingsKit

/// The identity provider whose users get credentials for the object endpoint with a token (OpenID Connect).
package struct IdentitySettings: SettingsSection {
    /// The issuer in tokens; `nil` disables it.
    package var issuer: String?
    /// A token must contain one of them.
    package var audiences: [String] = []
    /// `nil` uses the URL in the issuer's configuration.
    package var keysURL: String?
    package var authorities: String?
    /// As clients name it; `nil` uses the first of `object.buckets`.
    package var bucket: String?
    package var keyPrefix = IdentityKeyPrefix.default
    package var actions: Set<SessionAction> = [.upload]
    package var maximumBytes: Int64?
    package var maximumLifetime = Duration.seconds(12 * 3600)

    package init() {}

    package static let table: [Setting] = [
        setting(
            "identity.issuer",
            \.issuer,
            optional: .identityURL,
            "Identity provider (OpenID Connect) whose users get credentials for the object endpoint by AssumeRoleWithWebIdentity."
        ),
        setting(
            "identity.audience",
            \.audiences,
            .texts("names separated by commas") { !$0.isEmpty && $0.utf8.count <= 255 },
            "The apps whose tokens are accepted, as the provider names them: a token must be for one of them."
        ),
        setting(
            "identity.jwksUrl",
            \.keysURL,
            optional: .identityURL,
            "URL of the provider's keys; if not set, the one in its /.well-known/openid-configuration."
        ),
        setting(
            "identity.authorities",
            \.authorities,
            optional: .path,
            "PEM file of the certificate authorities that are trusted for the provider, instead of those of the system."
        ),
        setting(
            "identity.bucket",
            \.bucket,
            optional: .bucket,
            "Bucket that the provider's users may use; if not set, the first of object.buckets."
        ),
        setting(
            "identity.keyPrefix",
            \.keyPrefix,
            .identityKeyPrefix,
            "Prefix of the keys that a user may use, made of claims of the token, in which slashes and most other special characters are percent-encoded."
        ),
        setting("identity.actions", \.actions, .names(), "What the provider's users may do with these keys."),
        setting(
            "identity.maximumBytes",
            \.maximumBytes,
            optional: .bytes(0...Int64.max),
            "Largest upload of the provider's users, if smaller than that of others."
        ),
        setting(
            "identity.maximumLifetime",
            \.maximumLifetime,
            .duration(.seconds(60) ... .seconds(12 * 3600)),
            "Longest lifetime of such credentials, which may exceed that of the token."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let identity = settings.identity
        demands.pair(
            "identity.issuer",
            identity.issuer != nil,
            "identity.audience",
            !identity.audiences.isEmpty
        )
        demands.demand(
            identity.issuer == nil || identity.bucket != nil || !settings.object.buckets.isEmpty,
            "identity.bucket",
            because: "object.buckets",
            "must be set, because identity.issuer is and object.buckets names none"
        )
    }
}

extension Settings {
    package var identity: IdentitySettings {
        get { self[IdentitySettings.self] }
        set { self[IdentitySettings.self] = newValue }
    }
}

extension SettingFormat where Value == IdentityKeyPrefix {
    package static let identityKeyPrefix = SettingFormat(
        allowed:
            "visible ASCII characters with names of claims in braces, a slash at the end and not at the beginning, such as {sub}/ or team/{email}/",
        parse: { IdentityKeyPrefix($0) },
        render: { $0.text }
    )
}

extension SettingFormat where Value == String {
    package static let identityURL = SettingFormat(
        allowed: "an https URL without user, query and fragment, or an http URL on this machine",
        parse: { text in
            guard let url = WebAddress(text), url.shown == url.text, !text.contains("#"), IdentityURL.isSafe(text)
            else {
                return nil
            }
            return text
        },
        render: { $0 }
    )
}
