internal import HTTPWire
internal import UploadCore

/// What all REST routes do: check the key of an app, and tell the domain's errors as problems.
struct Access: Sendable {
    let authenticator: Authenticator
    let observer: any UploadObserver

    /// The API key of the request, if it may do what `scope` names.
    ///
    /// - Throws: `Problem` 401 or 403.
    @discardableResult
    func require(_ scope: Scope, _ request: Request) async throws(Problem) -> APIKey {
        let authorization = request.head.fields["Authorization"]
        if let key = authenticator.recentKey(with: scope, authorization: authorization) { return key }
        return try await core { () throws(UploadError) in
            try await authenticator.require(scope, authorization: authorization)
        }
    }

    /// Runs a call into the domain.
    func core<Success>(_ body: () async throws(UploadError) -> Success) async throws(Problem) -> Success {
        do throws(UploadError) {
            return try await body()
        } catch {
            throw RESTErrors.problem(error)
        }
    }
}

/// The query of a request, each parameter at most once.
struct QueryParameters {
    private let items: QueryItems

    /// - Throws: `Problem` 400 for a malformed query, 422 for parameters that are not known or stand twice.
    init(_ request: Request, allowed: Set<String>) throws(Problem) {
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
                errors.append(.init(field: item.name, message: "is not known here; allowed are \(list)"))
            } else if !seen.insert(item.name).inserted {
                errors.append(.init(field: item.name, message: "must stand only once"))
            }
        }
        if !errors.isEmpty { throw Problem.invalidFields(errors) }
    }

    subscript(name: String) -> String? { items.first(name) }
}
