internal import Bytes
internal import Foundation
internal import GatewayKit
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// `/v1/keys`: API keys.
struct KeysAPI: Sendable {
    /// Seconds that a rotated secret may stay valid: 30 days.
    private static let maximumOverlap: Int64 = 30 * 86_400
    /// Seconds: 100 years.
    private static let maximumLifetime: Int64 = 36_525 * 86_400
    /// Elements of each list of limits.
    private static let maximumLimits = 64

    let state: any KeyRecords
    let revoked: RevocationList
    let access: Access
    let bodyLimit: Int
    let clock: any WallClock
    let audit: AuditLog

    var routes: [Route] {
        [
            Route(.post, "/v1/keys") { request, _ in
                await responding(request) { () throws(Problem) in try await create(request) }
            },
            Route(.get, "/v1/keys") { request, _ in
                await responding(request) { () throws(Problem) in try await list(request) }
            },
            Route(.get, "/v1/keys/{key}") { request, parameters in
                await responding(request) { () throws(Problem) in
                    try await access.require(.admin, request)
                    return JSONResponse.response(200, view(try await key(parameters["key"])))
                }
            },
            Route(.delete, "/v1/keys/{key}") { request, parameters in
                await responding(request) { () throws(Problem) in try await revoke(request, parameters["key"]) }
            },
            Route(.post, "/v1/keys/{key}/rotations") { request, parameters in
                await responding(request) { () throws(Problem) in try await rotate(request, parameters["key"]) }
            },
        ]
    }

    private struct Page: Encodable {
        var keys: [KeyView]
        var nextCursor: String?
    }

    private func view(_ key: APIKey, secret: String? = nil) -> KeyView {
        KeyView(key, at: clock.now, lastUse: access.authenticator.uses.lastUse(of: key.id), secret: secret)
    }

    private func key(_ id: String) async throws(Problem) -> APIKey {
        let found = try await access.core { () throws(UploadError) in try await state.key(id: id) }
        guard let found else { throw Problem(404, "not_found", "there is no API key with this id; see GET /v1/keys") }
        return found
    }

    private func create(_ request: Request) async throws(Problem) -> Response {
        let actor = try await access.require(.admin, request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let name = fields.string("name", maximumLength: 400, isRequired: true)
        if let name, name.isEmpty || !name.hasScalars(atMost: 100) {
            fields.reject("name", "must have 1 to 100 characters")
        }
        let names = Scope.allCases.map(\.rawValue)
        let scopes = Set(
            fields.strings("scopes", maximumCount: names.count, where: names.contains, names.joined(separator: ", "))
                .compactMap(Scope.init(rawValue:))
        )
        if scopes.isEmpty {
            fields.reject("scopes", "is required: one or more of \(names.joined(separator: ", "))")
        }
        var limits = KeyLimits()
        limits.subjects = limit("subjects", &fields)
        limits.buckets = limit("buckets", &fields)
        limits.prefixes = limit("prefixes", &fields)
        if let problem = limits.problem(with: scopes) { fields.reject("scopes", problem) }
        let lifetime = fields.integer("expiresIn", in: 1...Self.maximumLifetime)
        try fields.finish()
        let now = clock.now
        var made = APIKeySecret.generate(
            name: name ?? "",
            scopes: scopes,
            expiresAt: lifetime.map { now.addingTimeInterval(Double($0)) },
            at: now
        )
        made.key.limits = limits
        let key = made.key
        try await access.core { () throws(UploadError) in try await state.insert(key) }
        audit.record(.createKey, key: key.id, by: actor.id, client: request.clientAddress)
        // As it is recorded: times are stored in milliseconds.
        return JSONResponse.response(201, view(try await self.key(key.id), secret: made.secret))
    }

    private func limit(_ name: String, _ fields: inout JSONFields) -> [String] {
        fields.strings(
            name,
            maximumCount: Self.maximumLimits,
            where: { (1...1024).contains($0.utf8.count) },
            "of 1 to 1024 bytes"
        )
    }

    private func list(_ request: Request) async throws(Problem) -> Response {
        try await access.require(.admin, request)
        let parameters = try QueryParameters(request, allowed: ["limit", "cursor"])
        var errors: [Problem.FieldError] = []
        let limit = parameters.pageSize(&errors) ?? 50
        // Keys are never removed, and few: the list is read as a whole.
        var keys = try await access.core { () throws(UploadError) in try await state.keys() }[...]
        if let cursor = parameters["cursor"] {
            if let position = keys.firstIndex(where: { $0.id == cursor }) {
                keys = keys[(position + 1)...]
            } else {
                errors.append(.init(field: "cursor", message: "must be the nextCursor of an earlier response"))
            }
        }
        if !errors.isEmpty { throw Problem.invalidFields(errors) }
        let page = keys.prefix(limit)
        return JSONResponse.response(
            200,
            Page(keys: page.map { view($0) }, nextCursor: keys.count > limit ? page.last?.id : nil)
        )
    }

    private func rotate(_ request: Request, _ id: String) async throws(Problem) -> Response {
        let actor = try await access.require(.admin, request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let overlap = fields.integer("overlap", in: 0...Self.maximumOverlap) ?? 0
        try fields.finish()
        let now = clock.now
        let secret = APIKeySecret.generate()
        let end = overlap == 0 ? nil : now.addingTimeInterval(Double(overlap))
        let rotated = try await access.core { () throws(UploadError) in
            try await state.rotateKey(id, to: APIKeySecret.digest(of: secret), overlapEnd: end, at: now)
        }
        guard let rotated else {
            let key = try await key(id)
            throw Problem(409, "conflict", "the API key \(key.id) \(key.whyNotRotated)")
        }
        access.authenticator.expireKeys()
        audit.record(
            .rotateKey,
            key: id,
            by: actor.id,
            client: request.clientAddress,
            ["previousSecretUntil": end.map(JSONResponse.timestamp)]
        )
        return JSONResponse.response(201, view(rotated, secret: secret))
    }

    private func revoke(_ request: Request, _ id: String) async throws(Problem) -> Response {
        let actor = try await access.require(.admin, request)
        let now = clock.now
        let isNew = try await access.core { () throws(UploadError) in try await state.revokeKey(id, at: now) }
        if isNew {
            access.authenticator.expireKeys()
            revoked.expire()
            audit.record(.revokeKey, key: id, by: actor.id, client: request.clientAddress)
        } else {
            // A repeated revocation succeeds.
            _ = try await key(id)
        }
        return Response(204)
    }
}
