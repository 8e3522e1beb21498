internal import Bytes
internal import Digests
package import Foundation
package import UploadModel

/// A row of the state, independent of the database.
///
/// A value is `nil` if the column is null or has another type.
package protocol StoredRow {
    func isNull(_ column: String) -> Bool
    func text(_ column: String) -> String?
    func integer(_ column: String) -> Int64?
    func flag(_ column: String) -> Bool?
    func bytes(_ column: String) -> [UInt8]?
}

/// A type that a column can be read as.
package protocol StoredValue {
    init?(_ column: String, of row: some StoredRow)
}

extension String: StoredValue {
    package init?(_ column: String, of row: some StoredRow) {
        guard let text = row.text(column) else { return nil }
        self = text
    }
}

extension Int64: StoredValue {
    package init?(_ column: String, of row: some StoredRow) {
        guard let integer = row.integer(column) else { return nil }
        self = integer
    }
}

extension Int: StoredValue {
    package init?(_ column: String, of row: some StoredRow) {
        guard let integer = row.integer(column) else { return nil }
        self.init(exactly: integer)
    }
}

extension Bool: StoredValue {
    package init?(_ column: String, of row: some StoredRow) {
        guard let flag = row.flag(column) else { return nil }
        self = flag
    }
}

extension [UInt8]: StoredValue {
    package init?(_ column: String, of row: some StoredRow) {
        guard let bytes = row.bytes(column) else { return nil }
        self = bytes
    }
}

extension Milliseconds: StoredValue {
    package init?(_ column: String, of row: some StoredRow) {
        guard let integer = row.integer(column) else { return nil }
        self.init(stored: integer)
    }
}

extension JSONText: StoredValue {
    package init?(_ column: String, of row: some StoredRow) {
        guard let text = row.text(column) else { return nil }
        self.init(stored: text)
    }
}

/// A record that this version cannot read.
package struct UnreadableRecord: Error, CustomStringConvertible {
    package let table: String
    package let column: String

    package init(table: String, column: String) {
        self.table = table
        self.column = column
    }

    package var description: String { "unreadable value in \(table).\(column)" }
}

extension StoredRow {
    package func digests(_ column: String, of table: String) throws -> DigestValues {
        guard let stored: JSONText = try optional(column, of: table) else { return [:] }
        var digests: DigestValues = [:]
        for (name, text) in try stored.texts() {
            guard let algorithm = DigestAlgorithm(rawValue: name), let value = Base64.decode(text) else {
                throw UnreadableRecord(table: table, column: column)
            }
            digests[algorithm] = value
        }
        return digests
    }

    package func value<Value: StoredValue>(_ column: String, of table: String) throws -> Value {
        guard let value: Value = try optional(column, of: table) else {
            throw UnreadableRecord(table: table, column: column)
        }
        return value
    }

    package func optional<Value: StoredValue>(_ column: String, of table: String) throws -> Value? {
        if isNull(column) { return nil }
        guard let value = Value(column, of: self) else {
            throw UnreadableRecord(table: table, column: column)
        }
        return value
    }

    package func date(_ column: String, of table: String) throws -> Date {
        let time: Milliseconds = try value(column, of: table)
        return time.date
    }

    package func optionalDate(_ column: String, of table: String) throws -> Date? {
        let time: Milliseconds? = try optional(column, of: table)
        return time?.date
    }

    package func json<Value: Decodable>(_ column: String, of table: String) throws -> Value {
        let text: JSONText = try value(column, of: table)
        return try text.decoded(as: Value.self)
    }

    /// An object whose members are texts.
    package func texts(_ column: String, of table: String) throws -> [String: String] {
        let text: JSONText = try value(column, of: table)
        return try text.texts()
    }

    package func uploadID(_ table: String) throws -> UploadID {
        let text: String = try value("id", of: table)
        guard let id = UploadID(text) else { throw UnreadableRecord(table: table, column: "id") }
        return id
    }
}
