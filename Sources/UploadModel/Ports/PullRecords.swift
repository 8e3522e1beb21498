package import Foundation

/// Jobs that fill uploads with bytes from other servers; `UploadRecords` inserts new ones together with their uploads.
package protocol PullRecords: Sendable {
    func pull(_ id: UploadID) async throws(UploadError) -> PullJob?

    /// Claims jobs that are due and not claimed by another process, earliest first.
    ///
    /// - Parameters:
    ///   - limit: Maximum number of jobs.
    ///   - subjects: Users whose jobs are left for later.
    ///   - duration: Seconds that the claim lasts; a longer job must renew it.
    /// - Returns: The claimed jobs, each with its own claim.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func claimPulls(limit: Int, except subjects: [String], for duration: TimeInterval)
        async throws(UploadError) -> [PullJob]

    /// Extends claims to `duration` seconds from now.
    ///
    /// - Returns: The claims that are still held; the other jobs are over, or another process has claimed them.
    func renewPulls(_ jobs: [PullJob], for duration: TimeInterval) async throws(UploadError) -> Set<UploadID>

    /// Seconds until a job can be claimed, because it is due or its claim expires, or `nil`; without those of `subjects`.
    func nextPull(except subjects: [String]) async throws(UploadError) -> TimeInterval?

    /// Records the state of a job and what comes next; the job's own `nextAttemptAt` is ignored.
    ///
    /// When its upload ends, a pull is closed: it keeps neither a next attempt nor its request (`sealed`).
    ///
    /// - Returns: `false`, with nothing changed, if the job is over or forgotten, or another process has claimed it
    ///   since.
    func update(_ job: PullJob, _ next: PullJob.Next) async throws(UploadError) -> Bool

    /// Records why the upload of a closed pull ended, for an end that did not come from the pull itself.
    ///
    /// - Returns: `false`, with nothing changed, if the pull is not closed or has failed already, or its upload is complete.
    func explain(_ id: UploadID, _ reason: PullJob.Reason) async throws(UploadError) -> Bool
}
