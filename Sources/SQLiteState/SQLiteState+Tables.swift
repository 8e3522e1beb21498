internal import Foundation
internal import GRDB
package import StateRecords
package import UploadModel

/// Reads everything, to copy the state.
extension SQLiteState {
    /// A page of all rows of a table, ordered by key.
    ///
    /// - Parameters:
    ///   - table: The table.
    ///   - key: The key of the last row of the previous page; `nil` for the first page.
    ///   - limit: Maximum number of rows; at least 1.
    /// - Returns: The values of each row in the order of the columns; empty at the end.
    /// - Throws: `.storageFailure`.
    package func rows(
        of table: StoredTable,
        after key: [StoredField]?,
        limit: Int
    ) async throws(UploadError) -> [[StoredField]] {
        let columns = table.columns.map(\.name).joined(separator: ", ")
        let keys = table.keyColumns.map(\.name).joined(separator: ", ")
        let places = table.keyColumns.map { _ in "?" }.joined(separator: ", ")
        let condition = key == nil ? "" : "WHERE (\(keys)) > (\(places))"
        return try await read { database in
            let values: [DatabaseValue] = (key ?? []).map(\.databaseValue) + [limit.databaseValue]
            let arguments = SQLiteArguments(values)
            return try database.rows(
                "SELECT \(columns) FROM \(table.name) \(condition) ORDER BY \(keys) LIMIT ?",
                arguments
            ).map { try table.fields(of: $0) }
        }
    }

    /// What is known of the events that are not there.
    ///
    /// - Throws: `.storageFailure`.
    package func eventHistory() async throws(UploadError) -> EventHistory {
        let last = try await lastEvent()
        return try await read { database in
            guard let row = try database.row("SELECT kept_until, complete_after FROM event_recording") else {
                return EventHistory(lastEvent: last)
            }
            return EventHistory(
                lastEvent: last,
                completeAfter: try row.value("complete_after", of: "event_recording"),
                keptUntil: try row.date("kept_until", of: "event_recording")
            )
        }
    }
}

extension StoredField {
    fileprivate var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .text(let value): value.databaseValue
        case .integer(let value): value.databaseValue
        case .flag(let value): value.databaseValue
        case .bytes(let value): Data(value).databaseValue
        }
    }
}
