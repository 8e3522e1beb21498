package import SettingsKit

package struct LogSettings: SettingsSection {
    package var level = Level.info
    package var format = Format.json

    /// The names are those of swift-log.
    package enum Level: String, Sendable, CaseIterable {
        case trace, debug, info, notice, warning, error, critical
    }

    package enum Format: String, Sendable, CaseIterable {
        case json, text
    }

    package init() {}

    package static let table: [Setting] = [
        setting("log.level", \.level, .choice, "The least important messages that are logged."),
        setting("log.format", \.format, .choice, "One JSON object or one line of text for each message."),
    ]
}

extension Settings {
    package var log: LogSettings {
        get { self[LogSettings.self] }
        set { self[LogSettings.self] = newValue }
    }
}
