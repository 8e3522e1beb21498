internal import StateRecords
package import UploadCore

extension PostgresState {
    private static let columns = """
        upload_id, url, sealed, content_types, validator, total, attempts, failures, furthest, next_attempt_at, is_failed,
        error_code, error_message
        """

    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under terms: QuotaTerms,
        recording event: EventRecord,
        pulling job: PullJob
    ) async throws(UploadError) {
        try await insert(upload, consuming: grant, under: terms, recording: event) { connection in
            try connection.run(
                """
                INSERT INTO pull (\(Self.columns)) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
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
        try await read { connection in
            try connection.row("SELECT \(Self.columns) FROM pull WHERE upload_id = $1", [id.text])
                .map(PullJob.init(row:))
        }
    }

    package func pendingPulls(limit: Int) async throws(UploadError) -> [PullJob] {
        try await read { connection in
            try connection.rows(
                """
                SELECT \(Self.columns) FROM pull
                WHERE next_attempt_at IS NOT NULL ORDER BY next_attempt_at, upload_id LIMIT $1
                """,
                [limit]
            ).map(PullJob.init(row:))
        }
    }

    package func update(_ job: PullJob) async throws(UploadError) -> Bool {
        try await write { connection in
            try connection.run(
                """
                UPDATE pull SET sealed = $2, validator = $3, total = $4, attempts = $5, failures = $6, furthest = $7,
                    next_attempt_at = $8, is_failed = $9, error_code = $10, error_message = $11
                WHERE upload_id = $1 AND next_attempt_at IS NOT NULL
                """,
                [
                    job.uploadID.text, job.sealed, job.validator, job.total, job.attempts, job.failures, job.furthest,
                    job.nextAttemptAt.map(Milliseconds.init), job.isFailed, job.lastError?.code, job.lastError?.message,
                ]
            ) == 1
        }
    }
}
