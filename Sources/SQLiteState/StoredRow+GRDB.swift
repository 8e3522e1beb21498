internal import Foundation
internal import GRDB
internal import StateRecords
internal import Synchronization

/// A row whose columns are found by a hash of their names; GRDB compares all names in lower case for each value.
struct SQLiteRow: StoredRow {
    fileprivate let row: Row
    /// By name.
    fileprivate let columns: [String: Int]

    func isNull(_ column: String) -> Bool { stored(column).isNull }
    func text(_ column: String) -> String? { String.fromDatabaseValue(stored(column)).map(StorableText.decode) }
    func integer(_ column: String) -> Int64? { Int64.fromDatabaseValue(stored(column)) }
    func flag(_ column: String) -> Bool? { Bool.fromDatabaseValue(stored(column)) }
    func bytes(_ column: String) -> [UInt8]? { Data.fromDatabaseValue(stored(column)).map { [UInt8]($0) } }

    private func stored(_ column: String) -> DatabaseValue {
        guard let index = columns[column] else { return .null }
        return row[index]
    }
}

extension SQLiteRow {
    /// The rows of a statement that is compiled once per connection.
    static func all(_ database: Database, _ sql: String, _ arguments: SQLiteArguments) throws -> [SQLiteRow] {
        let statement = try database.cachedStatement(sql: sql)
        let rows = try Row.fetchAll(statement, arguments: arguments.bound)
        if rows.isEmpty { return [] }
        let columns = layouts.withLock { layouts in
            if let known = layouts[sql] { return known }
            let columns = Dictionary(zip(statement.columnNames, 0...)) { first, _ in first }
            // Texts of lists vary; most statements are of a few kinds.
            if layouts.count >= maximumLayouts { layouts.removeAll() }
            layouts[sql] = columns
            return columns
        }
        return rows.map { SQLiteRow(row: $0, columns: columns) }
    }

    /// By statement; the columns of a table never change while the database is open.
    private static let layouts = Mutex<[String: [String: Int]]>([:])
    private static let maximumLayouts = 500
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
