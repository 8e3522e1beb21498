internal import Bytes
internal import Foundation

/// A table in text for terminals.
package enum TextTable {
    /// - Parameter rows: The head first; all have as many cells.
    /// - Returns: Lines with aligned columns. Control characters of cells are escaped, because clients choose some texts.
    package static func text(_ rows: [[String]]) -> String {
        let rows = rows.map { $0.map { TerminalText.escaped($0) } }
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            zip(row, widths).map { $0.padding(toLength: max($0.count, $1), withPad: " ", startingAt: 0) }
                .joined(separator: "  ").trimmingCharacters(in: .whitespaces)
        }.joined(separator: "\n")
    }

    /// Bytes with a unit and at most one decimal, such as `1.5MiB`.
    package static func bytes(_ count: Int64) -> String {
        let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
        var (value, unit) = (Double(count), 0)
        while value >= 1024, unit + 1 < units.count { (value, unit) = (value / 1024, unit + 1) }
        // Cut off, so that what is not complete is never written as if it were.
        let tenths = Int64((value * 10).rounded(.down))
        let fraction = tenths % 10 == 0 ? "" : ".\(tenths % 10)"
        return "\(tenths / 10)\(fraction)\(units[unit])"
    }
}
