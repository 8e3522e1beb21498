internal import CoreMetrics
package import Logging
package import MetricsKit
package import UploadCore

/// Counts and logs calls of hooks.
package struct HookReport: Sendable {
    private let logger: Logger
    private let calls: CounterTable

    package init(_ metrics: MetricsRegistry, _ logger: Logger) {
        self.logger = logger
        calls = metrics.counters(
            "sluice_hook_calls_total",
            "Calls of hooks by what became of them.",
            by: "hook",
            "outcome"
        )
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
