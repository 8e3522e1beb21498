internal import CoreMetrics
package import Logging
package import MetricsKit
package import UploadModel

/// Counts and logs calls of hooks.
package struct HookReport: Sendable {
    private let logger: Logger
    private let calls: CounterTable
    private let answered: Timer
    private let unanswered: Timer
    private let pending: Meter
    private let oldest: Meter

    package init(_ metrics: MetricsRegistry, _ logger: Logger) {
        self.logger = logger
        calls = metrics.counters(
            "sluice_hook_calls_total",
            "Calls of hooks by what became of them.",
            by: "hook",
            "outcome"
        )
        func timer(_ outcome: String) -> Timer {
            metrics.timer("sluice_hook_duration_seconds", "Calls of hooks, each attempt.", ["outcome": outcome])
        }
        answered = timer("answered")
        unanswered = timer("failed")
        pending = metrics.gauge("sluice_hook_deliveries_pending", "Events that wait to be delivered to the app.")
        oldest = metrics.gauge("sluice_hook_oldest_pending_seconds", "Age of the oldest such event.")
    }

    /// One attempt to call a hook ended.
    func called(for time: Duration, isAnswered: Bool) {
        (isAnswered ? answered : unanswered).record(time)
    }

    func waits(_ deliveries: PendingDeliveries) {
        pending.set(deliveries.count)
        oldest.set(deliveries.age)
    }

    /// A blocking hook could not be called.
    package func failed(_ hook: HookName, _ id: UploadID, _ reason: String) {
        count(hook, "failed")
        logger.warning(
            "hook could not be called",
            metadata: ["hook": "\(hook.rawValue)", "upload": "\(id)", "error": "\(reason)"]
        )
    }

    /// An event was delivered, or could not be.
    func delivered(_ hook: HookName, _ event: EventRecord, _ outcome: DeliveryOutcome) {
        var metadata: Logger.Metadata = [
            "hook": "\(hook.rawValue)", "upload": "\(event.upload.id)", "event": "\(event.id)",
        ]
        switch outcome {
        case .delivered:
            count(hook, "delivered")
            logger.debug("hook delivered", metadata: metadata)
        case .retry(_, let error):
            count(hook, "retry")
            metadata["error"] = "\(error)"
            logger.info("hook not delivered, is retried", metadata: metadata)
        case .dead(let error):
            count(hook, "dead")
            metadata["error"] = "\(error)"
            logger.error("hook delivery given up", metadata: metadata)
        }
    }

    private func count(_ hook: HookName, _ outcome: String) {
        calls[hook.rawValue, outcome].increment()
    }
}
