package import Foundation
internal import StateRecords
package import UploadModel

extension PostgresState {
    package func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID] {
        try await read { connection in
            try connection.rows(
                "SELECT id FROM upload WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2",
                [Milliseconds(now), limit]
            ).map { try $0.uploadID("upload") }
        }
    }

    package func forgetEnded(before date: Date, dead deadDate: Date) async throws(UploadError) {
        try await clearBacklog()
        // Short transactions, each for one kind of rows. Rows locked by another node are being removed there, or are
        // found the next time.
        for (table, id, condition, date) in [
            ("upload", "id", "state IN ('terminated', 'expired') AND ended_at < $1", date),
            // An expired grant admits nothing, whether it was used or not.
            ("used_grant", "id", "expires_at < $1", date),
            ("event", "sequence", "occurred_at < $1 AND (delivery IS NULL OR delivery = 'delivered')", date),
            ("event", "sequence", "delivery = 'dead' AND occurred_at < $1", deadDate),
        ] {
            let statement = """
                DELETE FROM \(table) WHERE \(id) = ANY (ARRAY(
                    SELECT \(id) FROM \(table) WHERE \(condition) LIMIT $2 FOR UPDATE SKIP LOCKED
                ))
                """
            var count = RetentionStep.rows
            while count == RetentionStep.rows {
                count = try await write { try $0.run(statement, [Milliseconds(date), RetentionStep.rows]) }
            }
        }
    }

    package func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID> {
        try await read { connection in
            let found = try connection.rows(
                "SELECT id FROM upload WHERE id = ANY ($1::text[]) AND state IN ('open', 'completed')",
                [TextArray(ids.map(\.text))]
            )
            return Set(try found.map { try $0.uploadID("upload") })
        }
    }
}
