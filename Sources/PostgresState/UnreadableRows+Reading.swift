internal import StateRecords

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
        _ rows: [StoredRow],
        of table: String,
        by column: String,
        _ decode: (StoredRow) throws -> Value
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
