internal import CoreMetrics
internal import Logging
internal import MetricsKit
internal import UploadCore

/// Counts and logs the outcome of pulls.
struct PullReport: Sendable {
    private let logger: Logger
    private let completed: Counter
    private let interrupted: Counter
    private let failed: Counter

    init(_ metrics: MetricsRegistry, _ logger: Logger) {
        func counter(_ result: String) -> Counter {
            metrics.counter(
                "sluice_pulls_total",
                "Attempts to fetch uploads, by how they ended.",
                ["result": result]
            )
        }
        self.logger = logger
        completed = counter("completed")
        interrupted = counter("interrupted")
        failed = counter("failed")
    }

    func observe(_ event: PullEvent) {
        switch event {
        case .completed(let job):
            completed.increment()
            logger.info("pull completed", metadata: ["upload": "\(job.uploadID)", "attempts": "\(job.attempts)"])
        case .interrupted(let job, let reason):
            interrupted.increment()
            log("pull interrupted", job, reason)
        case .failed(let job, let reason):
            failed.increment()
            log("pull failed", job, reason)
        }
    }

    /// Logs without the URL, which may contain secrets.
    private func log(_ message: Logger.Message, _ job: PullJob, _ reason: PullJob.Reason) {
        logger.info(
            message,
            metadata: [
                "upload": "\(job.uploadID)", "attempts": "\(job.attempts)", "code": "\(reason.code)",
                "error": "\(reason.message)",
            ]
        )
    }
}
