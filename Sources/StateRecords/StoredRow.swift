internal import Bytes
internal import Digests
package import Foundation
package import UploadModel

/// A row of the state, independent of the database.
///
/// One type for all databases: what reads it is compiled for it, and costs a fraction of generic code.
package struct StoredRow: Sendable {
    /// The index of each column.
    private let columns: [String: Int]
    private let values: [StoredCell]

    package init(columns: [String: Int], values: [StoredCell]) {
        self.columns = columns
        self.values = values
    }

    /// The value of a column; null if the row has no column with this name.
    package func cell(_ column: String) -> StoredCell { columns[column].map { values[$0] } ?? .null }

    package func isNull(_ column: String) -> Bool { cell(column).isNull }
    package func text(_ column: String) -> String? { cell(column).text }
    package func integer(_ column: String) -> Int64? { cell(column).integer }
    package func flag(_ column: String) -> Bool? { cell(column).flag }
    package func bytes(_ column: String) -> [UInt8]? { cell(column).bytes }
}

/// A value as a database returns it; `nil` where it has another type than is asked for.
package enum StoredCell: Sendable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])
    /// In PostgreSQL's text format, with `bytea_output = hex`: the reader knows the type.
    case written(String)
    /// Of a type that no column has, such as a fraction.
    case other

    package var isNull: Bool {
        if case .null = self { true } else { false }
    }

    package var text: String? {
        switch self {
        case .text(let text), .written(let text): StorableText.decode(text)
        case .null, .integer, .bytes, .other: nil
        }
    }

    package var integer: Int64? {
        switch self {
        case .integer(let integer): integer
        case .written(let text): Int64(text)
        case .null, .text, .bytes, .other: nil
        }
    }

    package var flag: Bool? {
        switch self {
        case .integer(let integer): integer != 0
        case .written("t"): true
        case .written("f"): false
        case .null, .text, .bytes, .written, .other: nil
        }
    }

    package var bytes: [UInt8]? {
        switch self {
        case .bytes(let bytes): bytes
        case .written(let text): text.hasPrefix("\\x") ? Hexadecimal.decode(text.dropFirst(2)) : nil
        case .null, .integer, .text, .other: nil
        }
    }
}

/// A type that a column can be read as.
package protocol StoredValue {
    init?(_ cell: StoredCell)
}

extension String: StoredValue {
    package init?(_ cell: StoredCell) {
        guard let text = cell.text else { return nil }
        self = text
    }
}

extension Int64: StoredValue {
    package init?(_ cell: StoredCell) {
        guard let integer = cell.integer else { return nil }
        self = integer
    }
}

extension Int: StoredValue {
    package init?(_ cell: StoredCell) {
        guard let integer = cell.integer else { return nil }
        self.init(exactly: integer)
    }
}

extension Bool: StoredValue {
    package init?(_ cell: StoredCell) {
        guard let flag = cell.flag else { return nil }
        self = flag
    }
}

extension [UInt8]: StoredValue {
    package init?(_ cell: StoredCell) {
        guard let bytes = cell.bytes else { return nil }
        self = bytes
    }
}

extension Milliseconds: StoredValue {
    package init?(_ cell: StoredCell) {
        guard let integer = cell.integer else { return nil }
        self.init(stored: integer)
    }
}

extension JSONText: StoredValue {
    package init?(_ cell: StoredCell) {
        guard let text = cell.text else { return nil }
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
        let cell = cell(column)
        if cell.isNull { return nil }
        guard let value = Value(cell) else {
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
