internal import GRDB
internal import StateRecords

/// The values of a statement.
///
/// GRDB binds and reads a text up to its first NUL, so texts are encoded here, and decoded by `SQLiteRow`.
struct SQLiteArguments: ExpressibleByArrayLiteral, Sendable {
    private var values: [DatabaseValue]

    init() { values = [] }

    init(arrayLiteral elements: (any DatabaseValueConvertible)?...) { self.init(elements) }

    init(_ elements: [(any DatabaseValueConvertible)?]) {
        values = elements.map { element in
            let value = element?.databaseValue ?? .null
            guard case .string(let text) = value.storage else { return value }
            return StorableText.encode(text).databaseValue
        }
    }

    init(_ texts: [String]) { self.init(texts.map { $0 as (any DatabaseValueConvertible)? }) }

    var bound: StatementArguments { StatementArguments(values) }

    static func + (one: SQLiteArguments, other: SQLiteArguments) -> SQLiteArguments {
        var sum = one
        sum.values += other.values
        return sum
    }

    static func += (one: inout SQLiteArguments, other: SQLiteArguments) { one = one + other }
}
