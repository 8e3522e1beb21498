package import Foundation
internal import StateRecords
package import UploadModel

extension PostgresState {
    private static let columns = """
        upload_id, url, sealed, content_types, validator, total, attempts, failures, furthest, is_failed, error_code,
        error_message, next_attempt_at
        """

    private static let jobColumns = """
        \(columns), claim, is_claimed, (SELECT subject FROM upload WHERE id = upload_id) AS subject
        """

    /// The condition that a job is not of the users in an argument; for none, it costs nothing.
    private static func isOfOthers(_ subjects: [String], _ argument: String) -> String {
        subjects.isEmpty
            ? "cardinality(\(argument)::text[]) = 0"
            : "NOT EXISTS (SELECT FROM upload WHERE id = upload_id AND subject = ANY (\(argument)::text[]))"
    }

    private static func list(_ subjects: [String]) -> TextArray { TextArray(subjects) }

    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording event: EventRecord,
        pulling job: PullJob
    ) async throws(UploadError) {
        try await insert(upload, consuming: grant, under: effectiveLimits, recording: event) { connection in
            connection.send(
                """
                INSERT INTO pull (\(Self.columns))
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
                    CASE WHEN $13::bigint IS NOT NULL THEN least($13, \(Connection.now)) END)
                """,
                [
                    job.uploadID.text, job.url, job.sealed, try JSONText(job.contentTypes), job.validator, job.total,
                    job.attempts, job.failures, job.furthest, job.isFailed, job.lastError?.code,
                    job.lastError?.message, job.nextAttemptAt.map(Milliseconds.init),
                ]
            )
        }
    }

    package func pull(_ id: UploadID) async throws(UploadError) -> PullJob? {
        try await read { connection in
            try connection.row("SELECT \(Self.jobColumns) FROM pull WHERE upload_id = $1", [id.text])
                .map(Self.job)
        }
    }

    /// The condition for a job that is selected by its upload; written so that the planner does not search all open
    /// jobs.
    private static let isOpen = "coalesce(next_attempt_at, 0) > 0"

    private static func job(_ row: StoredRow) throws -> PullJob {
        var job = try PullJob(row: row)
        job.claim = try row.value("claim", of: "pull")
        job.isClaimed = try row.value("is_claimed", of: "pull") && job.nextAttemptAt != nil
        return job
    }

    package func claimPulls(limit: Int, except subjects: [String], for duration: TimeInterval)
        async throws(UploadError) -> [PullJob]
    {
        while try await nextPull(except: subjects).map({ $0 <= 0 }) ?? false {
            let (jobs, hasUnreadable) = try await write { [unreadable] connection in
                let rows = try connection.rows(
                    """
                    UPDATE pull SET claim = claim + 1, is_claimed = true,
                        next_attempt_at = \(Connection.now) + $2::bigint
                    WHERE upload_id = ANY (ARRAY(
                        SELECT upload_id FROM pull
                        WHERE next_attempt_at <= \(Connection.now) AND \(Self.isOfOthers(subjects, "$3"))
                        ORDER BY next_attempt_at, upload_id LIMIT $1 FOR UPDATE SKIP LOCKED
                    ))
                    RETURNING \(Self.jobColumns)
                    """,
                    [limit, Self.milliseconds(duration), Self.list(subjects)]
                )
                let found = unreadable.read(rows, of: "pull", by: "upload_id", Self.job)
                if !found.unreadable.isEmpty {
                    connection.send(
                        """
                        UPDATE pull SET is_claimed = false, next_attempt_at = \(Connection.now) + bad.pause
                        FROM unnest($1::text[], $2::bigint[]) AS bad (key, pause) WHERE upload_id = bad.key
                        """,
                        [TextArray(found.unreadable), IntegerArray(found.pauses)]
                    )
                }
                return (found.values, !found.unreadable.isEmpty)
            }
            // Others may be due behind those that cannot be read.
            if !jobs.isEmpty || !hasUnreadable { return jobs.sorted { $0.uploadID.text < $1.uploadID.text } }
        }
        return []
    }

    package func renewPulls(_ jobs: [PullJob], for duration: TimeInterval) async throws(UploadError) -> Set<UploadID> {
        try await write { connection in
            let held = try connection.rows(
                """
                UPDATE pull SET next_attempt_at = \(Connection.now) + $3::bigint
                FROM unnest($1::text[], $2::bigint[]) AS mine (id, number)
                WHERE upload_id = mine.id AND claim = mine.number AND is_claimed AND \(Self.isOpen)
                RETURNING upload_id AS id
                """,
                [
                    TextArray(jobs.map(\.uploadID.text)), IntegerArray(jobs.map(\.claim)),
                    Self.milliseconds(duration),
                ]
            )
            return Set(try held.map { try $0.uploadID("pull") })
        }
    }

    package func nextPull(except subjects: [String]) async throws(UploadError) -> TimeInterval? {
        try await read { connection in
            try connection.row(
                """
                SELECT next_attempt_at - \(Connection.now) AS wait FROM pull
                WHERE next_attempt_at IS NOT NULL AND \(Self.isOfOthers(subjects, "$1"))
                ORDER BY next_attempt_at, upload_id LIMIT 1
                """,
                [Self.list(subjects)]
            )?.integer("wait").map { Double($0) / 1000 }
        }
    }

    package func update(_ job: PullJob, _ next: PullJob.Next) async throws(UploadError) -> Bool {
        let date: String
        var wait: [(any Parameter)?] = []
        switch next {
        case .working: date = "next_attempt_at"
        case .due(let seconds):
            date = "\(Connection.now) + $12::bigint"
            wait = [Self.milliseconds(seconds)]
        case .never: date = "NULL"
        }
        let values: [(any Parameter)?] = [
            job.uploadID.text, job.claim, job.sealed, job.validator, job.total, job.attempts, job.failures,
            job.furthest, job.isFailed, job.lastError?.code, job.lastError?.message,
        ]
        let statement = """
            UPDATE pull SET sealed = $3, validator = $4, total = $5, attempts = $6, failures = $7, furthest = $8,
                is_failed = $9, error_code = $10, error_message = $11, is_claimed = \(next == .working),
                next_attempt_at = \(date)
            WHERE upload_id = $1 AND claim = $2 AND is_claimed AND \(Self.isOpen)
            """
        return try await write { [wait] connection in try connection.run(statement, values + wait) == 1 }
    }

    package func explain(_ id: UploadID, _ reason: PullJob.Reason) async throws(UploadError) -> Bool {
        try await write { connection in
            try connection.run(
                """
                UPDATE pull SET is_failed = TRUE, error_code = $2, error_message = $3
                WHERE upload_id = $1 AND NOT (\(Self.isOpen)) AND NOT is_failed
                    AND NOT EXISTS (SELECT 1 FROM upload WHERE id = upload_id AND state = 'completed')
                """,
                [id.text, reason.code, reason.message]
            ) == 1
        }
    }
}
