/// A text by which records of a dialect are found, such as a tag of media, and their place in the list of those that have it.
///
/// See docs/decisions/0082-terms-of-records.md.
package struct DialectTerm: Sendable, Hashable {
    /// Unique in the record, compared byte by byte.
    package let text: String
    /// Such as a time in Unix milliseconds.
    package let position: Int64

    package init(_ text: String, at position: Int64) {
        self.text = text
        self.position = position
    }

    package static func == (one: Self, other: Self) -> Bool {
        one.position == other.position && one.text.utf8.elementsEqual(other.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(position)
        hasher.combine(text)
    }
}

/// The place of a record in the list of those with a term: by position, and for equal ones by the bytes of the key.
package struct DialectPlace: Sendable, Equatable {
    package let position: Int64
    package let key: String

    package init(_ position: Int64, _ key: String) {
        self.position = position
        self.key = key
    }

    package func precedes(_ other: Self) -> Bool {
        position == other.position ? key.utf8.lexicographicallyPrecedes(other.key.utf8) : position < other.position
    }
}

/// A page of the list of records with a term.
package struct DialectTermQuery: Sendable, Equatable {
    package var kind: String
    package var term: String
    /// Both ends belong to it.
    package var positions: ClosedRange<Int64>
    package var isDescending: Bool
    /// Only records after this place, in the order of the query.
    package var after: DialectPlace?
    /// Maximum number of records.
    package var limit: Int

    package init(
        _ kind: String,
        _ term: String,
        positions: ClosedRange<Int64> = .min ... .max,
        isDescending: Bool = false,
        after: DialectPlace? = nil,
        limit: Int
    ) {
        self.kind = kind
        self.term = term
        self.positions = positions
        self.isDescending = isDescending
        self.after = after
        self.limit = limit
    }

    /// Whether a record at this place belongs to the page or to a later one.
    package func includes(_ place: DialectPlace) -> Bool {
        guard positions.contains(place.position) else { return false }
        return after.map { isDescending ? place.precedes($0) : $0.precedes(place) } ?? true
    }
}

/// A record that was found by a term.
package struct FoundRecord: Sendable, Equatable {
    package let record: DialectRecord
    package let position: Int64

    package init(record: DialectRecord, position: Int64) {
        self.record = record
        self.position = position
    }

    package var place: DialectPlace { DialectPlace(position, record.key) }
}
