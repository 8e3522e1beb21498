package import SettingsKit

/// Vimeo's API.
package struct VimeoSettings: SettingsSection {
    package var mode = Mode.relay
    /// Of the account; only in `direct` mode.
    package var accessToken: Secret<String>?
    /// `nil` for that of Vimeo.
    package var endpoint: String?
    package var pollInterval = Duration.seconds(10)
    package var uploadLifetime = Duration.seconds(7 * 86_400)
    package var callsPerMinute = 600

    package enum Mode: String, Sendable, CaseIterable {
        /// Videos are kept here.
        case relay
        /// Videos are created at Vimeo with the account's token, and bytes go there.
        case direct
    }

    package init() {}

    package static let table: [Setting] = [
        setting(
            "vimeo.mode",
            \.mode,
            .choice,
            "Whether videos of Vimeo's API are kept here, or created at Vimeo in the account of vimeo.accessToken."
        ),
        setting(
            "vimeo.accessToken",
            \.accessToken,
            secret: .visible(minimum: 1),
            "Access token of the account at Vimeo for direct mode, with the scopes public, private, edit, upload and delete."
        ),
        setting(
            "vimeo.endpoint",
            \.endpoint,
            optional: .origin,
            "URL of Vimeo's API for direct mode; if not set, https://api.vimeo.com."
        ),
        setting(
            "vimeo.pollInterval",
            \.pollInterval,
            .duration(.seconds(1) ... .seconds(3600)),
            "How long after its creation a video in direct mode is looked at for the first time; later looks are rarer."
        ),
        setting(
            "vimeo.uploadLifetime",
            \.uploadLifetime,
            .duration(.seconds(60) ... .seconds(31_536_000)),
            "How long videos without content and tickets of Vimeo's API are kept at least; iOS sends in the background for up to 7 days."
        ),
        setting(
            "vimeo.callsPerMinute",
            \.callsPerMinute,
            .count(1...1_000_000),
            "Calls of Vimeo's API in a minute for each user; content does not count."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let vimeo = settings.vimeo
        demands.demand(
            vimeo.mode == .relay || vimeo.accessToken != nil,
            "vimeo.accessToken",
            because: "vimeo.mode",
            "must be set, because vimeo.mode is direct"
        )
        for (name, isSet) in [
            ("vimeo.endpoint", vimeo.endpoint != nil), ("vimeo.accessToken", vimeo.accessToken != nil),
        ] {
            demands.demand(
                !isSet || vimeo.mode == .direct,
                "vimeo.mode",
                because: name,
                "must be direct, because \(name) is set"
            )
        }
    }
}

extension Settings {
    package var vimeo: VimeoSettings {
        get { self[VimeoSettings.self] }
        set { self[VimeoSettings.self] = newValue }
    }
}
