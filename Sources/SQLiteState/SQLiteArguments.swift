internal import GRDB
internal import StateRecords

/// The values of a statement.
///
/// GRDB binds a text up to its first NUL, so texts are encoded here, and decoded by `StoredCell`.
struct SQLiteArguments: ExpressibleByArrayLiteral, Sendable {
    private var values: [(any DatabaseValueConvertible & Sendable)?]

    init() { values = [] }

    init(arrayLiteral elements: (any DatabaseValueConvertible & Sendable)?...) { values = elements }

    init(_ elements: [(any DatabaseValueConvertible & Sendable)?]) { values = elements }

    init(_ texts: [String]) { values = texts.map { $0 } }

    var bound: StatementArguments { StatementArguments(Encoded(values: values)) }

    static func + (one: SQLiteArguments, other: SQLiteArguments) -> SQLiteArguments {
        var sum = one
        sum += other
        return sum
    }

    static func += (one: inout SQLiteArguments, other: SQLiteArguments) { one.values += other.values }

    /// GRDB's own code is not specialised for an array: each of its elements would be an allocation.
    private struct Encoded: Sequence, IteratorProtocol {
        let values: [(any DatabaseValueConvertible & Sendable)?]
        private var index = 0

        init(values: [(any DatabaseValueConvertible & Sendable)?]) { self.values = values }

        var underestimatedCount: Int { values.count }

        mutating func next() -> (any DatabaseValueConvertible)?? {
            guard index < values.count else { return nil }
            defer { index += 1 }
            guard let value = values[index]?.databaseValue else { return .some(nil) }
            guard case .string(let text) = value.storage else { return value }
            return StorableText.encode(text).databaseValue
        }
    }
}
