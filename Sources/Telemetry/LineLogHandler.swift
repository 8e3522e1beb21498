internal import Bytes
internal import Foundation
package import Logging
internal import RESTKit
internal import Tracing

/// Writes log lines as JSON objects or as text.
package struct LineLogHandler: LogHandler {
    package let label: String
    package let sink: LogSink
    package let isJSON: Bool
    package var metadata: Logger.Metadata = [:]
    private let level: LogLevel
    /// Set for one logger only.
    private var ownLevel: Logger.Level?

    package init(label: String, sink: LogSink, isJSON: Bool, level: LogLevel) {
        self.label = label
        self.sink = sink
        self.isJSON = isJSON
        self.level = level
    }

    /// For lines of JSON that are ready; `nil` if a line has another form, or fields of this logger besides.
    var sinkOfLines: LogSink? { isJSON && metadata.isEmpty ? sink : nil }

    package var logLevel: Logger.Level {
        get { ownLevel ?? level.current }
        set { ownLevel = newValue }
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var all = event.metadata.map { metadata.merging($0) { _, new in new } } ?? metadata
        if let scope = TraceScope.current { all["trace_id"] = "\(scope.context.traceID)" }
        let line = Self.line(event.level, event.message.description, all, isJSON: isJSON)
        sink.append(line, isUrgent: event.level >= .warning)
    }

    /// One line of the log, without its line feed.
    package static func line(_ level: Logger.Level, _ message: String, _ metadata: Logger.Metadata, isJSON: Bool)
        -> String
    {
        let time = JSONResponse.timestamp(Date())
        if isJSON {
            // A line of a request about media has 280 bytes and more.
            var text = JSONObjectWriter(capacity: 384)
            text.member("time", time)
            text.member("level", level.rawValue)
            text.member("message", message)
            for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
                if case .stringConvertible(let number as LogNumber) = value {
                    text.member(key, json: number.description)
                } else {
                    text.member(key, value.description)
                }
            }
            return text.text()
        }
        let fields = metadata.sorted { $0.key < $1.key }.map {
            " \($0.key)=\(TerminalText.quoted($0.value.description))"
        }
        return "\(time) \(level) \(TerminalText.escaped(message))" + fields.joined()
    }

    /// Reports log lines that were lost because the reader was too slow.
    package static func lossLine(_ count: UInt64, isJSON: Bool) -> String {
        line(.warning, "\(count) log lines were lost", ["lost": .number(count)], isJSON: isJSON)
    }
}
