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
