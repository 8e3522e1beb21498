import HTTPWire
import MetricsKit
import Testing
import Tracing

@testable import HTTPServer
@testable import Telemetry

@Suite("Traces beside durations of requests", .timeLimit(.minutes(10)))
struct ExemplarTests {
    private let metrics = MetricsRegistry()

    private func finish(_ scope: TraceScope?) {
        var trace = Response.Trace(route: "uploads")
        trace.scope = scope
        RequestMetrics(metrics).requestFinished(
            RequestSummary(
                id: "r-1",
                method: .get,
                status: 200,
                trace: trace,
                bytesReceived: 0,
                bytesSent: 0,
                duration: .milliseconds(3),
                peerAddress: "192.0.2.1",
                isBroken: false,
                refusal: nil
            )
        )
    }

    @Test("a sampled request leaves its trace in its bucket")
    func sampled() {
        let scope = Tracer(sampleRatio: 1, metrics: metrics).scope(continuing: nil)
        finish(scope)
        let bucket = "sluice_http_request_duration_seconds_bucket{route=\"uploads\",le=\"0.005\"} 1 # "
        let trace = "{trace_id=\"\(scope.context.traceID)\",span_id=\"\(scope.context.spanText)\"} 0.003 "
        #expect(metrics.text(.openMetrics).contains(bucket + trace))
    }

    @Test("others leave none", arguments: [true, false])
    func others(hasScope: Bool) {
        finish(hasScope ? Tracer(sampleRatio: 0, metrics: metrics).scope(continuing: nil) : nil)
        #expect(!metrics.text(.openMetrics).contains("trace_id"))
        #expect(metrics.text().contains("sluice_http_request_duration_seconds_count{route=\"uploads\"} 1\n"))
    }
}
