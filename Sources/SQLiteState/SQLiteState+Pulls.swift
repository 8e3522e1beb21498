internal import GRDB
internal import StateRecords
package import UploadCore

extension SQLiteState {
    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under terms: QuotaTerms,
        recording event: EventRecord,
        pulling job: PullJob
    ) async throws(UploadError) {
        try await insert(upload, consuming: grant, under: terms, recording: event) { database in
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
        try await read { database in
            try database.row("SELECT * FROM pull WHERE upload_id = ?", [id.text]).map(PullJob.init(row:))
        }
    }

    package func pendingPulls(limit: Int) async throws(UploadError) -> [PullJob] {
        try await read { database in
            try database.rows(
                """
                SELECT * FROM pull INDEXED BY pull_pending
                WHERE next_attempt_at IS NOT NULL ORDER BY next_attempt_at, upload_id LIMIT ?
                """,
                [limit]
            ).map(PullJob.init(row:))
        }
    }

    package func update(_ job: PullJob) async throws(UploadError) -> Bool {
        try await write { database in
            try database.run(
                """
                UPDATE pull SET sealed = ?, validator = ?, total = ?, attempts = ?, failures = ?, furthest = ?,
                    next_attempt_at = ?, is_failed = ?, error_code = ?, error_message = ?
                WHERE upload_id = ? AND next_attempt_at IS NOT NULL
                """,
                [
                    job.sealed, job.validator, job.total, job.attempts, job.failures, job.furthest,
                    job.nextAttemptAt.map(Milliseconds.init), job.isFailed, job.lastError?.code, job.lastError?.message,
                    job.uploadID.text,
                ]
            )
            return database.changesCount == 1
        }
    }
}
