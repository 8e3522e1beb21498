internal import Foundation
internal import GatewayKit
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// `/v1/quota`: what apps and their users may still upload, and their own policies.
struct QuotaAPI: Sendable {
    let service: QuotaService
    let access: Access
    let bodyLimit: Int
    let audit: AuditLog

    var routes: [Route] {
        [
            Route(.get, "/v1/quota") { request, _ in
                await responding(request) { () throws(Problem) in try await own(request) }
            },
            Route(.get, "/v1/quota/{kind}/{name}") { request, parameters in
                await responding(request) { () throws(Problem) in
                    let key = try await access.limitedKey(.read, request)
                    let account = try account(parameters)
                    let isAllowed =
                        switch account.kind {
                        case .subject: !key.limits.isForObjectsOnly && key.limits.allows(subject: account.name)
                        case .key: key.limits.isEmpty || key.user == nil && key.id == account.name
                        }
                    guard isAllowed else { throw Access.outsideLimits(of: key) }
                    return try await response(of: account)
                }
            },
            Route(.put, "/v1/quota/{kind}/{name}") { request, parameters in
                await responding(request) { () throws(Problem) in try await set(request, account(parameters)) }
            },
            Route(.delete, "/v1/quota/{kind}/{name}") { request, parameters in
                await responding(request) { () throws(Problem) in
                    let actor = try await access.require(.admin, request)
                    let account = try account(parameters)
                    try await access.core { () throws(UploadError) in try await service.setPolicy(nil, of: account) }
                    record(.removePolicy, of: account, by: actor, request)
                    return Response(204)
                }
            },
        ]
    }

    private func account(_ parameters: PathParameters) throws(Problem) -> Account {
        guard let kind = Self.kinds[parameters["kind"]] else {
            throw Problem(404, "not_found", "quotas are at /v1/quota/subjects/{name} and /v1/quota/keys/{id}")
        }
        let name = parameters["name"]
        guard SubjectText.isValid(name) else {
            throw Problem(404, "not_found", "a name has 1 to 256 bytes, and no control characters")
        }
        return Account(kind, name)
    }

    private static let kinds: [String: Account.Kind] = ["subjects": .subject, "keys": .key]

    /// The caller's quota: of the user of the token, or of the API key.
    private func own(_ request: Request) async throws(Problem) -> Response {
        let principal = try await access.core { () throws(UploadError) in
            try await access.authenticator.principal(authorization: request.head.fields["Authorization"])
        }
        switch principal {
        case .key(let key):
            let user = key.user == nil ? nil : key.limits.onlySubject
            return try await response(of: user.map { Account(.subject, $0) } ?? Account(.key, key.id))
        case .grant(let grant):
            guard let subject = grant.subject else {
                throw Problem(404, "not_found", "this upload token names no user, so it has no quota")
            }
            return try await response(of: Account(.subject, subject))
        }
    }

    private func set(_ request: Request, _ account: Account) async throws(Problem) -> Response {
        let actor = try await access.require(.admin, request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        var policy = Policy()
        policy.storedBytes = fields.integer("storedBytes", in: 0...Int64.max)
        policy.periodBytes = fields.integer("periodBytes", in: 0...Int64.max)
        policy.openUploads = fields.integer("openUploads", in: 0...Int64.max)
        policy.periodUploads = fields.integer("periodUploads", in: 0...Int64.max)
        policy.uploadBytes = fields.integer("uploadBytes", in: 0...Int64.max)
        policy.contentTypes = fields.strings(
            "contentTypes",
            maximumCount: 64,
            where: MediaTypeText.isPattern,
            MediaTypeText.hint
        )
        policy.extensions = fields.strings(
            "extensions",
            maximumCount: 64,
            where: FileExtensionText.isValid,
            FileExtensionText.hint
        )
        policy.checksContent = fields.bool("checksContent") ?? false
        try fields.finish()
        let wanted = policy
        try await access.core { () throws(UploadError) in try await service.setPolicy(wanted, of: account) }
        record(.setPolicy, of: account, by: actor, request)
        return try await response(of: account)
    }

    private func record(_ action: AuditLog.Action, of account: Account, by actor: APIKey, _ request: Request) {
        let isOfKey = account.kind == .key
        audit.record(
            action,
            key: isOfKey ? account.name : nil,
            by: actor.id,
            client: request.clientAddress,
            ["subject": isOfKey ? nil : account.name]
        )
    }

    private func response(of account: Account) async throws(Problem) -> Response {
        let report = try await access.core { () throws(UploadError) in try await service.quota(of: account) }
        return JSONResponse.response(200, QuotaView(report))
    }
}

/// A quota in the REST API; missing limits do not exist.
struct QuotaView: Encodable {
    struct Amounts: Encodable {
        var storedBytes: Int64?
        var openUploads: Int64?
        var periodBytes: Int64?
        var periodUploads: Int64?
    }

    struct Period: Encodable {
        var start: String
        var end: String
    }

    var account: String
    var name: String
    /// `own` or `default`.
    var policySource: String
    var policy: Policy
    /// Bytes reserved for open uploads count as stored.
    var used: Amounts
    var left: Amounts
    var period: Period

    init(_ report: QuotaReport) {
        let usage = report.usage
        let policy = report.policy
        account = report.account.kind.rawValue
        name = report.account.name
        policySource = report.hasOwnPolicy ? "own" : "default"
        self.policy = policy
        let stored = usage.storedBytes + usage.reservedBytes
        used = Amounts(
            storedBytes: stored,
            openUploads: usage.openUploads,
            periodBytes: usage.periodBytes,
            periodUploads: usage.periodUploads
        )
        func left(_ limit: Int64?, _ used: Int64) -> Int64? { limit.map { max(0, $0 - used) } }
        self.left = Amounts(
            storedBytes: left(policy.storedBytes, stored),
            openUploads: left(policy.openUploads, usage.openUploads),
            periodBytes: left(policy.periodBytes, usage.periodBytes),
            periodUploads: left(policy.periodUploads, usage.periodUploads)
        )
        period = Period(
            start: JSONResponse.timestamp(report.period.start),
            end: JSONResponse.timestamp(report.period.end)
        )
    }
}
