internal import Foundation
internal import GRDB
internal import GRDBSQLite
internal import StateRecords
internal import Synchronization

extension StoredRow {
    /// The rows of a statement that is compiled once per connection.
    static func all(_ database: Database, _ sql: String, _ arguments: SQLiteArguments) throws -> [StoredRow] {
        let statement = try database.cachedStatement(sql: sql)
        let rows = try StatementRow.fetchAll(statement, arguments: arguments.bound)
        if rows.isEmpty { return [] }
        let columns = layouts.withLock { layouts in
            if let known = layouts[sql] { return known }
            let columns = Dictionary(zip(statement.columnNames, 0...)) { first, _ in first }
            // Texts of lists vary; most statements are of a few kinds.
            if layouts.count >= maximumLayouts { layouts.removeAll() }
            layouts[sql] = columns
            return columns
        }
        return rows.map { StoredRow(columns: columns, values: $0.values) }
    }

    /// By statement; the columns of a table never change while the database is open.
    private static let layouts = Mutex<[String: [String: Int]]>([:])
    private static let maximumLayouts = 500
}

/// All columns of a row, read in one go.
///
/// GRDB's own `Row` makes a table of the names of all columns, in lower case, for each query; a value that is read from a
/// statement costs nothing of the kind. So a row is read as such a value.
private struct StatementRow: DatabaseValueConvertible, StatementColumnConvertible {
    let values: [StoredCell]

    static func fromStatement(_ statement: SQLiteStatement, atUncheckedIndex index: CInt) -> StatementRow? {
        StatementRow(sqliteStatement: statement, index: index)
    }

    init(sqliteStatement statement: SQLiteStatement, index: CInt) {
        values = (0..<sqlite3_column_count(statement)).map { StoredCell(statement, $0) }
    }

    /// Not a value of one column.
    var databaseValue: DatabaseValue { .null }

    static func fromDatabaseValue(_ databaseValue: DatabaseValue) -> StatementRow? { nil }
}

extension StoredCell {
    /// The value of a column in the current row of a statement.
    ///
    /// SQLite's pointer to it is valid until the statement is stepped or reset, or the column is converted; the value is copied
    /// before.
    fileprivate init(_ statement: SQLiteStatement, _ column: CInt) {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER:
            self = .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT:
            self = Int64(exactly: sqlite3_column_double(statement, column)).map { .integer($0) } ?? .other
        case SQLITE_TEXT:
            let start = sqlite3_column_text(statement, column)
            let count = Int(sqlite3_column_bytes(statement, column))
            self = .text(String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self))
        case SQLITE_BLOB:
            let start = sqlite3_column_blob(statement, column)
            let count = Int(sqlite3_column_bytes(statement, column))
            self = .bytes([UInt8](UnsafeRawBufferPointer(start: start, count: count)))
        default:
            self = .null
        }
    }
}

extension Milliseconds: DatabaseValueConvertible {
    var databaseValue: DatabaseValue { value.databaseValue }

    static func fromDatabaseValue(_ databaseValue: DatabaseValue) -> Milliseconds? {
        Int64.fromDatabaseValue(databaseValue).map { Milliseconds(stored: $0) }
    }
}

extension JSONText: DatabaseValueConvertible {
    var databaseValue: DatabaseValue { text.databaseValue }

    static func fromDatabaseValue(_ databaseValue: DatabaseValue) -> JSONText? {
        String.fromDatabaseValue(databaseValue).map { JSONText(stored: $0) }
    }
}
