package import Foundation
internal import GRDB
internal import StateRecords
internal import Synchronization
package import UploadModel

extension SQLiteState {
    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording event: EventRecord,
        pulling job: PullJob
    ) async throws(UploadError) {
        try await insert(upload, consuming: grant, under: effectiveLimits, recording: event) { database in
            try database.run(
                """
                INSERT INTO pull (upload_id, url, sealed, content_types, validator, total, attempts, failures, furthest,
                    next_attempt_at, is_failed, error_code, error_message)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                [
                    job.uploadID.text, job.url, job.sealed, try JSONText(job.contentTypes), job.validator, job.total,
                    job.attempts, job.failures, job.furthest, job.nextAttemptAt.map(Milliseconds.init), job.isFailed,
                    job.lastError?.code, job.lastError?.message,
                ]
            )
        }
    }

    package func pull(_ id: UploadID) async throws(UploadError) -> PullJob? {
        try await read { [self] database in
            guard
                var job = try database.row("\(Self.pullJobs) WHERE upload_id = ?", [id.text])
                    .map(PullJob.init(row:))
            else { return nil }
            pullClaims.withLock { claims in
                job.claim = claims.number(of: id.text) ?? 0
                job.isClaimed = claims.end(of: id.text, at: clock.now) != nil
            }
            return job
        }
    }

    package func claimPulls(limit: Int, except subjects: [String], for duration: TimeInterval)
        async throws(UploadError) -> [PullJob]
    {
        // Others may be due behind those that cannot be read, which keep no writer waiting meanwhile.
        while true {
            if let jobs = try await claimNextPulls(limit, except: subjects, for: duration) { return jobs }
        }
    }

    /// - Returns: `nil` if there were only pulls that cannot be read.
    private func claimNextPulls(_ limit: Int, except subjects: [String], for duration: TimeInterval)
        async throws(UploadError) -> [PullJob]?
    {
        try await writeOnce { [self] database in
            let now = clock.now
            let due = try database.rows(
                """
                \(Self.pullJobs) INDEXED BY pull_pending
                WHERE next_attempt_at <= ? \(Self.isOfOthers(subjects)) ORDER BY next_attempt_at, upload_id LIMIT ?
                """,
                SQLiteArguments(
                    [Milliseconds(now)] + Self.list(subjects) + [limit + pullClaims.withLock { $0.count }]
                )
            ).map { (id: try $0.value("upload_id", of: "pull") as String, row: $0) }
            return pullClaims.withLock { claims in
                var (jobs, hasUnreadable) = ([PullJob](), false)
                for (id, row) in due where jobs.count < limit && claims.end(of: id, at: now) == nil {
                    guard var job = try? PullJob(row: row) else {
                        hasUnreadable = true
                        _ = claims.take(id, until: now.addingTimeInterval(unreadable.pause("pull", id)))
                        continue
                    }
                    job.claim = claims.take(id, until: now.addingTimeInterval(duration))
                    job.isClaimed = true
                    jobs.append(job)
                }
                return jobs.isEmpty && hasUnreadable ? nil : jobs
            }
        }
    }

    package func renewPulls(_ jobs: [PullJob], for duration: TimeInterval) async throws(UploadError) -> Set<UploadID> {
        try await read { [self] database in
            let open = try jobs.filter { job in
                try database.row(
                    "SELECT 1 FROM pull WHERE upload_id = ? AND next_attempt_at IS NOT NULL",
                    [job.uploadID.text]
                ) != nil
            }
            let end = clock.now.addingTimeInterval(duration)
            return pullClaims.withLock { claims in
                let held = open.filter { claims.holds($0.uploadID.text, $0.claim) }
                for job in held { claims.renew(job.uploadID.text, until: end) }
                return Set(held.map(\.uploadID))
            }
        }
    }

    /// The condition that a job is not of these users; its argument is `list`, if there are any.
    private static func isOfOthers(_ subjects: [String]) -> String {
        if subjects.isEmpty { return "" }
        return """
            AND NOT EXISTS (
                SELECT 1 FROM upload WHERE id = upload_id AND subject IN (SELECT value FROM json_each(?))
            )
            """
    }

    private static func list(_ subjects: [String]) throws -> [(any DatabaseValueConvertible & Sendable)?] {
        subjects.isEmpty ? [] : [try JSONText(subjects)]
    }

    private static let pullJobs =
        "SELECT *, (SELECT subject FROM upload WHERE id = upload_id) AS subject FROM pull"

    package func nextPull(except subjects: [String]) async throws(UploadError) -> TimeInterval? {
        try await read { [self] database in
            let now = clock.now
            let first = try database.rows(
                """
                SELECT upload_id, next_attempt_at FROM pull INDEXED BY pull_pending
                WHERE next_attempt_at IS NOT NULL \(Self.isOfOthers(subjects)) ORDER BY next_attempt_at LIMIT ?
                """,
                SQLiteArguments(Self.list(subjects) + [1 + pullClaims.withLock { $0.count }])
            )
            return try first.map { row in
                let due = try row.date("next_attempt_at", of: "pull")
                let id: String = try row.value("upload_id", of: "pull")
                return max(due, pullClaims.withLock { $0.end(of: id, at: now) } ?? due)
            }.min()?.timeIntervalSince(now)
        }
    }

    package func update(_ job: PullJob, _ next: PullJob.Next) async throws(UploadError) -> Bool {
        let id = job.uploadID
        let isKnown = try await write { [self] database in
            guard pullClaims.withLock({ $0.holds(id.text, job.claim) }) else { return false }
            let before: Milliseconds? =
                try database.row("SELECT next_attempt_at FROM pull WHERE upload_id = ?", [id.text])?
                .optional("next_attempt_at", of: "pull")
            let date: Milliseconds? =
                switch next {
                case .working: before
                case .due(let seconds): Milliseconds(clock.now.addingTimeInterval(seconds))
                case .never: nil
                }
            try database.run(
                """
                UPDATE pull SET sealed = ?, validator = ?, total = ?, attempts = ?, failures = ?, furthest = ?,
                    next_attempt_at = ?, is_failed = ?, error_code = ?, error_message = ?
                WHERE upload_id = ? AND next_attempt_at IS NOT NULL
                """,
                [
                    job.sealed, job.validator, job.total, job.attempts, job.failures, job.furthest,
                    date, job.isFailed, job.lastError?.code, job.lastError?.message, id.text,
                ]
            )
            return database.changesCount == 1
        }
        if !isKnown || next != .working {
            pullClaims.withLock { claims in
                if claims.holds(id.text, job.claim) { claims.drop(id.text) }
            }
        }
        return isKnown
    }

    package func explain(_ id: UploadID, _ reason: PullJob.Reason) async throws(UploadError) -> Bool {
        try await write { database in
            try database.run(
                """
                UPDATE pull SET is_failed = TRUE, error_code = ?, error_message = ?
                WHERE upload_id = ? AND next_attempt_at IS NULL AND NOT is_failed
                    AND NOT EXISTS (SELECT 1 FROM upload WHERE id = upload_id AND state = 'completed')
                """,
                [reason.code, reason.message, id.text]
            )
            return database.changesCount == 1
        }
    }
}
