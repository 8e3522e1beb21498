internal import Bytes
internal import CoreMetrics
internal import Foundation
internal import HTTPWire
internal import MetricsKit
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// Vimeo's API: `/me`, `/users`, `/videos`, `/oauth` and `/tokens`.
struct VimeoAPIHandler: RequestHandler {
    let tokens: VimeoTokens
    let authenticator: Authenticator
    let rates: VimeoRates
    /// Of revocations, by key: who mints tokens chooses their users.
    let revocations: VimeoRates
    let videos: VimeoVideoCalls
    let service: any VimeoService
    /// Whether `service` is the real one.
    let isDirect: Bool
    let cors: CORSPolicy
    let bodyLimit: Int
    let calls: CounterTable
    let report: @Sendable (_ call: String, _ message: String) -> Void
    let clock: any WallClock

    /// Methods and templates.
    static let operations: [(method: HTTPMethod, template: String)] = VimeoResource.operations

    func respond(to request: Request) async -> Response {
        let resource = VimeoResource(request.head.target.segments)
        let allowed = resource?.methods ?? []
        if let response = cors.preflight(request.head, methods: allowed + [.options]) { return response }
        var response: Response
        do throws(VimeoError) {
            response = try await self.response(request, on: resource)
            if response.trace.mediaID == nil { response.trace.mediaID = resource?.video.map(String.init) }
        } catch {
            if error.isOfServer { report(resource?.name ?? "unknown", error.message) }
            response = error.failure.response(requestID: request.id)
        }
        calls[resource?.name ?? "unknown", response.trace.errorCode ?? "0"].increment()
        cors.decorate(&response, for: request.head)
        return response
    }

    /// The response to a request that is refused before it is handled.
    func refuse(_ error: UploadError, _ request: Request) -> Response {
        var response = VimeoFailure(error).response(requestID: request.id)
        cors.decorate(&response, for: request.head)
        return response
    }

    private func response(_ request: Request, on resource: VimeoResource?) async throws(VimeoError) -> Response {
        guard let resource else { throw VimeoError.refused(.notFound) }
        let method = Self.method(of: request.head)
        if method == .options {
            return Response(204, ["Allow": (resource.methods + [.options]).map(\.rawValue).joined(separator: ", ")])
        }
        guard resource.methods.contains(method) || method == .head && resource.methods.contains(.get) else {
            throw VimeoError.refused(.methodNotAllowed(resource.methods))
        }
        switch resource {
        case .clientToken: return try await clientToken(request)
        case .codeToken: return try await codeToken(request)
        default: break
        }
        let caller = try await caller(request.head)
        let standing = rates.call(by: caller.grant.subject ?? caller.grant.id, at: clock.now)
        guard standing.isAllowed else { throw .refused(tooMany(standing)) }
        do throws(VimeoError) {
            var response = try await answer(method, resource, request, caller)
            Self.add(standing, to: &response.fields)
            response.fields["Vary"] = "Accept,Accept-Encoding"
            return response
        } catch {
            guard case .refused(var failure) = error else { throw error }
            // Unless it tells of another limit.
            if failure.fields["X-RateLimit-Remaining"] == nil { Self.add(standing, to: &failure.fields) }
            throw .refused(failure)
        }
    }

    private func tooMany(_ standing: VimeoRates.Standing) -> VimeoFailure {
        var failure = VimeoFailure(429, nil, "Too many API requests. Wait a minute, and try again.")
        Self.add(standing, to: &failure.fields)
        failure.fields["Retry-After"] = String(
            max(1, Int64(standing.resetsAt.timeIntervalSince(clock.now).rounded(.up)))
        )
        return failure
    }

    private static func add(_ standing: VimeoRates.Standing, to fields: inout HTTPFields) {
        fields["X-RateLimit-Limit"] = String(standing.limit)
        fields["X-RateLimit-Remaining"] = String(standing.remaining)
        // Clients read only this form of a time (protocol notes §3.5).
        if case .string(let text) = VimeoDocuments.time(standing.resetsAt) { fields["X-RateLimit-Reset"] = text }
    }

    /// Some clients send a POST that says which method it stands for.
    private static func method(of head: RequestHead) -> HTTPMethod {
        guard head.method == .post, let method = head.fields["X-HTTP-Method-Override"], !method.isEmpty else {
            return head.method
        }
        return HTTPMethod(rawValue: method.uppercasedASCII())
    }

