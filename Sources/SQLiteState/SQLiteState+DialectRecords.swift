package import Foundation
internal import GRDB
internal import StateRecords
package import UploadModel

extension SQLiteState {
    package func apply(_ changes: [DialectChange]) async throws(UploadError) -> Bool {
        guard let changes = try DialectChange.ordered(changes) else { return false }
        return try await write(changes.allSatisfy(\.isRemoval) ? .reserve : .needed) { database in
            try database.run("SAVEPOINT records")
            var isRefused = false
            for change in changes where !isRefused {
                let (sql, arguments) = Self.statement(of: change)
                try database.run(sql, arguments)
                let isMade = database.changesCount > 0
                isRefused = change.isRequired && !isMade
                if isMade, let record = change.written { try Self.writeTerms(of: record, to: database) }
            }
            if isRefused { try database.run("ROLLBACK TO records") }
            try database.run("RELEASE records")
            return !isRefused
        }
    }

    /// Changes one row, or none if the record is not as the change wants it.
    static func statement(of change: DialectChange) -> (sql: String, arguments: SQLiteArguments) {
        switch change {
        case .insert(let record, let now), .insertIfAbsent(let record, let now):
            return (
                """
                INSERT INTO dialect_record AS old (kind, key, text, version, created_at, expires_at, terms_version)
                VALUES (?, ?, ?, 1, ?, ?, 1)
                ON CONFLICT (kind, key) DO UPDATE SET
                    text = excluded.text, version = 1, created_at = excluded.created_at,
                    expires_at = excluded.expires_at, terms_version = 1
                WHERE old.expires_at <= ?
                """,
                [
                    record.kind, record.key, record.text, Milliseconds(record.createdAt),
                    record.expiresAt.map(Milliseconds.init), Milliseconds(now),
                ]
            )
        case .replace(let record):
            return (
                """
                UPDATE dialect_record SET text = ?, expires_at = ?, version = version + 1, terms_version = version + 1
                WHERE kind = ? AND key = ? AND version = ?
                """,
                [
                    record.text, record.expiresAt.map(Milliseconds.init), record.kind, record.key, record.version,
                ]
            )
        case .remove(let kind, let key, let version?):
            return ("DELETE FROM dialect_record WHERE kind = ? AND key = ? AND version = ?", [kind, key, version])
        case .remove(let kind, let key, nil), .removeIfPresent(let kind, let key):
            return ("DELETE FROM dialect_record WHERE kind = ? AND key = ?", [kind, key])
        }
    }

    package func record(_ kind: String, _ key: String) async throws(UploadError) -> DialectRecord? {
        guard DialectRecord.canBeKey(key) else { return nil }
        return try await read { database in
            try database.row("SELECT * FROM dialect_record WHERE kind = ? AND key = ?", [kind, key])
                .map(DialectRecord.init(row:))
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

    private static func writeTerms(of record: DialectRecord, to database: Database) throws {
        guard let terms = record.terms else { return }
        try database.run("DELETE FROM dialect_term WHERE kind = ? AND key = ?", [record.kind, record.key])
        for term in Set(terms) {
            try database.run(
                "INSERT INTO dialect_term (kind, term, position, key) VALUES (?, ?, ?, ?)",
                [record.kind, term.text, term.position, record.key]
            )
        }
    }

    package func records(_ query: DialectTermQuery) async throws(UploadError) -> [FoundRecord] {
        guard DialectRecord.canBeKey(query.term) else { return [] }
        return try await read { database in
            let (sql, arguments) = Self.statement(of: query)
            return try database.rows(sql, arguments).map { row in
                FoundRecord(
                    record: try DialectRecord(row: row),
                    position: try row.value("position", of: "dialect_term")
                )
            }
        }
    }

    package func count(_ query: DialectTermQuery) async throws(UploadError) -> Int {
        guard DialectRecord.canBeKey(query.term) else { return 0 }
        return try await read { database in
            let (sql, arguments) = Self.statement(ofNumberOf: query)
            return try database.row(sql, arguments)?.value("number", of: "dialect_term") ?? 0
        }
    }

    static func statement(of query: DialectTermQuery) -> (sql: String, arguments: SQLiteArguments) {
        let (condition, order, arguments) = places(of: query)
        // The order of the join is that of the text.
        return (
            """
            SELECT record.*, term.position FROM dialect_term AS term
                CROSS JOIN dialect_record AS record ON record.kind = term.kind AND record.key = term.key
            WHERE \(condition) ORDER BY term.position \(order), term.key \(order) LIMIT ?
            """,
            arguments
        )
    }

    static func statement(ofNumberOf query: DialectTermQuery) -> (sql: String, arguments: SQLiteArguments) {
        let (condition, _, arguments) = places(of: query)
        return (
            "SELECT count(*) AS number FROM (SELECT 1 FROM dialect_term AS term WHERE \(condition) LIMIT ?)",
            arguments
        )
    }

    /// The range of the page; the arguments end with the limit.
    private static func places(
        of query: DialectTermQuery
    ) -> (condition: String, order: String, arguments: SQLiteArguments) {
        let (order, next, last) = query.isDescending ? ("DESC", "<", ">=") : ("ASC", ">", "<=")
        let bounds = query.positions
        let start = query.after == nil ? "term.position \(next)= ?" : "(term.position, term.key) \(next) (?, ?)"
        var arguments: SQLiteArguments = [query.kind, query.term]
        if let after = query.after {
            arguments += [after.position, after.key]
        } else {
            arguments += [query.isDescending ? bounds.upperBound : bounds.lowerBound]
        }
        arguments += [query.isDescending ? bounds.lowerBound : bounds.upperBound, query.limit]
        return ("term.kind = ? AND term.term = ? AND \(start) AND term.position \(last) ?", order, arguments)
    }

    package func term(of kind: String, prefix: String, after: String?) async throws(UploadError) -> String? {
        guard let terms = KeyRange(ofRecordsWith: prefix, after: after) else { return nil }
        return try await read { database in
            let (sql, arguments) = Self.statement(ofTermsOf: kind, terms)
            return try database.row(sql, arguments)?.value("term", of: "dialect_term")
        }
    }

    static func statement(ofTermsOf kind: String, _ terms: KeyRange) -> (sql: String, arguments: SQLiteArguments) {
        let (range, values) = terms.condition(on: "term") { _ in "?" }
        return (
            "SELECT term FROM dialect_term WHERE kind = ? AND \(range) ORDER BY term LIMIT 1",
            [kind] + SQLiteArguments(values)
        )
    }

    package func recordsWithoutTerms(
        _ kind: String,
        after: String?,
        limit: Int
    ) async throws(UploadError) -> [DialectRecord] {
        try await read { database in
            try database.rows(Self.withoutTerms, [kind, after ?? "", limit]).map(DialectRecord.init(row:))
        }
    }

    /// Takes a kind, a key and a number.
    static let withoutTerms = """
        SELECT * FROM dialect_record INDEXED BY dialect_record_without_terms
        WHERE kind = ? AND key > ? AND (terms_version IS NULL OR terms_version <> version) ORDER BY key LIMIT ?
        """

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
