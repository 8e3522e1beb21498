import Foundation
import HTTPWire
import Logging
import MetricsKit
import Synchronization
import Testing
import Tracing

@testable import HTTPServer
@testable import Telemetry

@Suite("The line of the log for a request", .timeLimit(.minutes(10)))
struct RequestLineTests {
    /// Keeps the metadata of the last line, as JSON.
    private final class Kept: LogHandler, Sendable {
        let line = Mutex("")
        private let level: Logger.Level

        init(_ level: Logger.Level) { self.level = level }

        var logLevel: Logger.Level {
            get { level }
            set {}
        }

        var metadata: Logger.Metadata {
            get { [:] }
            set {}
        }

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { nil }
            set {}
        }

        func log(event: LogEvent) {
            line.withLock {
                $0 = LineLogHandler.line(event.level, event.message.description, event.metadata ?? [:], isJSON: true)
            }
        }
    }

    private func line(at level: Logger.Level = .info, _ change: (inout Response.Trace) -> Void) throws -> [String: Any]
    {
        let kept = Kept(level)
        let observation = Observation(
            metrics: MetricsRegistry(),
            logger: Logger(label: "test") { _ in kept }
        )
        var trace = Response.Trace()
        change(&trace)
        observation.requestFinished(
            RequestSummary(
                id: "r-1",
                method: .patch,
                status: 204,
                trace: trace,
                bytesReceived: 5,
                bytesSent: 0,
                duration: .microseconds(2113),
                peerAddress: "192.0.2.1",
                isBroken: false,
                refusal: nil
            )
        )
        let text = kept.line.withLock { $0 }
        if text.isEmpty { return [:] }
        return try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    @Test("all that is known is there, and numbers are numbers")
    func everything() throws {
        let note = RequestNote()
        note.identify(key: "key_1", subject: "dora")
        let line = try line { trace in
            trace.route = "/files/{upload}"
            trace.dialect = .tus
            trace.note(upload: "01jd3v0m5xq4n8e2r7t9w6y1zk", isMedia: true)
            trace.errorCode = "gone"
            trace.clientAddress = "192.0.2.9"
            trace.note = note
        }
        let texts = [
            "request": "r-1", "method": "PATCH", "route": "/files/{upload}", "dialect": "tus", "code": "gone",
            "upload": "01jd3v0m5xq4n8e2r7t9w6y1zk", "media": "01jd3v0m5xq4n8e2r7t9w6y1zk", "key": "key_1",
            "subject": "dora", "client": "192.0.2.9", "peer": "192.0.2.1", "level": "info", "message": "request",
        ]
        for (name, value) in texts { #expect(line[name] as? String == value, "\(name)") }
        #expect(line["status"] as? Int == 204 && line["in"] as? Int == 5 && line["out"] as? Int == 0)
        #expect(line["ms"] as? Double == 2.113)
        #expect(Set(line.keys) == Set(texts.keys).union(["status", "in", "out", "ms", "time"]))
    }

    @Test("what is not known is left out")
    func nothing() throws {
        let line = try line { $0.note(upload: "u", isMedia: false) }
        #expect(line["upload"] as? String == "u")
        for name in ["dialect", "media", "route", "key", "subject", "code", "client"] { #expect(line[name] == nil) }
    }

    @Test("nothing is written above the level info")
    func silent() throws { #expect(try line(at: .notice) { $0.dialect = .tus }.isEmpty) }

    @Test("dialects of uploads are called as in their records")
    func names() {
        let names = Response.Trace.Dialect.allCases.map(\.rawValue)
        for name in ["tus", "http", "form", "s3", "oss", "cos", "vimeo"] { #expect(names.contains(name)) }
    }
}
