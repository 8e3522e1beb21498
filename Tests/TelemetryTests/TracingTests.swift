import Foundation
import MetricsKit
import Testing
import Tracing

@testable import Telemetry

@Suite("Traces", .timeLimit(.minutes(10)))
struct TracingTests {
    private static let trace = "0af7651916cd43dd8448eb211c80319c"
    private static let span = "b7ad6b7169203331"
    private let metrics = MetricsRegistry()

    @Test("traceparent is read and written")
    func parent() throws {
        let text = "00-\(Self.trace)-\(Self.span)-01"
        let context = try #require(TraceContext(parent: text, state: "a=b,c=d"))
        #expect(context.parent == text)
        #expect(context.isSampled)
        #expect(context.fields.map(\.value) == [text, "a=b,c=d"])
        let child = context.child()
        #expect(child.traceID == Self.trace)
        #expect(child.spanText != Self.span)
        #expect(child.isSampled)
        #expect(try #require(TraceContext(parent: "00-\(Self.trace)-\(Self.span)-02")).isSampled == false)
    }

    @Test(
        "malformed fields begin a new trace",
        arguments: [
            "", "00", "00-\(trace)-\(span)", "00-\(trace)-\(span)-1", "00-\(trace)-\(span)-01-a",
            "00-\(trace.uppercased())-\(span)-01", "ff-\(trace)-\(span)-01", "00-\(trace)-0000000000000000-01",
            "00-00000000000000000000000000000000-\(span)-01", "00_\(trace)-\(span)-01", "00-\(trace)-\(span)-0g",
        ]
    )
    func malformed(_ text: String) { #expect(TraceContext(parent: text) == nil) }

    @Test("later versions may have more after the flags")
    func laterVersion() {
        #expect(TraceContext(parent: "01-\(Self.trace)-\(Self.span)-01-more")?.isSampled == true)
        #expect(TraceContext(parent: "01-\(Self.trace)-\(Self.span)-01more") == nil)
    }

    @Test(
        "a tracestate that is too long or cannot be sent is left out",
        arguments: ["a\r\nb", String(repeating: "a", count: 513)]
    )
    func state(_ state: String) throws {
        let context = try #require(TraceContext(parent: "00-\(Self.trace)-\(Self.span)-01", state: state))
        #expect(context.state.isEmpty)
        #expect(context.fields.count == 1)
    }

    @Test("the ratio decides about new traces, the parent about others")
    func sampling() throws {
        func sampled(_ ratio: Double) -> Int {
            let tracer = Tracer(sampleRatio: ratio, metrics: MetricsRegistry())
            return (0..<2000).count { _ in tracer.scope(continuing: nil).context.isSampled }
        }
        #expect(sampled(0) == 0)
        #expect(sampled(1) == 2000)
        // 25 standard deviations on either side.
        #expect((100...900).contains(sampled(0.25)))
        let tracer = Tracer(sampleRatio: 0, metrics: metrics)
        let parent = try #require(TraceContext(parent: "00-\(Self.trace)-\(Self.span)-01"))
        let scope = tracer.scope(continuing: parent)
        #expect(scope.context.isSampled)
        #expect(TraceContext.text(scope.parentID) == Self.span)
    }

    @Test("the queue is bounded; what does not fit is counted")
    func queue() {
        let tracer = Tracer(sampleRatio: 1, metrics: metrics)
        let scope = tracer.scope(continuing: nil)
        for _ in 0..<Tracer.capacity + 3 { scope.end("a", .work) }
        #expect(tracer.waiting == Tracer.capacity)
        #expect(metrics.text().contains("sluice_trace_spans_dropped_total{reason=\"queue_full\"} 3\n"))
        #expect(tracer.take().count == Tracer.batch)
        #expect(tracer.waiting == Tracer.capacity - Tracer.batch)
    }

    @Test("spans that are not sampled are not recorded")
    func unsampled() {
        let tracer = Tracer(sampleRatio: 0, metrics: metrics)
        let scope = tracer.scope(continuing: nil)
        scope.end("a", .work)
        scope.child().end("b", .client)
        #expect(tracer.waiting == 0)
    }

    @Test("header fields of the collector", arguments: ["a", "a b=c", "a=%0a", "a=%zz"])
    func badFields(_ text: String) { #expect(CollectorFields.parse(text) == nil) }

    @Test("header fields are decoded")
    func fields() throws {
        let fields = try #require(CollectorFields.parse("authorization=Bearer%20a=, x-b = c"))
        #expect(fields.map(\.name) == ["authorization", "x-b"])
        #expect(fields.map(\.value) == ["Bearer a=", "c"])
    }

    @Test("texts are escaped")
    func escaping() throws {
        let tracer = Tracer(sampleRatio: 1, metrics: metrics)
        tracer.scope(continuing: nil).end("a\"b", .server, [FinishedSpan.Attribute("k", "\n")], error: "x")
        let bytes = TraceDocument(serviceName: "s", instance: "i").bytes(of: tracer.take())
        struct Document: Decodable {
            struct Resource: Decodable { let scopeSpans: [Scope] }
            struct Scope: Decodable { let spans: [Span] }
            struct Span: Decodable { let name: String }
            let resourceSpans: [Resource]
        }
        let parsed = try JSONDecoder().decode(Document.self, from: Data(bytes))
        #expect(parsed.resourceSpans.flatMap(\.scopeSpans).flatMap(\.spans).map(\.name) == ["a\"b"])
    }
}
