package import StateRecords
package import UploadModel

/// The progress of a copy of another database into this one.
package struct ImportProgress: Sendable, Equatable, Codable {
    /// The rows of one table that were copied.
    package struct Table: Sendable, Equatable, Codable {
        /// Number of rows.
        package fileprivate(set) var count: Int
        /// The key of the last row, in the order of the source.
        package fileprivate(set) var last: [StoredField]
    }

    fileprivate var tables: [String: Table] = [:]

    package func table(_ table: StoredTable) -> Table? { tables[table.name] }
}

/// Whether a database can receive a copy of another one.
package enum ImportStart: Sendable {
    /// It is empty, or contains part of this copy.
    case open(ImportProgress)
    /// It contains the whole copy.
    case finished
    /// It contains part of a copy from another source.
    case otherSource
    /// It contains other data, in this table.
    case inUse(table: String)
}

/// Fills an empty database with the rows of another one.
///
/// Progress is recorded in the same transaction as the rows, so it is correct whenever the process dies. No gateway
/// opens the database until the copy is finished: it would treat bytes whose rows are still missing as orphans.
extension PostgresState {
    /// Opens a database that may contain an unfinished copy; must be closed.
    ///
    /// - Throws: An error if the database cannot be reached or changed, or was created by a newer version.
    package static func openForImport(_ settings: PostgresSettings) async throws(PostgresStateError) -> PostgresState {
        try await open(settings, asNode: false, amidImport: true)
    }

    /// Starts or resumes a copy.
    ///
    /// - Parameters:
    ///   - source: Identifies the source.
    ///   - isNew: Whether to discard an unfinished copy of this source and start again.
    /// - Returns: Whether the copy is possible, and its progress.
    /// - Throws: `.unavailable`, `.storageFull`, `.storageFailure`.
    package func beginImport(from source: String, anew isNew: Bool) async throws(UploadError) -> ImportStart {
        try await clearBacklog()
        return try await write { connection in
            let empty = try JSONText(ImportProgress())
            if try connection.hasTable("state_import") {
                try connection.execute("LOCK TABLE state_import IN EXCLUSIVE MODE")
                let found = try connection.row(
                    "SELECT source, progress, finished_at IS NOT NULL AS is_finished FROM state_import"
                )
                guard let found, found.text("source") == source else { return .otherSource }
                if found.flag("is_finished") == true { return .finished }
                if !isNew { return .open(try found.json("progress", of: "state_import")) }
                try connection.execute("TRUNCATE \(Self.allTables)")
                try connection.run("UPDATE state_import SET progress = $1", [empty])
                return .open(ImportProgress())
            }
            for table in StoredTable.all {
                let row = try connection.row("SELECT EXISTS (SELECT FROM \(table.name)) AS has_rows")
                if row?.flag("has_rows") != false { return .inUse(table: table.name) }
            }
            try connection.execute(
                """
                CREATE TABLE state_import (
                    is_single boolean PRIMARY KEY DEFAULT true CHECK (is_single),
                    source text NOT NULL,
                    -- JSON.
                    progress text NOT NULL,
                    finished_at timestamptz
                )
                """
            )
            try connection.run("INSERT INTO state_import (source, progress) VALUES ($1, $2)", [source, empty])
            return .open(ImportProgress())
        }
    }

