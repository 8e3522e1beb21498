package import Logging
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

    /// A logger to standard error, and its sink, which is to be flushed at the end.
    package func makeLogger() -> (logger: Logger, sink: LogSink) {
        let isJSON = format == .json
        let sink = LogSink { LineLogHandler.lossLine($0, isJSON: isJSON) }
        let level = Logger.Level(rawValue: level.rawValue) ?? .info
        let logger = Logger(label: "sluice") { label in
            LineLogHandler(label: label, sink: sink, isJSON: isJSON, logLevel: level)
        }
        return (logger, sink)
    }

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
