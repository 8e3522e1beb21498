internal import Foundation
internal import GRDB
internal import StateRecords

extension Row: StoredRow {
    func isNull(_ column: String) -> Bool { stored(column).isNull }
    func text(_ column: String) -> String? { String.fromDatabaseValue(stored(column)) }
    func integer(_ column: String) -> Int64? { Int64.fromDatabaseValue(stored(column)) }
    func flag(_ column: String) -> Bool? { Bool.fromDatabaseValue(stored(column)) }
    func bytes(_ column: String) -> [UInt8]? { Data.fromDatabaseValue(stored(column)).map { [UInt8]($0) } }

    private func stored(_ column: String) -> DatabaseValue { self[column] }
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
