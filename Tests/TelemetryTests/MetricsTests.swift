import Bytes
import Foundation
import HTTPWire
import MetricsKit
import Testing
import UploadCore
import UploadModel

@testable import Telemetry
@testable import HTTPServer

@Suite("Metrics of requests, uploads and the process", .timeLimit(.minutes(10)))
struct MetricsTests {
    private let metrics = MetricsRegistry()

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

    private func value(_ sample: String) -> String? {
        metrics.text().split(separator: "\n").first { $0.hasPrefix(sample + " ") }
            .map { String($0.dropFirst(sample.count + 1)) }
    }

    @Test("requests are counted by route, method and status")
    func requests() {
        let requests = RequestMetrics(metrics)
        for _ in 0..<2 { requests.requestFinished(summary()) }
        requests.requestFinished(summary(.post, 404, isBroken: true))
        #expect(
            value("sluice_http_requests_total{route=\"uploads\",method=\"GET\",status=\"200\"}") == "2"
        )
        #expect(
            value("sluice_http_requests_total{route=\"uploads\",method=\"POST\",status=\"404\"}") == "1"
        )
        #expect(value("sluice_http_request_bytes_total") == "15")
        #expect(value("sluice_http_response_bytes_total") == "21")
        #expect(value("sluice_http_incomplete_responses_total") == "1")
        #expect(value("sluice_http_refused_total") == "0")
    }

    @Test("values chosen by clients create no labels")
    func labels() {
        let requests = RequestMetrics(metrics)
        requests.requestFinished(summary(HTTPMethod(rawValue: "BREW")))
        requests.requestFinished(summary(nil, 400, route: nil, refusal: "malformed"))
        #expect(!metrics.text().contains("BREW"))
        #expect(
            value("sluice_http_requests_total{route=\"uploads\",method=\"other\",status=\"200\"}") == "1"
        )
        #expect(
            value("sluice_http_requests_total{route=\"none\",method=\"none\",status=\"400\"}") == "1"
        )
        #expect(value("sluice_http_refused_total") == "1")
    }

    @Test("durations of all methods and statuses of a route are in one histogram, to the nanosecond")
    func durations() {
        let requests = RequestMetrics(metrics)
        for milliseconds in [1, 3, 70] { requests.requestFinished(summary(milliseconds: milliseconds)) }
        requests.requestFinished(summary(.post, 404, milliseconds: 2_000_000))
        let name = "sluice_http_request_duration_seconds"
        for (bound, count) in [("0.001", 1), ("0.005", 2), ("0.1", 3), ("1800", 3), ("+Inf", 4)] {
            #expect(value("\(name)_bucket{route=\"uploads\",le=\"\(bound)\"}") == String(count))
        }
        #expect(value("\(name)_count{route=\"uploads\"}") == "4")
        #expect(value("\(name)_sum{route=\"uploads\"}").flatMap(Double.init).map { abs($0 - 2000.074) < 1e-9 } == true)
    }

    @Test("connections that are open, and all that were")
    func connections() {
        let requests = RequestMetrics(metrics)
        requests.connectionOpened()
        requests.connectionOpened()
        requests.connectionClosed()
        #expect(value("sluice_http_connections") == "1")
        #expect(value("sluice_http_connections_accepted_total") == "2")
    }

    @Test("what happens to uploads has a counter each")
    func uploads() {
        let uploads = UploadMetrics(metrics)
        let id = UploadID.generate(at: Date())
        uploads.observe(.terminated(id))
        uploads.observe(.expired(id))
        uploads.observe(.takenOver(id))
        uploads.observe(.brokenOff(id, .malformed("a client's text"), bytes: 3))
        uploads.observe(.swept(blobs: 9, setAside: 2, left: 0))
        uploads.observe(.swept(blobs: 9, setAside: 1, left: 40))
        uploads.observe(.failed(nil, UploadError(.unavailable, "x")))
        uploads.observe(.turnedAway(id, UploadError(.busy, "x")))
        uploads.observe(
            .refused(
                QuotaRefusal(
                    account: Account(.key, "a"),
                    measure: .periodBytes,
                    limit: 1,
                    used: 1,
                    wanted: 1,
                    resetsAt: nil
                )
            )
        )
        #expect(value("sluice_leases_refused_total{code=\"busy\"}") == "1")
        #expect(value("sluice_quota_refusals_total{account=\"key\",quota=\"periodBytes\"}") == "1")
        #expect(value("sluice_uploads_terminated_total") == "1")
        #expect(value("sluice_uploads_expired_total") == "1")
        #expect(value("sluice_uploads_taken_over_total") == "1")
        #expect(value("sluice_uploads_completed_total") == "0")
        #expect(value("sluice_appends_broken_off_total{reason=\"malformed\"}") == "1")
        #expect(value("sluice_orphans_quarantined_total") == "3")
        #expect(value("sluice_orphans_left") == "40")
        #expect(value("sluice_upload_errors_total{code=\"unavailable\"}") == "1")
    }

    @Test("the process is sampled when the metrics are read")
    func process() throws {
        ProcessMetrics.declare(in: metrics) { 7 }
        #expect(value("sluice_log_lines_lost_total") == "7")
        #expect(value("sluice_build_info{version=\"\(Version.current)\"}") == "1")
        #expect(try #require(value("process_resident_memory_bytes").flatMap(Double.init)) > Double(1 << 20))
        #expect(try #require(value("process_open_fds").flatMap(Double.init)) >= 3)
        #expect(try #require(value("process_start_time_seconds").flatMap(Double.init)) > 1.7e9)
    }

    @Test("each sample belongs to a type that stands before it once")
    func types() {
        let requests = RequestMetrics(metrics)
        _ = UploadMetrics(metrics)
        ProcessMetrics.declare(in: metrics) { 0 }
        requests.requestFinished(summary())
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
}
