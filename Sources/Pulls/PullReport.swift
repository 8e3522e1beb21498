internal import CoreMetrics
internal import Logging
internal import MetricsKit
internal import UploadCore
internal import UploadModel

/// Counts and logs the outcome of pulls.
struct PullReport: Sendable {
    private let logger: Logger
    private let completed: Counter
    private let interrupted: Counter
    private let failed: Counter
    private let bytes: Counter
    private let duration: Timer

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
        bytes = metrics.counter("sluice_pull_bytes_total", "Bytes that pulls have fetched.")
        duration = metrics.timer("sluice_pull_duration_seconds", "Attempts to fetch.")
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
        case .progressed(let count): bytes.increment(by: count)
        case .ended(let time): duration.record(time)
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
