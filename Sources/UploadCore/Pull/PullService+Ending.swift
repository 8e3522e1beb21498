internal import Foundation
internal import UploadModel

/// Handles the end of an attempt.
extension PullService {
    func conclude(_ before: PullJob, _ end: End) async throws(UploadError) {
        var job = before
        switch end {
        case .completed:
            job.isFailed = false
            job.lastError = nil
            try await close(&job)
            observe(.completed(job))
        case .over:
            if job.isFailed, try await !isEnded(job.uploadID) { return try await conclude(job, .completed) }
            try await close(&job)
        case .outdated(let reason):
            job.validator = nil
            job.total = nil
            try await retry(&job, reason, after: nil)
        case .failure(let failure):
            switch failure.consequence {
            case .none:
                guard try await uploads.state(of: job.uploadID) == .open else { return try await close(&job) }
                // Try again soon, or when the process runs again.
                _ = try await wait(&job, limits.retryDelay)
            case .wait:
                job.lastError = failure.reason
                if try await wait(&job, min(limits.retryDelay * 16, limits.longestDelay)) {
                    observe(.interrupted(job, failure.reason))
                }
            case .retry(let delay): try await retry(&job, failure.reason, after: delay)
            case .final: try await giveUp(&job, failure.reason)
            }
        }
    }

    private func retry(_ job: inout PullJob, _ reason: PullJob.Reason, after asked: TimeInterval?)
        async throws(UploadError)
    {
        job.failures += 1
        guard job.failures < limits.attempts else { return try await giveUp(&job, reason) }
        job.lastError = reason
        let doubled = limits.retryDelay * pow(2, Double(min(job.failures - 1, 30)))
        // Random, so that jobs that failed together do not retry together.
        let delay = min(doubled, limits.longestDelay) * Double.random(in: 0.75...1)
        let wanted = max(delay, min(asked ?? 0, max(limits.longestDelay, 3600)))
        if try await wait(&job, wanted) { observe(.interrupted(job, reason)) }
    }

    /// - Returns: `false` if this process no longer holds the job.
    private func wait(_ job: inout PullJob, _ seconds: TimeInterval) async throws(UploadError) -> Bool {
        job.nextAttemptAt = uploads.now.addingTimeInterval(seconds).wholeMilliseconds
        return try await pulls.update(job, .due(after: seconds))
    }

    /// Records the reason, ends the upload, then ends the job, in this order: a crash in between loses neither.
    private func giveUp(_ job: inout PullJob, _ reason: PullJob.Reason) async throws(UploadError) {
        job.isFailed = true
        job.lastError = reason
        // What refuses the content also ends the upload, and with it the pull.
        guard try await pulls.update(job, .working) else {
            if try await pulls.explain(job.uploadID, reason) { observe(.failed(job, reason)) }
            return
        }
        guard try await isEnded(job.uploadID) else { return try await conclude(job, .completed) }
        try await close(&job)
        observe(.failed(job, reason))
    }

    /// Ends an upload whose bytes cannot be fetched.
    ///
    /// - Returns: `false` if the upload is already complete, for example because a sweep found all its bytes; it then
    ///   stays.
    private func isEnded(_ id: UploadID) async throws(UploadError) -> Bool {
        do throws(UploadError) {
            try await uploads.terminate(id, .open, asking: false)
            return true
        } catch {
            switch error.code {
            case .gone, .notFound: return true
            case .notOpen: return false
            default: throw error
            }
        }
    }

    /// Ends the job, and removes its secrets.
    private func close(_ job: inout PullJob) async throws(UploadError) {
        job.nextAttemptAt = nil
        job.sealed = ""
        _ = try await pulls.update(job, .never)
    }
}
