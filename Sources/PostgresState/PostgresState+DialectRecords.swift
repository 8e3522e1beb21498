package import Foundation
internal import StateRecords
package import UploadModel

extension PostgresState {
    private static let recordColumns = "kind, key, text, version, created_at, expires_at"

    package func insert(_ record: DialectRecord, at now: Date) async throws(UploadError) -> Bool {
        try record.checkTexts()
        return try await write { connection in
            // Waits for another transaction that is inserting this key, and then sees its expiry.
            try connection.run(
                """
                INSERT INTO dialect_record AS old (\(Self.recordColumns)) VALUES ($1, $2, $3, 1, $4, $5)
                ON CONFLICT (kind, key) DO UPDATE SET
                    text = excluded.text, version = 1, created_at = excluded.created_at,
                    expires_at = excluded.expires_at
                WHERE old.expires_at <= $6
                """,
                [
                    record.kind, record.key, record.text, Milliseconds(record.createdAt),
                    record.expiresAt.map(Milliseconds.init), Milliseconds(now),
                ]
            ) == 1
        }
    }

    package func record(_ kind: String, _ key: String) async throws(UploadError) -> DialectRecord? {
        guard DialectRecord.canBeKey(key) else { return nil }
        return try await read { connection in
            try connection.row(
                "SELECT \(Self.recordColumns) FROM dialect_record WHERE kind = $1 AND key = $2",
                [kind, key]
            ).map(DialectRecord.init(row:))
        }
    }

    package func replace(_ record: DialectRecord) async throws(UploadError) -> Bool {
        try record.checkTexts()
        return try await write { connection in
            try connection.run(
                """
                UPDATE dialect_record SET text = $4, expires_at = $5, version = version + 1
                WHERE kind = $1 AND key = $2 AND version = $3
                """,
                [
                    record.kind, record.key, record.version, record.text, record.expiresAt.map(Milliseconds.init),
                ]
            ) == 1
        }
    }

    package func removeRecord(_ kind: String, _ key: String) async throws(UploadError) -> Bool {
        guard DialectRecord.canBeKey(key) else { return false }
        return try await write { connection in
            try connection.run("DELETE FROM dialect_record WHERE kind = $1 AND key = $2", [kind, key]) == 1
        }
    }

    package func records(
        _ kind: String,
        prefix: String,
        after: String?,
        limit: Int
    ) async throws(UploadError) -> [DialectRecord] {
        guard let keys = KeyRange(ofRecordsWith: prefix, after: after) else { return [] }
        return try await read { connection in
            let (sql, values) = Self.statement(ofRecords: kind, keys, limit)
            return try connection.rows(sql, values).map(DialectRecord.init(row:))
        }
    }

    static func statement(
        ofRecords kind: String,
        _ keys: KeyRange,
        _ limit: Int
    ) -> (sql: String, values: [(any Parameter)?]) {
        let (range, values) = keys.condition(on: "key") { "$\($0 + 3)" }
        return (
            "SELECT \(recordColumns) FROM dialect_record WHERE kind = $1 AND \(range) ORDER BY key LIMIT $2",
            [kind, limit] + values
        )
    }

    /// Removes some expired records, the oldest first; takes a time and a number.
    ///
    /// Rows locked by another node are being removed or renewed there, or are found the next time. By their places in the
    /// table, because a join by kind and key might read the whole table; a row that is locked keeps its place.
    static let forgetRecords = """
        DELETE FROM dialect_record WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM dialect_record WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
        ))
        """

    package func forgetRecords(expiredBefore date: Date) async throws(UploadError) {
        var count = RetentionStep.rows
        while count == RetentionStep.rows {
            count = try await write { try $0.run(Self.forgetRecords, [Milliseconds(date), RetentionStep.rows]) }
        }
    }
}
