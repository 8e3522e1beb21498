package import Foundation
internal import GRDB
internal import StateRecords
package import UploadModel

extension SQLiteState {
    package func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID] {
        try await read { database in
            try database.rows(
                """
                SELECT id FROM upload INDEXED BY upload_by_expiry
                WHERE expires_at IS NOT NULL AND expires_at <= ?
                ORDER BY expires_at LIMIT ?
                """,
                [Milliseconds(now), limit]
            ).map { try $0.uploadID("upload") }
        }
    }

    package func forgetEnded(before date: Date, dead deadDate: Date) async throws(UploadError) {
        for (table, id, rows, date) in [
            ("upload", "id", "INDEXED BY upload_ended WHERE state IN ('terminated', 'expired') AND ended_at < ?", date),
            // An expired grant admits nothing, whether it was used or not.
            ("used_grant", "id", "WHERE expires_at < ?", date),
            ("event", "sequence", "WHERE occurred_at < ? AND (delivery IS NULL OR delivery = 'delivered')", date),
            ("event", "sequence", "WHERE delivery = 'dead' AND occurred_at < ?", deadDate),
        ] {
            let statement = "DELETE FROM \(table) WHERE \(id) IN (SELECT \(id) FROM \(table) \(rows) LIMIT ?)"
            var count = RetentionStep.rows
            while count == RetentionStep.rows {
                count = try await write(.reserve) { database in
                    try database.run(statement, [Milliseconds(date), RetentionStep.rows])
                    return database.changesCount
                }
            }
        }
    }

    package func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID> {
        var needed: Set<UploadID> = []
        try await inChunks(ids) { database, list in
            try database.rows(
                """
                SELECT id FROM upload WHERE id IN (SELECT value FROM json_each(?)) AND state IN ('open', 'completed')
                """,
                [list]
            ).map { try $0.uploadID("upload") }
        } each: { id in
            needed.insert(id)
        }
        return needed
    }
}
