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

    /// A logger to standard error, its sink, which is to be flushed at the end, and its level.
    package func makeLogger() -> (logger: Logger, sink: LogSink, level: LogLevel) {
        let isJSON = format == .json
        let sink = LogSink { LineLogHandler.lossLine($0, isJSON: isJSON) }
        let level = LogLevel(loggerLevel)
        let logger = Logger(label: "sluice") { label in
            LineLogHandler(label: label, sink: sink, isJSON: isJSON, level: level)
        }
        return (logger, sink, level)
    }

    package var loggerLevel: Logger.Level { Logger.Level(rawValue: level.rawValue) ?? .info }

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
