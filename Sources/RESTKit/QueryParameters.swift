package import Foundation
package import HTTPWire
internal import UploadModel

/// The query parameters of a request; each may occur once.
package struct QueryParameters {
    private let items: QueryItems

    /// - Throws: `Problem` 400 for a malformed query, 422 for unknown or repeated parameters.
    package init(_ request: Request, allowed: Set<String>) throws(Problem) {
        do throws(QueryItems.Failure) {
            items = try request.head.target.queryItems()
        } catch {
            throw Problem(400, "invalid_request", "the query is malformed: \(error.reason)")
        }
        var errors: [Problem.FieldError] = []
        var seen: Set<String> = []
        for item in items.items {
            if !allowed.contains(item.name) {
                let list = allowed.sorted().joined(separator: ", ")
                errors.append(.init(field: item.name, message: "is unknown; allowed are \(list)"))
            } else if !seen.insert(item.name).inserted {
                errors.append(.init(field: item.name, message: "must occur only once"))
            }
        }
        if !errors.isEmpty { throw Problem.invalidFields(errors) }
    }

    package subscript(name: String) -> String? { items.first(name) }

    /// `limit`: the page size of a list; `nil` if it is missing or was reported in `errors`.
    package func pageSize(_ errors: inout [Problem.FieldError]) -> Int? {
        guard let text = self["limit"] else { return nil }
        guard let size = Int(text), (1...1000).contains(size) else {
            errors.append(.init(field: "limit", message: "must be an integer from 1 to 1000"))
            return nil
        }
        return size
    }

    /// The members of a list, comma-separated, each one of `allowed`; `nil` without the parameter.
    package func list<Value>(
        _ name: String,
        of allowed: [(text: String, value: Value)],
        _ errors: inout [Problem.FieldError]
    ) -> [Value]? {
        guard let text = self[name] else { return nil }
        let values = text.split(separator: ",", omittingEmptySubsequences: false).map { item in
            allowed.first { $0.text == item }?.value
        }
        if values.contains(where: { $0 == nil }) {
            let list = allowed.map(\.text).joined(separator: ", ")
            errors.append(.init(field: name, message: "must be one or more of \(list), separated by commas"))
        }
        return values.compactMap { $0 }
    }

    /// `subject`: an app user.
    package func subject(_ errors: inout [Problem.FieldError]) -> String? {
        guard let text = self["subject"] else { return nil }
        if !SubjectText.isValid(text) { errors.append(.init(field: "subject", message: SubjectText.rule)) }
        return text
    }

    /// A time (RFC 3339).
    package func time(_ name: String, _ errors: inout [Problem.FieldError]) -> Date? {
        guard let text = self[name] else { return nil }
        let date = Timestamp.parse(text)
        if date == nil {
            errors.append(.init(field: name, message: "must be a time such as 2025-06-25T16:00:00Z (RFC 3339)"))
        }
        return date
    }
}
