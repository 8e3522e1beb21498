package import Foundation
package import HTTPWire
package import UploadCore
package import UploadModel

/// What all REST routes share: checking API keys and converting domain errors to problem documents.
package struct Access: Sendable {
    package let authenticator: Authenticator
    package let observer: any UploadObserver

    package init(authenticator: Authenticator, observer: any UploadObserver) {
        self.authenticator = authenticator
        self.observer = observer
    }

    /// The API key of the request, if it has `scope` and no further limits.
    ///
    /// Use it where a limited key must not be accepted.
    ///
    /// - Throws: `Problem` 401 or 403.
    @discardableResult
    package func require(_ scope: Scope, _ request: Request) async throws(Problem) -> APIKey {
        let key = try await limitedKey(scope, request)
        guard key.limits.isEmpty else { throw Self.outsideLimits(of: key) }
        return key
    }

    /// The API key of the request, if it has `scope`; the caller has to enforce the key's limits.
    ///
    /// - Throws: `Problem` 401 or 403.
    package func limitedKey(_ scope: Scope, _ request: Request) async throws(Problem) -> APIKey {
        let authorization = request.head.fields["Authorization"]
        if let key = authenticator.recentKey(with: scope, authorization: authorization) { return key }
        return try await core { () throws(UploadError) in
            try await authenticator.require(scope, authorization: authorization)
        }
    }

    /// Checks that a key can do itself what a credential can do that it mints.
    ///
    /// - Throws: `Problem` 403.
    package func check(_ key: APIKey, mints rights: MintedRights) throws(Problem) {
        switch key.refusal(minting: rights) {
        case nil: return
        case .limits: throw Self.outsideLimits(of: key)
        case .scopes(let missing):
            let names = missing.map(\.rawValue).sorted().joined(separator: ", ")
            throw Problem(403, "forbidden", "the API key \(key.id) cannot do this itself: it lacks the scope \(names)")
        }
    }

    /// Checks that a key may act for this app user, outside the object endpoint.
    ///
    /// - Throws: `Problem` 403.
    package func check(_ key: APIKey, subject: String?) throws(Problem) {
        guard !key.limits.isForObjectsOnly, key.limits.allows(subject: subject) else {
            throw Self.outsideLimits(of: key)
        }
    }

    /// The API key of the request, if it has `scope` and is not the token of an app user.
    ///
    /// Use it for what only the app itself may do, such as changing metadata; the caller has to enforce the key's limits.
    ///
    /// - Throws: `Problem` 401 or 403.
    package func appKey(_ scope: Scope, _ request: Request) async throws(Problem) -> APIKey {
        let key = try await limitedKey(scope, request)
        guard key.user == nil else {
            throw Problem(403, "forbidden", "tokens of app users are not for this; use an API key of the app")
        }
        return key
    }

    /// For a token of an app user where a real cloud would enforce neither its limits nor its revocation.
    package static let notDirect = Problem(
        403,
        "forbidden",
        "tokens of app users are not for direct mode; ask the app's backend, which has an API key"
    )

    /// Applies the limits of an app user to what is minted with the user's token.
    ///
    /// - Throws: `Problem` 403.
    package func limit(minted grant: inout Grant, by key: APIKey, at now: Date) throws(Problem) {
        do throws(UploadError) {
            try key.limit(minted: &grant, at: now)
        } catch {
            throw RESTErrors.problem(error)
        }
    }

    /// Checks that an app user has no limits besides those that something minted can express.
    ///
    /// - Throws: `Problem` 403.
    package func requireExpressible(
        _ limits: Set<AppUser.Limit>,
        of key: APIKey,
        in what: String
    ) throws(Problem) {
        do throws(UploadError) {
            try key.requireExpressible(limits, in: what)
        } catch {
            throw RESTErrors.problem(error)
        }
    }

    /// The user whose uploads a key lists: the requested one, or the only one that the key is for.
    ///
    /// - Throws: `Problem` 403.
    package func listedSubject(_ key: APIKey, _ wanted: String?) throws(Problem) -> String? {
        let subject = wanted ?? key.limits.onlySubject
        try check(key, subject: subject)
        return subject
    }

    package static func outsideLimits(of key: APIKey) -> Problem {
        if key.user != nil {
            return Problem(403, "forbidden", "your token is for the uploads and media of its own user only")
        }
        return Problem(
            403,
            "forbidden",
            "the API key \(key.id) is limited to other subjects, buckets or prefixes (`sluice keys list`); use a key that is not"
        )
    }

    /// Runs a call into the domain.
    package func core<Success>(_ body: () async throws(UploadError) -> Success) async throws(Problem) -> Success {
        do throws(UploadError) {
            return try await body()
        } catch {
            throw RESTErrors.problem(error)
        }
    }
}

extension Authenticator {
    /// What the sender of a request may upload, by whatever protocol: anyone admitted to tus on `/files` is admitted to
    /// the others too.
    ///
    /// - Throws: `.unauthenticated`, `.forbidden(scope:)`; errors of the state store.
    package func grantToUpload(authorization: String?) async throws(UploadError) -> Grant {
        var grant = try await grantToUpload(dialect: "tus", authorization: authorization)
        grant.dialect = nil
        return grant
    }

    /// The same, if the grant allows credentials and URLs for the object endpoint; an upload token must say so
    /// explicitly.
    ///
    /// - Throws: As above.
    package func grantForObjects(authorization: String?) async throws(UploadError) -> Grant {
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

/// Runs the body of a REST route and turns what it throws into a problem document.
package func responding(_ request: Request, _ body: () async throws(Problem) -> Response) async -> Response {
    do throws(Problem) {
        return try await body()
    } catch {
        return error.response(requestID: request.id)
    }
}