    private func answer(
        _ method: HTTPMethod,
        _ resource: VimeoResource,
        _ request: Request,
        _ caller: VimeoCaller
    ) async throws(VimeoError) -> Response {
        switch resource {
        case .clientToken, .codeToken: throw VimeoError.refused(.notFound)
        case .verify: return try await verify(request, caller)
        case .tokens:
            guard !caller.isAppUser else { throw VimeoError.refused(.foreignToken) }
            let standing = revocations.call(by: caller.grant.issuer ?? "", at: clock.now)
            guard standing.isAllowed else { throw .refused(tooMany(standing)) }
            // Its row frees nothing, and whoever mints tokens can repeat it.
            try await FreeingWork.$onlyAdds.with(true) { () async throws(VimeoError) in
                try await core(await tokens.revoke(caller))
            }
            return Response(204)
        case .upload where method == .delete:
            // `complete_uri`: what was uploaded stays.
            return try await FreeingWork.$isRunning.with(false) { () async throws(VimeoError) in
                try await serve(method, resource, request, caller)
            }
        default: return try await serve(method, resource, request, caller)
        }
    }

    private func serve(
        _ method: HTTPMethod,
        _ resource: VimeoResource,
        _ request: Request,
        _ caller: VimeoCaller
    ) async throws(VimeoError) -> Response {
        let call = try await videos.call(method, request, by: caller)
        do throws(VimeoError) {
            return try await service.answer(resource, call)
        } catch {
            guard case .core(let cause) = error, case .quotaExceeded(let refusal) = cause.code else { throw error }
            let cap = caller.grant.storedBytes
            throw .refused(VimeoFailure(refusal, cause.message, cap: cap, call.documents.quota))
        }
    }

    // MARK: Tokens

    /// - Throws: 401.
    private func caller(_ head: RequestHead) async throws(VimeoError) -> VimeoCaller {
        guard let authorization = head.fields["Authorization"], !authorization.isEmpty else {
            throw VimeoError.refused(.noToken)
        }
        let words = authorization.split(separator: " ", omittingEmptySubsequences: true)
        guard words.count == 2 else { throw VimeoError.refused(.badToken) }
        switch words[0].lowercasedASCII() {
        case "bearer":
            if let caller = try await core(await tokens.caller(String(words[1]))) { return caller }
            guard let key = try await core(await authenticator.user(authorization: authorization)),
                let caller = try await core(try VimeoCaller(key))
            else { throw VimeoError.refused(.badToken) }
            guard !isDirect else { throw VimeoError.refused(.notDirect) }
            return caller
        case "basic":
            // An app without a user, as vimeo.js and vimeo.php send without a token.
            let key = try await client(head)
            let grant = tokens.grant(issuer: key.id, subject: nil, total: nil, lifetime: 60)
            return VimeoCaller(grant: grant, scopes: [.public])
        default: throw VimeoError.refused(.badToken)
        }
    }

    /// The API key whose id and secret are the client's (RFC 6749 §2.3.1).
    ///
    /// - Throws: 401, code 8001.
    private func client(_ head: RequestHead) async throws(VimeoError) -> APIKey {
        let refusal = VimeoError.refused(
            .unauthenticated(8001, "The client id or the client secret is wrong.")
        )
        let words = (head.fields["Authorization"] ?? "").split(separator: " ", omittingEmptySubsequences: true)
        guard words.count == 2, words[0].lowercasedASCII() == "basic",
            let data = Data(base64Encoded: String(words[1])), let text = String(clientText: data),
            let colon = text.firstIndex(of: ":")
        else { throw refusal }
        let (id, secret) = (text[..<colon], text[text.index(after: colon)...])
        let key: APIKey
        do throws(UploadError) {
            key = try await authenticator.require(.mint, authorization: "Bearer \(secret)")
        } catch {
            switch error.code {
            case .unauthenticated, .forbidden: throw refusal
            default: throw .core(error)
            }
        }
        guard key.user == nil, key.id == id else { throw refusal }
        return key
    }

    /// `POST /oauth/authorize/client`: a token without a user.
    private func clientToken(_ request: Request) async throws(VimeoError) -> Response {
        let key = try await client(request.head)
        var body = try await VimeoBody(of: request, limit: bodyLimit)
        guard body.text("grant_type", atMost: 64) == "client_credentials" else {
            throw VimeoError.refused(.invalid("grant_type", "must be client_credentials"))
        }
        let scopes = try Self.scopes(&body) ?? [.public]
        guard Set(scopes).isSubset(of: [.public, .private]) else {
            throw VimeoError.refused(.invalid("scope", "may contain only public and private without a user"))
        }
        // Without a user, no scope reaches any video.
        guard key.refusal(minting: MintedRights(subject: nil, reach: .uploads)) == nil else {
            throw VimeoError(403, nil, "The API key is limited to some users.")
        }
        let grant = try await core(
            try limited(
                tokens.grant(issuer: key.id, subject: nil, total: nil, lifetime: VimeoTokensAPI.defaultLifetime),
                by: key
            )
        )
        return try await tokenResponse(VimeoTokens.Content(grant: grant, scopes: scopes.map(\.rawValue)), request)
    }

