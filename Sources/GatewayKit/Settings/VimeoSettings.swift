package import SettingsKit

/// Vimeo's API.
package struct VimeoSettings: SettingsSection {
    package var uploadLifetime = Duration.seconds(7 * 86_400)
    package var callsPerMinute = 600

    package init() {}

    package static let table: [Setting] = [
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
}

extension Settings {
    package var vimeo: VimeoSettings {
        get { self[VimeoSettings.self] }
        set { self[VimeoSettings.self] = newValue }
    }
}
