internal import Dispatch
internal import Foundation
internal import Logging
internal import Synchronization

/// Where log lines go: standard error, gathered for at most a tenth of a second, so that a line costs no system call.
final class LogSink: Sendable {
    private struct State {
        var pending: [UInt8] = []
        var isScheduled = false
    }

    private let state = Mutex(State())
    private let descriptor: Int32
    private let queue = DispatchQueue(label: "sluice.log")

    init(descriptor: Int32 = 2) { self.descriptor = descriptor }

    /// Takes one line, with or without its line feed.
    func append(_ line: String, isUrgent: Bool) {
        let mustSchedule = state.withLock { state in
            state.pending.append(contentsOf: line.utf8)
            if state.pending.last != 10 { state.pending.append(10) }
            if isUrgent || state.pending.count > 1 << 20 { return false }
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isUrgent {
            flush()
        } else if mustSchedule {
            queue.asyncAfter(deadline: .now() + .milliseconds(100)) { [self] in writePending() }
        }
    }

    /// Writes what was gathered, and returns when that is done.
    func flush() {
        queue.sync { writePending() }
    }

    /// On `queue`, so that lines keep their order.
    private func writePending() {
        let bytes = state.withLock { state in
            defer {
                state.pending = []
                state.isScheduled = false
            }
            return state.pending
        }
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                write(descriptor, buffer.baseAddress.map { $0 + offset }, bytes.count - offset)
            }
            // A log that can not be written must not stop what it tells of.
            if count <= 0, errno != EINTR { return }
            offset += max(0, count)
        }
    }
}

/// Log lines as JSON objects, or as text.
struct LineLogHandler: LogHandler {
    let label: String
    let sink: LogSink
    let isJSON: Bool
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = event.metadata.map { metadata.merging($0) { _, new in new } } ?? metadata
        let line: String
        let time = JSONAnswer.timestamp(Date())
        if isJSON {
            var text = JSONText(capacity: 256)
            text.member("time", time)
            text.member("level", event.level.rawValue)
            text.member("message", event.message.description)
            for (key, value) in all.sorted(by: { $0.key < $1.key }) { text.member(key, value.description) }
            line = String(decoding: text.finish(), as: UTF8.self)
        } else {
            let fields = all.sorted { $0.key < $1.key }.map { " \($0.key)=\(Self.oneLine($0.value.description))" }
            line = "\(time) \(event.level) \(Self.oneLine(event.message.description))" + fields.joined()
        }
        sink.append(line, isUrgent: event.level >= .warning)
    }

    private static func oneLine(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 ? " " : $0 }))
    }
}
