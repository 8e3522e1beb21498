package import Foundation

/// Decides which process runs a periodic job.
package protocol JobClaims: Sendable {
    /// Claims one run of a job that only one of all processes performs, at intervals.
    ///
    /// - Returns: `true` if no process has claimed it in the last `interval` seconds.
    func claimJob(at job: PeriodicJob, every interval: TimeInterval) async throws(UploadError) -> Bool
}

/// A job that one of all processes with the same state performs at intervals.
package enum PeriodicJob: String, Sendable, CaseIterable {
    case thoroughSweep = "thorough sweep"
    case bucketLifecycle = "bucket lifecycle"
}
