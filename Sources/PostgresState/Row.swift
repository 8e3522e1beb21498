internal import Bytes
internal import StateRecords

/// A row of a result, its values in PostgreSQL's text format.
struct Row: StoredRow {
    /// The index of each column.
    let columns: [String: Int]
    let values: [String?]

    func isNull(_ column: String) -> Bool { written(column) == nil }
    func text(_ column: String) -> String? { written(column).map(StorableText.decode) }
    func integer(_ column: String) -> Int64? { written(column).flatMap { Int64($0) } }

    func flag(_ column: String) -> Bool? {
        switch written(column) {
        case "t": true
        case "f": false
        default: nil
        }
    }

    /// Decodes the format of `bytea_output = hex`.
    func bytes(_ column: String) -> [UInt8]? {
        guard let text = written(column), text.hasPrefix("\\x") else { return nil }
        return Hexadecimal.decode(text.dropFirst(2))
    }

    private func written(_ column: String) -> String? { columns[column].flatMap { values[$0] } }
}

extension UnreadableRows {
    /// Reads what is to be claimed.
    ///
    /// - Parameters:
    ///   - rows: The rows.
    ///   - table: Of which.
    ///   - column: Of their keys.
    ///   - decode: Reads one.
    /// - Returns: What could be read, the keys of the other rows, and for how many milliseconds each of these is put off.
    func read<Value>(
        _ rows: [Row],
        of table: String,
        by column: String,
        _ decode: (Row) throws -> Value
    ) -> (values: [Value], unreadable: [String], pauses: [Int64]) {
        var found: (values: [Value], unreadable: [String], pauses: [Int64]) = ([], [], [])
        for row in rows {
            if let value = try? decode(row) {
                found.values.append(value)
            } else if let key = row.text(column) {
                found.unreadable.append(key)
                found.pauses.append(PostgresState.milliseconds(pause(table, key)))
            }
        }
        return found
    }
}
