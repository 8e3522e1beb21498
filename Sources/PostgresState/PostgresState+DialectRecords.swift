package import Foundation
internal import StateRecords
package import UploadModel

extension PostgresState {
    private static let recordColumns = "kind, key, text, version, created_at, expires_at"

    package func apply(_ changes: [DialectChange]) async throws(UploadError) -> Bool {
        guard let changes = try DialectChange.ordered(changes) else { return false }
        return try await write { connection in
            let replies = changes.map { change in
                let (sql, values) = Self.statement(of: change)
                return connection.send(sql, values)
            }
            // A change that is alone is either made or not.
            let isAlone = changes.count == 1 && changes[0].written?.terms == nil
            if isAlone { try connection.commit() } else { try connection.flush() }
            let made = zip(changes, replies).filter { $1.count > 0 }.map(\.0)
            let isRefused = made.count(where: \.isRequired) < changes.count(where: \.isRequired)
            if isRefused, !isAlone { connection.rollback() }
            if !isRefused { for change in made { change.written.map { Self.writeTerms(of: $0, to: connection) } } }
            return !isRefused
        }
    }

    /// Changes one row, or none if the record is not as the change wants it.
    ///
    /// Each statement waits for another transaction that is changing the record, and then sees what it left.
    static func statement(of change: DialectChange) -> (sql: String, values: [(any Parameter)?]) {
        switch change {
        case .insert(let record, let now), .insertIfAbsent(let record, let now):
            return (
                """
                INSERT INTO dialect_record AS old (\(recordColumns), terms_version) VALUES ($1, $2, $3, 1, $4, $5, 1)
                ON CONFLICT (kind, key) DO UPDATE SET
                    text = excluded.text, version = 1, created_at = excluded.created_at,
                    expires_at = excluded.expires_at, terms_version = 1
                WHERE old.expires_at <= $6
                """,
                [
                    record.kind, record.key, record.text, Milliseconds(record.createdAt),
                    record.expiresAt.map(Milliseconds.init), Milliseconds(now),
                ]
            )
        case .replace(let record):
            return (
                """
                UPDATE dialect_record
                SET text = $4, expires_at = $5, version = version + 1, terms_version = version + 1
                WHERE kind = $1 AND key = $2 AND version = $3
                """,
                [record.kind, record.key, record.version, record.text, record.expiresAt.map(Milliseconds.init)]
            )
        case .remove(let kind, let key, let version?):
            return ("DELETE FROM dialect_record WHERE kind = $1 AND key = $2 AND version = $3", [kind, key, version])
        case .remove(let kind, let key, nil), .removeIfPresent(let kind, let key):
            return ("DELETE FROM dialect_record WHERE kind = $1 AND key = $2", [kind, key])
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

    /// The record is locked by this transaction, so nobody else writes them.
    private static func writeTerms(of record: DialectRecord, to connection: Connection) {
        guard let terms = record.terms.map({ Array(Set($0)) }) else { return }
        connection.send("DELETE FROM dialect_term WHERE kind = $1 AND key = $2", [record.kind, record.key])
        if terms.isEmpty { return }
        connection.send(
            """
            INSERT INTO dialect_term (kind, term, position, key)
            SELECT $1, text, position, $2 FROM unnest($3::text[], $4::bigint[]) AS added (text, position)
            """,
            [record.kind, record.key, TextArray(terms.map(\.text)), IntegerArray(terms.map(\.position))]
        )
    }

    package func records(_ query: DialectTermQuery) async throws(UploadError) -> [FoundRecord] {
        guard DialectRecord.canBeKey(query.term) else { return [] }
        return try await read { connection in
            let (sql, values) = Self.statement(of: query)
            return try connection.rows(sql, values).map { row in
                FoundRecord(
                    record: try DialectRecord(row: row),
                    position: try row.value("position", of: "dialect_term")
                )
            }
        }
    }

    package func count(_ query: DialectTermQuery) async throws(UploadError) -> Int {
        guard DialectRecord.canBeKey(query.term) else { return 0 }
        return try await read { connection in
            let (sql, values) = Self.statement(ofNumberOf: query)
            return try connection.row(sql, values)?.value("number", of: "dialect_term") ?? 0
        }
    }

    static func statement(of query: DialectTermQuery) -> (sql: String, values: [(any Parameter)?]) {
        let (places, order, values) = places(of: query)
        // The places first: a join could be planned from the other side.
        return (
            """
            WITH place AS MATERIALIZED (\(places))
            SELECT record.kind, record.key, text, version, created_at, expires_at, place.position FROM place
                JOIN dialect_record AS record ON record.kind = $1 AND record.key = place.key
            ORDER BY place.position \(order), place.key \(order)
            """,
            values
        )
    }

    static func statement(ofNumberOf query: DialectTermQuery) -> (sql: String, values: [(any Parameter)?]) {
        let (places, _, values) = places(of: query)
        return ("SELECT count(*) AS number FROM (\(places)) AS place", values)
    }

    /// A statement with the range of the page.
    private static func places(
        of query: DialectTermQuery
    ) -> (sql: String, order: String, values: [(any Parameter)?]) {
        let (order, next, last) = query.isDescending ? ("DESC", "<", ">=") : ("ASC", ">", "<=")
        let bounds = query.positions
        let ends =
            query.isDescending ? [bounds.upperBound, bounds.lowerBound] : [bounds.lowerBound, bounds.upperBound]
        var values: [(any Parameter)?] = [query.kind, query.term, query.limit, ends[1]]
        var start = "position \(next)= $5"
        if let after = query.after {
            start = "(position, key) \(next) ($5, $6)"
            values += [after.position, after.key]
        } else {
            values.append(ends[0])
        }
        return (
            """
            SELECT position, key FROM dialect_term
            WHERE kind = $1 AND term = $2 AND \(start) AND position \(last) $4
            ORDER BY position \(order), key \(order) LIMIT $3
            """,
            order,
            values
        )
    }

    package func term(of kind: String, prefix: String, after: String?) async throws(UploadError) -> String? {
        guard let terms = KeyRange(ofRecordsWith: prefix, after: after) else { return nil }
        return try await read { connection in
            let (sql, values) = Self.statement(ofTermsOf: kind, terms)
            return try connection.row(sql, values)?.value("term", of: "dialect_term")
        }
    }

    static func statement(ofTermsOf kind: String, _ terms: KeyRange) -> (sql: String, values: [(any Parameter)?]) {
        let (range, values) = terms.condition(on: "term") { "$\($0 + 2)" }
        // By the whole key, so that the order is that of an index.
        return (
            "SELECT term FROM dialect_term WHERE kind = $1 AND \(range) ORDER BY term, position, key LIMIT 1",
            [kind] + values
        )
    }

    package func recordsWithoutTerms(
        _ kind: String,
        after: String?,
        limit: Int
    ) async throws(UploadError) -> [DialectRecord] {
        try await read { connection in
            try connection.rows(Self.withoutTerms, [kind, after ?? "", limit]).map(DialectRecord.init(row:))
        }
    }

    /// Takes a kind, a key and a number.
    static let withoutTerms = """
        SELECT \(recordColumns) FROM dialect_record
        WHERE kind = $1 AND key > $2 AND (terms_version IS NULL OR terms_version <> version) ORDER BY key LIMIT $3
        """

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
