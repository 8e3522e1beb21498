internal import Clouds
internal import CoreMetrics
internal import Logging
internal import MetricsKit

/// Counts and logs requests to clouds in `direct` mode.
struct CloudReport: Sendable {
    private struct Key: Hashable {
        var cloud: String
        var outcome: String
    }

    private let logger: Logger
    private let calls: HandleTable<Key, Counter>

    init(_ metrics: MetricsRegistry, _ logger: Logger) {
        let name = "sluice_cloud_calls_total"
        metrics.declare(name, .counter, "Calls of clouds in direct mode by what became of them.")
        self.logger = logger
        calls = HandleTable { key in
            Counter(label: name, dimensions: [("cloud", key.cloud), ("outcome", key.outcome)], factory: metrics)
        }
    }

    /// Reports a request; the reported failure contains no secrets.
    func called(_ cloud: String, _ failure: CloudFailure?) {
        calls[Key(cloud: cloud, outcome: failure?.kind.rawValue ?? "answered")].increment()
        guard let failure else { return }
        var metadata: Logger.Metadata = [
            "cloud": "\(cloud)", "outcome": "\(failure.kind.rawValue)", "error": "\(failure.message)",
        ]
        if let cause = failure.cause { metadata["cause"] = "\(cause)" }
        logger.warning("cloud failed", metadata: metadata)
    }
}
