/// A condition of a statement: compares a property of the request with values, one of which must match.
///
/// | key | is about | s3 | oss | cos |
/// |---|---|---|---|---|
/// | `.contentLength` | bytes that the request brings | | | `cos:content-length` |
/// | `.contentType` | actions that give an object its media type | | | `cos:content-type` |
/// | `.prefix` | listings | `s3:prefix` | `oss:Prefix` | `cos:prefix` |
struct PolicyCondition: Sendable, Equatable {
    /// Raw values are stored in session tokens and must never change.
    enum Key: Int, Sendable {
        case contentLength = 0
        case contentType = 1
        case prefix = 2
    }

    /// Raw values are stored in session tokens and must never change.
    enum Comparison: Int, Sendable {
        case equal = 0
        case notEqual = 1
        case like = 2
        case notLike = 3
        case less = 4
        case lessOrEqual = 5
        case greater = 6
        case greaterOrEqual = 7
    }

    enum Values: Sendable, Equatable {
        case texts([WildcardPattern])
        case numbers([Int64])
    }

    let key: Key
    let comparison: Comparison
    /// Not empty.
    let values: Values

    /// Whether it is met; `nil` if the request lacks the property although it could have it.
    func isMet(by access: ObjectAccess) -> Bool? {
        switch key {
        case .contentLength:
            guard let length = access.action.bringsContent ? access.contentLength : 0 else { return nil }
            return compare(length)
        case .contentType:
            guard access.action.bringsContentType else { return false }
            return access.contentType.map { compare($0) }
        case .prefix:
            guard access.action.isListing else { return false }
            return access.key.isEmpty ? nil : compare(access.key)
        }
    }

    private func compare(_ number: Int64) -> Bool {
        guard case .numbers(let values) = values else { return false }
        switch comparison {
        case .equal: return values.contains(number)
        case .notEqual: return !values.contains(number)
        case .less: return values.contains { number < $0 }
        case .lessOrEqual: return values.contains { number <= $0 }
        case .greater: return values.contains { number > $0 }
        case .greaterOrEqual: return values.contains { number >= $0 }
        case .like, .notLike: return false
        }
    }

    private func compare(_ text: String) -> Bool {
        guard case .texts(let values) = values else { return false }
        switch comparison {
        case .equal: return values.contains { $0.text.utf8.elementsEqual(text.utf8) }
        case .notEqual: return !values.contains { $0.text.utf8.elementsEqual(text.utf8) }
        case .like: return values.contains { $0.matches(text) }
        case .notLike: return !values.contains { $0.matches(text) }
        case .less, .lessOrEqual, .greater, .greaterOrEqual: return false
        }
    }
}
