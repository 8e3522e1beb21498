import Foundation
import HTTPWire
import Logging
import MetricsKit
import SluiceTesting
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

    /// A request with some of the fields, of which texts have anything that a client can choose.
    private static func summary(_ random: inout SeededGenerator) -> RequestSummary {
        let pieces = [
            "a", "/files/{upload}", "\"", "\\", "\n", "\u{0}", "\u{1f}", " ", "=", "ü", "\u{1F600}", "\u{7f}", "\u{85}",
        ]
        func text() -> String {
            (0..<Int.random(in: 0..<8, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
        }
        func optional() -> String? { Bool.random(using: &random) ? text() : nil }
        var trace = Response.Trace(route: optional(), uploadID: optional(), errorCode: optional())
        trace.mediaID = optional()
        trace.clientAddress = optional()
        trace.dialect = [.tus, .management, Response.Trace.Dialect(text())].randomElement(using: &random)
        if Bool.random(using: &random) {
            let note = RequestNote()
            note.identify(key: optional(), subject: optional())
            trace.note = note
        }
        return RequestSummary(
            id: text(),
            method: optional().map(HTTPMethod.init(rawValue:)),
            status: Status(Int.random(in: 100..<600, using: &random)),
            trace: trace,
            bytesReceived: [0, 5, 1_000_000, .max].randomElement(using: &random) ?? 0,
            bytesSent: Int64.random(in: 0...(.max), using: &random),
            duration: .microseconds(Int64.random(in: 0...10_000_000, using: &random)),
            peerAddress: text(),
            isBroken: Bool.random(using: &random),
            refusal: Bool.random(using: &random) ? String(repeating: text(), count: 500) : nil
        )
    }

    @Test("a line that is written as bytes is that of the metadata", arguments: 1...200)
    func bytes(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let summary = Self.summary(&random)
        var fields = MetadataFields()
        summary.describe(to: &fields)
        let expected = LineLogHandler.line(.info, "request", fields.metadata, isJSON: true)
        var found = ""
        JSONLine.withBytes(of: summary, at: timespec()) { found = String(decoding: $0, as: UTF8.self) }
        // The time has the same length in both.
        let time = "{\"time\":\"1970-01-01T00:00:00.000Z\","
        #expect(found.hasPrefix(time))
        #expect(found.utf8.dropFirst(time.utf8.count).elementsEqual(expected.utf8.dropFirst(time.utf8.count)))
    }

    @Test(
        "its time is that of RFC 3339",
        arguments: [
            (951_827_696, 7_999_999, "2000-02-29T12:34:56.007Z"),
            (1_796_169_096, 952_000_000, "2026-12-01T23:51:36.952Z"),
            (4_102_444_799, 999_999_999, "2099-12-31T23:59:59.999Z"),
        ]
    )
    func time(seconds: Int, nanoseconds: Int, text: String) {
        var random = SeededGenerator(seed: 1)
        var line = ""
        JSONLine.withBytes(of: Self.summary(&random), at: timespec(tv_sec: seconds, tv_nsec: nanoseconds)) {
            line = String(decoding: $0, as: UTF8.self)
        }
        #expect(line.hasPrefix("{\"time\":\"\(text)\",\"level\":\"info\",\"message\":\"request\","))
    }

    @Test("a logger of lines gets them, as JSON and as text", arguments: [true, false])
    func written(isJSON: Bool) async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path + "/log"
        let file = open(path, O_WRONLY | O_CREAT, 0o600)
        try #require(file >= 0)
        defer { close(file) }
        let sink = LogSink(descriptor: file)
        let logger = Logger(label: "test") { label in
            LineLogHandler(label: label, sink: sink, isJSON: isJSON, level: LogLevel(.info))
        }
        let observation = Observation(metrics: MetricsRegistry(), logger: logger)
        var random = SeededGenerator(seed: 2)
        for _ in 0..<3 { observation.requestFinished(Self.summary(&random)) }
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                sink.flush(within: .seconds(60))
                continuation.resume()
            }
        }
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        #expect(lines.count == 3)
        for line in lines {
            #expect(line.contains(isJSON ? "\"message\":\"request\"" : " info request "))
            if isJSON { _ = try JSONSerialization.jsonObject(with: Data(line.utf8)) }
        }
    }

    @Test("dialects of uploads are called as in their records")
    func names() {
        let dialects: [Response.Trace.Dialect] = [.tus, .http, .form, .s3, .oss, .cos]
        #expect(dialects.map(\.name) == ["tus", "http", "form", "s3", "oss", "cos"])
    }
}