    /// Adds the next rows of a table.
    ///
    /// - Parameters:
    ///   - rows: The values of each row in the order of the columns; at least one row.
    ///   - table: The target table.
    ///   - progress: The progress before these rows.
    /// - Returns: The progress after these rows.
    /// - Throws: `.busy`, with nothing changed, if another process has continued the copy; `.unavailable`,
    ///   `.storageFull`, `.storageFailure`.
    package func importRows(
        _ rows: [[StoredField]],
        into table: StoredTable,
        after progress: ImportProgress
    ) async throws(UploadError) -> ImportProgress {
        guard let last = rows.last else { return progress }
        var next = progress
        let count = (progress.table(table)?.count ?? 0) + rows.count
        next.tables[table.name] = ImportProgress.Table(count: count, last: table.key(of: last))
        let after = next
        try await write { connection in
            let changed = try connection.run(
                "UPDATE state_import SET progress = $1 WHERE progress = $2 AND finished_at IS NULL",
                [try JSONText(after), try JSONText(progress)]
            )
            guard changed == 1 else {
                throw UploadError(.busy, "Another process has continued this migration; only one can.")
            }
            let columns = table.columns.map(\.name).joined(separator: ", ")
            let arrays = table.columns.enumerated().map { "$\($0 + 1)::\($1.kind.postgresType)[]" }
            try connection.run(
                "INSERT INTO \(table.name) (\(columns)) SELECT * FROM unnest(\(arrays.joined(separator: ", ")))",
                table.columns.indices.map { column in TextArray(texts: rows.map { $0[column].parameter?.postgresText })
                }
            )
        }
        return after
    }

    /// A page of all rows of a table, ordered by key.
    ///
    /// - Parameters:
    ///   - table: The table.
    ///   - key: The key of the last row of the previous page; `nil` for the first page.
    ///   - limit: Maximum number of rows; at least 1.
    /// - Returns: The values of each row in the order of the columns; empty at the end.
    /// - Throws: `.unavailable`, `.storageFailure`.
    package func rows(
        of table: StoredTable,
        after key: [StoredField]?,
        limit: Int
    ) async throws(UploadError) -> [[StoredField]] {
        let columns = table.columns.map(\.name).joined(separator: ", ")
        let keys = table.keyColumns.map(\.name).joined(separator: ", ")
        let places = table.keyColumns.enumerated().map { "$\($0 + 2)::\($1.kind.postgresType)" }
        if key == nil { try await clearBacklog() }
        let condition = key == nil ? "" : "WHERE (\(keys)) > (\(places.joined(separator: ", ")))"
        return try await read { connection in
            try connection.rows(
                "SELECT \(columns) FROM \(table.name) \(condition) ORDER BY \(keys) LIMIT $1",
                [limit] + (key ?? []).map(\.parameter)
            ).map { try table.fields(of: $0) }
        }
    }

    /// Finishes a complete copy: from now on gateways can open the database.
    ///
    /// - Parameter events: What the source knows of the events that it does not have.
    /// - Throws: `.unavailable`, `.storageFull`, `.storageFailure`.
    package func finishImport(events: EventHistory) async throws(UploadError) {
        try await write { connection in
            try connection.run(
                "UPDATE event_recording SET kept_until = $1, agreed_until = $1, complete_after = $2",
                [Milliseconds(events.keptUntil), events.completeAfter]
            )
            try connection.run("UPDATE event_counter SET last = greatest(last, $1)", [events.lastEvent])
            try connection.run("UPDATE state_import SET finished_at = now()")
        }
        // Otherwise the first queries are planned as for empty tables; if this fails, autovacuum does it later.
        _ = try? await write { connection in
            let usual = connection.answerTime
            defer { connection.answerTime = usual }
            connection.answerTime = nil
            try connection.execute("SET LOCAL statement_timeout = 0; ANALYZE \(Self.allTables)")
        }
    }

    private static let allTables = StoredTable.all.map(\.name).joined(separator: ", ")
}

extension Connection {
    /// Whether the database contains an unfinished copy.
    func isAmidImport() throws(DatabaseFailure) -> Bool {
        guard try hasTable("state_import") else { return false }
        let row = try row("SELECT EXISTS (SELECT FROM state_import WHERE finished_at IS NULL) AS is_open")
        return row?.flag("is_open") == true
    }
}

/// The database contains an unfinished copy.
struct UnfinishedImport: Error {}

extension StoredTable.Kind {
    fileprivate var postgresType: String {
        switch self {
        case .text: "text"
        case .integer: "bigint"
        case .flag: "boolean"
        case .bytes: "bytea"
        }
    }
}

extension StoredField {
    fileprivate var parameter: (any Parameter)? {
        switch self {
        case .null: nil
        case .text(let value): value
        case .integer(let value): value
        case .flag(let value): value
        case .bytes(let value): value
        }
    }
}
