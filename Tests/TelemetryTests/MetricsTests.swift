import HTTPWire
import Testing
import UploadCore

@testable import Telemetry
@testable import HTTPServer

@Suite("Metrics")
struct MetricsTests {
    private func summary(
        _ method: HTTPMethod? = .get,
        _ status: Status = 200,
        route: String? = "uploads",
        milliseconds: Int = 3,
        isBroken: Bool = false,
        refusal: String? = nil
    ) -> RequestSummary {
        var trace = Response(status).trace
        trace.route = route
        return RequestSummary(
            id: "r-1",
            method: method,
            status: status,
            trace: trace,
            bytesReceived: 5,
            bytesSent: 7,
            duration: .milliseconds(milliseconds),
            peerAddress: "192.0.2.1",
            isBroken: isBroken,
            refusal: refusal
        )
    }

    private func value(_ sample: String, in metrics: Metrics) -> String? {
        metrics.text().split(separator: "\n").first { $0.hasPrefix(sample + " ") }
            .map { String($0.dropFirst(sample.count + 1)) }
    }

    @Test("requests are counted by route, method and status")
    func requests() {
        let metrics = Metrics()
        for _ in 0..<2 { metrics.requestFinished(summary()) }
        metrics.requestFinished(summary(.post, 404, isBroken: true))
        #expect(
            value("sluice_http_requests_total{route=\"uploads\",method=\"GET\",status=\"200\"}", in: metrics) == "2"
        )
        #expect(
            value("sluice_http_requests_total{route=\"uploads\",method=\"POST\",status=\"404\"}", in: metrics) == "1"
        )
        #expect(value("sluice_http_request_bytes_total", in: metrics) == "15")
        #expect(value("sluice_http_response_bytes_total", in: metrics) == "21")
        #expect(value("sluice_http_incomplete_responses_total", in: metrics) == "1")
        #expect(value("sluice_http_refused_total", in: metrics) == "0")
    }

    @Test("values chosen by clients create no labels")
    func labels() {
        let metrics = Metrics()
        metrics.requestFinished(summary(HTTPMethod(rawValue: "BREW")))
        metrics.requestFinished(summary(nil, 400, route: nil, refusal: "malformed"))
        #expect(!metrics.text().contains("BREW"))
        #expect(
            value("sluice_http_requests_total{route=\"uploads\",method=\"other\",status=\"200\"}", in: metrics) == "1"
        )
        #expect(
            value("sluice_http_requests_total{route=\"none\",method=\"none\",status=\"400\"}", in: metrics) == "1"
        )
        #expect(value("sluice_http_refused_total", in: metrics) == "1")
    }

    @Test("buckets of durations are cumulative, and their bounds belong to them")
    func durations() {
        let metrics = Metrics()
        for milliseconds in [1, 3, 5, 70, 2_000_000] { metrics.requestFinished(summary(milliseconds: milliseconds)) }
        let name = "sluice_http_request_duration_seconds"
        for (bound, count) in [("0.001", 1), ("0.005", 3), ("0.05", 3), ("0.1", 4), ("1800", 4), ("+Inf", 5)] {
            #expect(value("\(name)_bucket{route=\"uploads\",le=\"\(bound)\"}", in: metrics) == String(count))
        }
        #expect(value("\(name)_count{route=\"uploads\"}", in: metrics) == "5")
    }

    @Test("open connections, and all connections so far, are counted")
    func connections() {
        let metrics = Metrics()
        metrics.connectionOpened()
        metrics.connectionOpened()
        metrics.connectionClosed()
        #expect(value("sluice_http_connections", in: metrics) == "1")
        #expect(value("sluice_http_connections_accepted_total", in: metrics) == "2")
    }

    @Test("each outcome has a counter")
    func outcomes() {
        let metrics = Metrics()
        metrics.minted("tencent")
        metrics.called(hook: "post-finish", outcome: "retry")
        metrics.called(cloud: "aliyun", outcome: "answered")
        metrics.calledBack(hasResponse: false)
        #expect(value("sluice_minted_total{kind=\"tencent\"}", in: metrics) == "1")
        #expect(value("sluice_hook_calls_total{hook=\"post-finish\",outcome=\"retry\"}", in: metrics) == "1")
        #expect(value("sluice_cloud_calls_total{cloud=\"aliyun\",outcome=\"answered\"}", in: metrics) == "1")
        #expect(value("sluice_object_callbacks_total{outcome=\"failed\"}", in: metrics) == "1")
    }

    @Test("each sample belongs to a type that is declared once before it")
    func types() {
        let metrics = Metrics()
        metrics.requestFinished(summary())
        metrics.minted("tencent")
        var types: Set<Substring> = []
        for line in metrics.text().split(separator: "\n") {
            if line.hasPrefix("# TYPE ") {
                #expect(types.insert(line.split(separator: " ")[2]).inserted, "\(line)")
            } else if !line.hasPrefix("#") {
                let name = line.prefix { $0 != " " && $0 != "{" }
                let family = ["_bucket", "_sum", "_count"].lazy.compactMap { suffix in
                    name.hasSuffix(suffix) ? name.dropLast(suffix.count) : nil
                }
                #expect(types.contains(name) || family.contains { types.contains($0) }, "\(line)")
            }
        }
    }

    @Test("metrics are Prometheus text, and odd label values cannot break a line")
    func metrics() {
        let metrics = Metrics()
        metrics.minted("a\"b\\c")
        let text = metrics.text()
        #expect(text.contains("sluice_minted_total{kind=\"a\\\"b\\\\c\"} 1\n"))
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            #expect(line.split(separator: " ").last.flatMap { Double($0) } != nil, "\(line)")
        }
    }

    @Test("a module's metric is written with its help text, and with labels once it was counted")
    func declared() {
        let metrics = Metrics()
        let (one, two) = (metrics.counter("x_total", "Xs.", ["k": "1"]), metrics.counter("x_total", "Xs.", ["k": "2"]))
        let plain = metrics.counter("y_total", "Ys.")
        two.add(3)
        #expect(metrics.text().contains("# HELP x_total Xs.\n# TYPE x_total counter\nx_total{k=\"2\"} 3\n"))
        #expect(value("x_total{k=\"1\"}", in: metrics) == nil)
        #expect(value("y_total", in: metrics) == "0")
        one.add()
        plain.add()
        #expect(metrics.counter("x_total", "Xs.", ["k": "1"]) === one)
        #expect(value("x_total{k=\"1\"}", in: metrics) == "1")
        #expect(value("y_total", in: metrics) == "1")
    }
}