    /// `POST /oauth/access_token`: a token for a code.
    private func codeToken(_ request: Request) async throws(VimeoError) -> Response {
        let key = try await client(request.head)
        var body = try await VimeoBody(of: request, limit: bodyLimit)
        guard body.text("grant_type", atMost: 64) == "authorization_code" else {
            throw VimeoError.refused(.invalid("grant_type", "must be authorization_code"))
        }
        guard let code = body.text("code", atMost: 8192), let content = try await core(await tokens.exchange(code)),
            content.grant.issuer == key.id
        else { throw VimeoError.refused(.invalid("code", "is unknown, was used, or has expired")) }
        let scopes = content.scopes.compactMap(VimeoScope.init)
        guard key.refusal(minting: VimeoScope.rights(scopes, for: content.grant.subject)) == nil else {
            throw VimeoError.refused(.invalid("code", "is for more than the API key may do itself"))
        }
        var token = content
        token.isCode = false
        token.keyUploads = key.allows(.upload)
        token.grant = try await core(
            try limited(
                tokens.grant(
                    issuer: key.id,
                    subject: content.grant.subject,
                    total: content.grant.storedBytes,
                    lifetime: VimeoTokensAPI.defaultLifetime
                ),
                by: key
            )
        )
        return try await tokenResponse(token, request)
    }

    private func limited(_ grant: Grant, by key: APIKey) throws(UploadError) -> Grant {
        var grant = grant
        try key.limit(minted: &grant, at: clock.now)
        return grant
    }

    static func scopes(_ body: inout VimeoBody) throws(VimeoError) -> [VimeoScope]? {
        guard let text = body.text("scope", atMost: 512) else { return nil }
        var scopes: [VimeoScope] = []
        for name in text.split(whereSeparator: { $0 == " " || $0 == "," }) {
            guard let scope = VimeoScope(rawValue: String(name)) else {
                throw VimeoError.refused(.invalid("scope", "has an unknown scope"))
            }
            scopes.append(scope)
        }
        return scopes
    }

    private func verify(_ request: Request, _ caller: VimeoCaller) async throws(VimeoError) -> Response {
        let token = String((request.head.fields["Authorization"] ?? "").split(separator: " ").last ?? "")
        let scopes = VimeoScope.allCases.filter(caller.scopes.contains).map(\.rawValue)
        let content = VimeoTokens.Content(grant: caller.grant, scopes: scopes)
        return VimeoResponse.document(try await tokenDocument(content, token, request), "auth")
    }

    private func tokenResponse(_ content: VimeoTokens.Content, _ request: Request) async throws(VimeoError) -> Response
    {
        let document = try await tokenDocument(content, tokens.seal(content), request)
        var response = VimeoResponse.document(document, "auth")
        response.fields["Cache-Control"] = "no-store"
        return response
    }

    /// What `/oauth/access_token` answers (protocol notes §3.1).
    func tokenDocument(_ content: VimeoTokens.Content, _ token: String, _ request: Request) async throws(VimeoError)
        -> JSONValue
    {
        var members: JSONMembers = [
            "access_token": .string(token), "token_type": .string("bearer"),
            "scope": .string(content.scopes.joined(separator: " ")),
            "app": .object(["name": .string("Sluice"), "uri": .string("/apps/1")]),
            "expires_on": VimeoDocuments.time(content.grant.expiresAt),
        ]
        if let subject = content.grant.subject {
            let documents = try await videos.documents(VimeoUser(subject), content.grant, request)
            members["user"] = documents.user(VimeoUser(subject))
        }
        return .object(members)
    }
}

/// Responses of the API.
enum VimeoResponse {
    /// A document of a kind such as `video`.
    static func document(_ document: JSONValue, _ kind: String, _ status: Status = 200) -> Response {
        Response(
            status,
            ["Content-Type": "application/vnd.vimeo.\(kind)+json", "Cache-Control": "no-cache, no-store"],
            .bytes(VimeoJSON.bytes(document))
        )
    }
}
