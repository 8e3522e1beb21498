internal import Foundation
internal import HTTPWire
internal import ObjectAPI
internal import UploadCore

/// What all REST routes do: check the key of an app, and tell the domain's errors as problems.
struct Access: Sendable {
    let authenticator: Authenticator
    let observer: any UploadObserver

    /// The API key of the request, if it may do what `scope` names and is not limited: of what is done here limits say nothing.
    ///
    /// - Throws: `Problem` 401 or 403.
    @discardableResult
    func require(_ scope: Scope, _ request: Request) async throws(Problem) -> APIKey {
        let key = try await limitedKey(scope, request)
        guard key.limits.isEmpty else { throw Self.outsideLimits(of: key) }
        return key
    }

    /// The API key of the request, if it may do what `scope` names; that it stays within its limits the caller has to check.
    ///
    /// - Throws: `Problem` 401 or 403.
    func limitedKey(_ scope: Scope, _ request: Request) async throws(Problem) -> APIKey {
        let authorization = request.head.fields["Authorization"]
        if let key = authenticator.recentKey(with: scope, authorization: authorization) { return key }
        return try await core { () throws(UploadError) in
            try await authenticator.require(scope, authorization: authorization)
        }
    }

    /// Checks that a key is for this app user, by whatever is no object.
    ///
    /// - Throws: `Problem` 403.
    func check(_ key: APIKey, subject: String?) throws(Problem) {
        guard !key.limits.isForObjectsOnly, key.limits.allows(subject: subject) else {
            throw Self.outsideLimits(of: key)
        }
    }

    /// Checks that a key is for this app user and these objects.
    ///
    /// - Throws: `Problem` 403.
    func check(_ key: APIKey, subject: String?, bucket: String, _ keys: ObjectGrant.Keys) throws(Problem) {
        guard key.limits.allows(subject: subject), key.limits.allows(bucket: bucket, keys: keys) else {
            throw Self.outsideLimits(of: key)
        }
    }

    /// The user whose uploads a key lists: the one that is asked for, or the only one that it is for.
    ///
    /// - Throws: `Problem` 403.
    func listedSubject(_ key: APIKey, _ wanted: String?) throws(Problem) -> String? {
        let subject = wanted ?? key.limits.onlySubject
        try check(key, subject: subject)
        return subject
    }

    static func outsideLimits(of key: APIKey) -> Problem {
        Problem(
            403,
            "forbidden",
            "the API key \(key.id) is limited to other subjects, buckets or prefixes (`sluice keys list`); use a key that is not"
        )
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

extension Authenticator {
    /// What the sender of a request may upload, by whatever protocol: who is admitted to `/files` by tus is admitted by others.
    ///
    /// - Throws: `.unauthenticated`, `.forbidden(scope:)`; what the state store throws.
    func grantToUpload(authorization: String?) async throws(UploadError) -> Grant {
        var grant = try await grantToUpload(dialect: "tus", authorization: authorization)
        grant.dialect = nil
        return grant
    }

    /// The same, if credentials and URLs for the object endpoint may be made of it: an upload token must say so.
    ///
    /// - Throws: As above.
    func grantForObjects(authorization: String?) async throws(UploadError) -> Grant {
        let isToken: Bool
        switch try await principal(authorization: authorization) {
        case .key: isToken = false
        case .grant: isToken = true
        }
        let grant = try await grantToUpload(authorization: authorization)
        guard !isToken || grant.admitsObjects == true else {
            throw UploadError(
                .forbidden(scope: nil),
                "This upload token is not for the object endpoint; ask for one with `\"objects\": true`."
            )
        }
        return grant
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

    /// `limit`: how many entries a page of a list has; `nil` without it, and for what is told in `errors`.
    func pageSize(_ errors: inout [Problem.FieldError]) -> Int? {
        guard let text = self["limit"] else { return nil }
        guard let size = Int(text), (1...1000).contains(size) else {
            errors.append(.init(field: "limit", message: "must be an integer from 1 to 1000"))
            return nil
        }
        return size
    }

    /// The members of a list, comma-separated, each one of `allowed`; `nil` without the parameter.
    func list<Value>(
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
            errors.append(.init(field: name, message: "must be one or some, separated by commas, of \(list)"))
        }
        return values.compactMap { $0 }
    }

    /// `subject`: an app user.
    func subject(_ errors: inout [Problem.FieldError]) -> String? {
        guard let text = self["subject"] else { return nil }
        if !SubjectText.isValid(text) { errors.append(.init(field: "subject", message: SubjectText.rule)) }
        return text
    }

    /// A time (RFC 3339).
    func time(_ name: String, _ errors: inout [Problem.FieldError]) -> Date? {
        guard let text = self[name] else { return nil }
        let date = Timestamp.parse(text)
        if date == nil {
            errors.append(.init(field: name, message: "must be a time such as 2025-06-25T16:00:00Z (RFC 3339)"))
        }
        return date
    }
}
