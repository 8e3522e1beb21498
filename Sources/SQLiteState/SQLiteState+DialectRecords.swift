package import Foundation
internal import GRDB
internal import StateRecords
package import UploadModel

extension SQLiteState {
    package func insert(_ record: DialectRecord, at now: Date) async throws(UploadError) -> Bool {
        try record.checkTexts()
        return try await write { database in
            try database.run(
                """
                INSERT INTO dialect_record AS old (kind, key, text, version, created_at, expires_at)
                VALUES (?, ?, ?, 1, ?, ?)
                ON CONFLICT (kind, key) DO UPDATE SET
                    text = excluded.text, version = 1, created_at = excluded.created_at,
                    expires_at = excluded.expires_at
                WHERE old.expires_at <= ?
                """,
                [
                    record.kind, record.key, record.text, Milliseconds(record.createdAt),
                    record.expiresAt.map(Milliseconds.init), Milliseconds(now),
                ]
            )
            return database.changesCount == 1
        }
    }

    package func record(_ kind: String, _ key: String) async throws(UploadError) -> DialectRecord? {
        guard DialectRecord.canBeKey(key) else { return nil }
        return try await read { database in
            try database.row("SELECT * FROM dialect_record WHERE kind = ? AND key = ?", [kind, key])
                .map(DialectRecord.init(row:))
        }
    }

    package func replace(_ record: DialectRecord) async throws(UploadError) -> Bool {
        try record.checkTexts()
        return try await write { database in
            try database.run(
                """
                UPDATE dialect_record SET text = ?, expires_at = ?, version = version + 1
                WHERE kind = ? AND key = ? AND version = ?
                """,
                [
                    record.text, record.expiresAt.map(Milliseconds.init), record.kind, record.key, record.version,
                ]
            )
            return database.changesCount == 1
        }
    }

    package func removeRecord(_ kind: String, _ key: String) async throws(UploadError) -> Bool {
        guard DialectRecord.canBeKey(key) else { return false }
        return try await write(.reserve) { database in
            try database.run("DELETE FROM dialect_record WHERE kind = ? AND key = ?", [kind, key])
            return database.changesCount == 1
        }
    }

    package func records(
        _ kind: String,
        prefix: String,
        after: String?,
        limit: Int
    ) async throws(UploadError) -> [DialectRecord] {
        guard let keys = KeyRange(ofRecordsWith: prefix, after: after) else { return [] }
        return try await read { database in
            let (sql, arguments) = Self.statement(ofRecords: kind, keys, limit)
            return try database.rows(sql, arguments).map(DialectRecord.init(row:))
        }
    }

    static func statement(
        ofRecords kind: String,
        _ keys: KeyRange,
        _ limit: Int
    ) -> (sql: String, arguments: SQLiteArguments) {
        let (range, values) = keys.condition(on: "key") { _ in "?" }
        return (
            "SELECT * FROM dialect_record WHERE kind = ? AND \(range) ORDER BY key LIMIT ?",
            [kind] + SQLiteArguments(values) + [limit]
        )
    }

    /// Removes some expired records, the oldest first; takes a time and a number.
    static let forgetRecords = """
        DELETE FROM dialect_record WHERE (kind, key) IN (
            SELECT kind, key FROM dialect_record INDEXED BY dialect_record_by_expiry
            WHERE expires_at IS NOT NULL AND expires_at < ? ORDER BY expires_at LIMIT ?
        )
        """

    package func forgetRecords(expiredBefore date: Date) async throws(UploadError) {
        var count = RetentionStep.rows
        while count == RetentionStep.rows {
            count = try await write(.reserve) { database in
                try database.run(Self.forgetRecords, [Milliseconds(date), RetentionStep.rows])
                return database.changesCount
            }
        }
    }
}
