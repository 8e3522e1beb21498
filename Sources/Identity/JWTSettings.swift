package import SettingsKit

/// Issuers of JSON Web Tokens that admit app users to uploads and to the REST API.
package struct JWTSettings: SettingsSection {
    package var issuers = UserIssuerList.none

    package init() {}

    package static let table: [Setting] = [
        setting(
            "jwt.issuers",
            \.issuers,
            .userIssuers,
            "Issuers whose tokens (JWT) admit app users to /files, /v1/media, event streams and minting, each with its audience, keys, scopes and limits."
        )
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        for problem in settings.jwt.issuers.problems {
            demands.demand(false, "jwt.issuers" + problem.place, because: "jwt.issuers", problem.message)
        }
    }
}

extension Settings {
    package var jwt: JWTSettings {
        get { self[JWTSettings.self] }
        set { self[JWTSettings.self] = newValue }
    }
}

extension SettingFormat where Value == UserIssuerList {
    package static let userIssuers = SettingFormat(
        allowed:
            "a list of at most 20 issuers, in YAML or JSON, such as [{\"issuer\": \"https://login.example.com\", \"audience\": \"app\"}]; docs/identity.md lists the members",
        isStructured: true,
        parse: { UserIssuerReader.list(in: $0) },
        render: { $0.text.isEmpty ? nil : $0.text }
    )
}
