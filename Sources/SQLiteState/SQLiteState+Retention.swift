package import Foundation
internal import GRDB
internal import StateRecords
package import UploadCore

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

    package func forgetEnded(before date: Date) async throws(UploadError) {
        try await write { database in
            let date = Milliseconds(date)
            try database.run(
                """
                DELETE FROM upload INDEXED BY upload_ended
                WHERE state IN ('terminated', 'expired') AND ended_at < ?
                """,
                [date]
            )
            // An expired grant admits nothing, whether it was used or not.
            try database.run("DELETE FROM used_grant WHERE expires_at < ?", [date])
            try database.run(
                "DELETE FROM event WHERE occurred_at < ? AND (delivery IS NULL OR delivery = 'delivered')",
                [date]
            )
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
