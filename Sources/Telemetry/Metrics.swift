internal import Bytes
internal import Foundation
package import HTTPServer
internal import HTTPWire
internal import Synchronization
package import UploadCore

/// Counts what the gateway does and renders it as Prometheus text (exposition format 0.0.4).
package final class Metrics: Sendable {
    private struct RequestKey: Hashable {
        var route: String
        var method: String
        var status: Int
    }

    private struct Requests {
        var count: [RequestKey: UInt64] = [:]
        var duration: [String: Histogram] = [:]
        var bytesReceived: Int64 = 0
        var bytesSent: Int64 = 0
        var refused: UInt64 = 0
        var broken: UInt64 = 0
        var handshakes: [String: UInt64] = [:]
        var accepts: [String: UInt64] = [:]
    }

    private struct Histogram {
        /// Upper bounds, in seconds.
        static let bounds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1800]

        var buckets = [UInt64](repeating: 0, count: bounds.count)
        var count: UInt64 = 0
        var sum = 0.0

        mutating func observe(_ seconds: Double) {
            count += 1
            sum += seconds
            for index in Self.bounds.indices where seconds <= Self.bounds[index] {
                buckets[index] += 1
                break
            }
        }
    }

    private struct Uploads {
        var created: [String: UInt64] = [:]
        var completed: UInt64 = 0
        var terminated: UInt64 = 0
        var expired: UInt64 = 0
        var takenOver: UInt64 = 0
        var brokenOff: [String: UInt64] = [:]
        var failed: [String: UInt64] = [:]
        var bytesStored: Int64 = 0
        var hooks: [HookKey: UInt64] = [:]
        var callbacks: [String: UInt64] = [:]
        var clouds: [CloudKey: UInt64] = [:]
        var orphansSetAside: UInt64 = 0
        var orphansLeft = 0
    }

    private struct HookKey: Hashable {
        var hook: String
        var outcome: String
    }

    private struct CloudKey: Hashable {
        var cloud: String
        var outcome: String
    }

    private let requests = Mutex(Requests())
    private let uploads = Mutex(Uploads())
    private let openConnections = Atomic<Int>(0)
    private let acceptedConnections = Atomic<UInt64>(0)
    private let startedAt = Date()
    private let declared = CounterRegistry()
    /// Counters by kind.
    private let mints = Mutex<[String: Counter]>([:])
    private let lostLogLines: @Sendable () -> UInt64
    private let others = Mutex<[@Sendable (inout MetricsPage) -> Void]>([])

    /// - Parameter lostLogLines: Returns how many log lines were lost.
    package init(lostLogLines: @escaping @Sendable () -> UInt64 = { 0 }) { self.lostLogLines = lostLogLines }

    /// Adds a source of metrics that is called each time the text is rendered.
    package func collect(_ write: @escaping @Sendable (inout MetricsPage) -> Void) {
        others.withLock { $0.append(write) }
    }

    package func connectionOpened() {
        openConnections.wrappingAdd(1, ordering: .relaxed)
        acceptedConnections.wrappingAdd(1, ordering: .relaxed)
    }

    package func connectionClosed() {
        openConnections.wrappingSubtract(1, ordering: .relaxed)
    }

    package func requestFinished(_ summary: RequestSummary) {
        let route = summary.trace.route ?? "none"
        let method = summary.method.map(Self.label) ?? "none"
        let (seconds, attoseconds) = summary.duration.components
        let duration = Double(seconds) + Double(attoseconds) / 1e18
        requests.withLock { requests in
            requests.count[RequestKey(route: route, method: method, status: summary.status.code), default: 0] += 1
            requests.duration[route, default: Histogram()].observe(duration)
            requests.bytesReceived += summary.bytesReceived
            requests.bytesSent += summary.bytesSent
            if summary.refusal != nil { requests.refused += 1 }
            if summary.isBroken { requests.broken += 1 }
        }
    }

    package func failed(handshake kind: HandshakeFailure.Kind) {
        requests.withLock { $0.handshakes[kind.rawValue, default: 0] += 1 }
    }

    /// - Parameter reason: The text of an error of accept(2).
    package func failed(accept reason: String) {
        requests.withLock { $0.accepts[reason, default: 0] += 1 }
    }

    /// Clients choose methods freely, so unknown methods share one label.
    private static func label(_ method: HTTPMethod) -> String {
        switch method {
        case .get, .head, .post, .put, .patch, .delete, .options: method.rawValue
        default: "other"
        }
    }

    /// A module's counter, to be created once and kept.
    ///
    /// - Parameters:
    ///   - name: Metric name: `sluice_…_total`.
    ///   - help: One sentence for readers of the metrics.
    ///   - labels: Labels of this sample; they distinguish samples of one name.
    /// - Returns: The same counter for the same name and labels.
    package func counter(_ name: String, _ help: String, _ labels: KeyValuePairs<String, String> = [:]) -> Counter {
        declared.counter(name, help, labels.map { ($0.key, $0.value) })
    }

    /// Counts a credential, for callers that issue several kinds.
    package func minted(_ kind: String) {
        mints.withLock { mints in
            if let counter = mints[kind] { return counter }
            let counter = mintCounter(kind)
            mints[kind] = counter
            return counter
        }.add()
    }

    /// The counter for credentials of one kind.
    package func mintCounter(_ kind: String) -> Counter {
        counter("sluice_minted_total", "Credentials that were minted.", ["kind": kind])
    }

    /// - Parameters:
    ///   - name: Name of the hook.
    ///   - outcome: `delivered`, `retry`, `dead`, or `failed` if a blocking hook could not be called.
    package func called(hook name: String, outcome: String) {
        uploads.withLock { $0.hooks[HookKey(hook: name, outcome: outcome), default: 0] += 1 }
    }

    /// - Parameter hasResponse: Whether the app responded as required.
    package func calledBack(hasResponse: Bool) {
        uploads.withLock { $0.callbacks[hasResponse ? "answered" : "failed", default: 0] += 1 }
    }

    /// - Parameters:
    ///   - cloud: Name of the cloud.
    ///   - outcome: `answered`, or the kind of failure.
    package func called(cloud: String, outcome: String) {
        uploads.withLock { $0.clouds[CloudKey(cloud: cloud, outcome: outcome), default: 0] += 1 }
    }

    package func observe(_ event: UploadEvent) {
        uploads.withLock { uploads in
            switch event {
            case .created(let upload): uploads.created[upload.dialect, default: 0] += 1
            case .appended(_, let bytes): uploads.bytesStored += bytes
            case .completed: uploads.completed += 1
            case .terminated: uploads.terminated += 1
            case .expired: uploads.expired += 1
            case .takenOver: uploads.takenOver += 1
            case .brokenOff(_, let failure, _): uploads.brokenOff[Self.label(failure), default: 0] += 1
            case .swept(_, let setAside, let left):
                uploads.orphansSetAside += UInt64(setAside)
                uploads.orphansLeft = left
            case .failed(_, let error): uploads.failed[error.code.name, default: 0] += 1
            }
        }
    }

    private static func label(_ failure: SourceFailure) -> String {
        switch failure {
        case .disconnected: "disconnected"
        case .interrupted: "taken_over"
        case .timedOut: "timed_out"
        case .shuttingDown: "shutting_down"
        case .malformed: "malformed"
        case .tooLarge: "too_large"
        }
    }

    // MARK: Text

    package func text() -> String {
        var page = MetricsPage()
        let requests = self.requests.withLock { $0 }
        let uploads = self.uploads.withLock { $0 }
        page.header("sluice_http_requests_total", "counter", "Requests by route, method and status.")
        for (key, count) in requests.count.sorted(by: { ($0.key.route, $0.key.status) < ($1.key.route, $1.key.status) })
        {
            page.sample(
                "sluice_http_requests_total",
                [("route", key.route), ("method", key.method), ("status", String(key.status))],
                Double(count)
            )
        }
        page.header(
            "sluice_http_request_duration_seconds",
            "histogram",
            "From the head of a request to the end of its answer."
        )
        for (route, histogram) in requests.duration.sorted(by: { $0.key < $1.key }) {
            var cumulated: UInt64 = 0
            for (bound, count) in zip(Histogram.bounds, histogram.buckets) {
                cumulated += count
                page.sample(
                    "sluice_http_request_duration_seconds_bucket",
                    [("route", route), ("le", MetricsPage.number(bound))],
                    Double(cumulated)
                )
            }
            page.sample(
                "sluice_http_request_duration_seconds_bucket",
                [("route", route), ("le", "+Inf")],
                Double(histogram.count)
            )
            page.sample("sluice_http_request_duration_seconds_sum", [("route", route)], histogram.sum)
            page.sample("sluice_http_request_duration_seconds_count", [("route", route)], Double(histogram.count))
        }
        page.single(
            "sluice_http_request_bytes_total",
            "counter",
            "Bytes of request contents.",
            Double(requests.bytesReceived)
        )
        page.single("sluice_http_response_bytes_total", "counter", "Bytes of answers.", Double(requests.bytesSent))
        page.single("sluice_http_refused_total", "counter", "Heads that could not be read.", Double(requests.refused))
        page.single(
            "sluice_http_incomplete_responses_total",
            "counter",
            "Answers that did not get through.",
            Double(requests.broken)
        )
        page.single(
            "sluice_http_connections",
            "gauge",
            "Open connections.",
            Double(openConnections.load(ordering: .relaxed))
        )
        page.single(
            "sluice_http_connections_accepted_total",
            "counter",
            "Connections that were accepted.",
            Double(acceptedConnections.load(ordering: .relaxed))
        )
        page.family(
            "sluice_tls_handshakes_failed_total",
            "Connections with which TLS could not be begun.",
            "reason",
            requests.handshakes
        )
        page.family(
            "sluice_http_accept_errors_total",
            "Connections that could not be taken.",
            "reason",
            requests.accepts
        )
        page.family(
            "sluice_object_callbacks_total",
            "Callbacks that clients of OSS asked for.",
            "outcome",
            uploads.callbacks
        )
        page.family("sluice_uploads_created_total", "Uploads that were created.", "dialect", uploads.created)
        page.single(
            "sluice_uploads_completed_total",
            "counter",
            "Uploads that were completed.",
            Double(uploads.completed)
        )
        page.single(
            "sluice_uploads_terminated_total",
            "counter",
            "Uploads that clients gave up.",
            Double(uploads.terminated)
        )
        page.single("sluice_uploads_expired_total", "counter", "Uploads whose time was over.", Double(uploads.expired))
        page.single(
            "sluice_uploads_taken_over_total",
            "counter",
            "Writers that were cut off by a newer request.",
            Double(uploads.takenOver)
        )
        page.family("sluice_appends_broken_off_total", "Appends that ended early.", "reason", uploads.brokenOff)
        page.family("sluice_upload_errors_total", "Failures of storage and state.", "code", uploads.failed)
        page.single(
            "sluice_orphans_quarantined_total",
            "counter",
            "Blobs without a record that were set aside.",
            Double(uploads.orphansSetAside)
        )
        page.single(
            "sluice_orphans_left",
            "gauge",
            "Blobs without a record that are too many for the sweep to take.",
            Double(uploads.orphansLeft)
        )
        page.header("sluice_hook_calls_total", "counter", "Calls of hooks by what became of them.")
        for (key, count) in uploads.hooks.sorted(by: {
            ($0.key.hook, $0.key.outcome) < ($1.key.hook, $1.key.outcome)
        }) {
            page.sample("sluice_hook_calls_total", [("hook", key.hook), ("outcome", key.outcome)], Double(count))
        }
        page.header("sluice_cloud_calls_total", "counter", "Calls of clouds in direct mode by what became of them.")
        for (key, count) in uploads.clouds.sorted(by: {
            ($0.key.cloud, $0.key.outcome) < ($1.key.cloud, $1.key.outcome)
        }) {
            page.sample("sluice_cloud_calls_total", [("cloud", key.cloud), ("outcome", key.outcome)], Double(count))
        }
        page.single("sluice_upload_bytes_total", "counter", "Bytes that were stored.", Double(uploads.bytesStored))
        declared.write(to: &page)
        for write in others.withLock({ $0 }) { write(&page) }
        process(into: &page)
        return page.text
    }

    private func process(into page: inout MetricsPage) {
        let usage = ProcessUsage.current()
        page.single("process_start_time_seconds", "gauge", "Start, in Unix seconds.", startedAt.timeIntervalSince1970)
        page.single("process_cpu_seconds_total", "counter", "User and system CPU time.", usage.cpuSeconds)
        page.single("process_resident_memory_bytes", "gauge", "Resident memory.", Double(usage.residentBytes))
        page.single("process_open_fds", "gauge", "Open descriptors.", Double(usage.openDescriptors))
        page.single(
            "sluice_log_lines_lost_total",
            "counter",
            "Log lines that were lost because nobody took them.",
            Double(lostLogLines())
        )
        page.header("sluice_build_info", "gauge", "Version of the gateway.")
        page.sample("sluice_build_info", [("version", Version.current)], 1)
    }
}
