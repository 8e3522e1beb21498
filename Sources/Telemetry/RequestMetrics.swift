internal import CoreMetrics
package import HTTPServer
internal import HTTPWire
package import MetricsKit
internal import Synchronization
internal import Tracing

/// Counts connections and requests.
package final class RequestMetrics: Sendable {
    private struct Key: Hashable {
        var route: String
        var method: String
        var status: Int
    }

    /// One look-up for both; requests to one route share the histogram.
    private struct Handles {
        let count: Counter
        let duration: DurationHistogram
    }

    private static let count = "sluice_http_requests_total"
    private static let duration = "sluice_http_request_duration_seconds"

    private let metrics: MetricsRegistry
    /// Here, and not in a generic table of `MetricsKit`, which is not specialised for its keys across targets.
    private let requests = Mutex<[Key: Handles]>([:])
    private let bytesReceived: Counter
    private let bytesSent: Counter
    private let refused: Counter
    private let broken: Counter
    private let open: Meter
    private let accepted: Counter
    private let handshakes: CounterTable
    private let accepts: CounterTable
    private let limited: CounterTable

    package init(_ metrics: MetricsRegistry) {
        self.metrics = metrics
        metrics.declare(Self.count, .counter, "Requests by route, method and status.")
        metrics.declare(Self.duration, .histogram, "From the head of a request to the end of its answer.")
        bytesReceived = metrics.counter("sluice_http_request_bytes_total", "Bytes of request contents.")
        bytesSent = metrics.counter("sluice_http_response_bytes_total", "Bytes of answers.")
        refused = metrics.counter("sluice_http_refused_total", "Heads that could not be read.")
        broken = metrics.counter("sluice_http_incomplete_responses_total", "Answers that did not get through.")
        open = metrics.gauge("sluice_http_connections", "Open connections.")
        accepted = metrics.counter("sluice_http_connections_accepted_total", "Connections that were accepted.")
        handshakes = metrics.counters(
            "sluice_tls_handshakes_failed_total",
            "Connections with which TLS could not be begun.",
            by: "reason"
        )
        limited = metrics.limitedCounters
        accepts = metrics.counters(
            "sluice_http_accept_errors_total",
            "Connections that could not be taken.",
            by: "reason"
        )
    }

    package func connectionOpened() {
        open.increment()
        accepted.increment()
    }

    package func connectionRefused() { limited["address_connections"].increment() }

    package func connectionClosed() { open.decrement() }

    package func requestFinished(_ summary: RequestSummary) {
        let key = Key(
            route: summary.trace.route ?? "none",
            method: summary.method.map(Self.label) ?? "none",
            status: summary.status.code
        )
        let handles = handles(for: key)
        handles.count.increment()
        handles.duration.record(summary.duration, in: summary.trace.scope?.exemplar)
        bytesReceived.increment(by: summary.bytesReceived)
        bytesSent.increment(by: summary.bytesSent)
        if summary.refusal != nil { refused.increment() }
        if summary.isBroken { broken.increment() }
    }

    /// Made for the first request with this key.
    private func handles(for key: Key) -> Handles {
        requests.withLock { requests in
            if let handles = requests[key] { return handles }
            let labels = [("route", key.route), ("method", key.method), ("status", String(key.status))]
            let handles = Handles(
                count: Counter(label: Self.count, dimensions: labels, factory: metrics),
                duration: metrics.durations(Self.duration, [("route", key.route)])
            )
            requests[key] = handles
            return handles
        }
    }

    package func failed(handshake kind: HandshakeFailure.Kind) { handshakes[kind.rawValue].increment() }

    /// - Parameter reason: The text of an error of accept(2).
    package func failed(accept reason: String) { accepts[reason].increment() }

    /// Clients choose methods freely, so unknown methods share one label.
    private static func label(_ method: HTTPMethod) -> String {
        switch method {
        case .get, .head, .post, .put, .patch, .delete, .options: method.rawValue
        default: "other"
        }
    }
}

extension TraceScope {
    /// Beside the bucket of a duration; `nil` if nobody will find the trace.
    fileprivate var exemplar: ExemplarTrace? {
        context.isSampled ? ExemplarTrace(traceID: context.traceID, spanID: context.spanText) : nil
    }
}
