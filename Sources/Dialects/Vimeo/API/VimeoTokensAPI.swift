internal import CoreMetrics
internal import Foundation
internal import HTTPWire
internal import RESTKit
internal import UploadModel

/// `/v1/vimeo/tokens`: an app's backend mints access tokens for its users.
struct VimeoTokensAPI: Sendable {
    let handler: VimeoAPIHandler
    let tokens: VimeoTokens
    let access: Access
    let minted: Counter
    let bodyLimit: Int
    /// Whether uploads go to the real cloud.
    let isDirect: Bool

    /// Seconds.
    static let defaultLifetime: TimeInterval = 30 * 86_400
    private static let longestLifetime: Int64 = 366 * 86_400

    var routes: [Route] {
        [
            Route(.post, "/v1/vimeo/tokens") { request, _ in
                await responding(request) { () throws(Problem) in try await mint(request) }
            }
        ]
    }

    private func mint(_ request: Request) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.mint, request)
        if isDirect, key.user != nil { throw Access.notDirect }
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let subject = fields.subject(isRequired: true)
        let scopes = fields.strings(
            "scopes",
            maximumCount: VimeoScope.allCases.count,
            where: { VimeoScope(rawValue: $0) != nil },
            "must be scopes of Vimeo: \(VimeoScope.allCases.map(\.rawValue).joined(separator: ", "))"
        )
        let total = fields.integer("quota", in: 0...Int64.max)
        let lifetime = fields.integer("expiresIn", in: 1...Self.longestLifetime)
        let isCode = fields.bool("code") ?? false
        if isCode, key.user != nil { fields.reject("code", "must not be true: only API keys exchange codes") }
        let usual = VimeoScope.usual.filter { $0.keyScope.map(key.allows) ?? true }
        let chosen = scopes.isEmpty ? usual : scopes.compactMap(VimeoScope.init)
        let rights = VimeoScope.rights(chosen, for: subject)
        if case .scopes? = key.refusal(minting: rights) {
            fields.reject(
                "scopes",
                "must be what the API key may do itself: `private` and the like need its scope `read`, `edit` needs "
                    + "`upload`, `delete` needs `delete`"
            )
        }
        try fields.finish()
        try access.check(key, mints: rights)
        try access.requireExpressible([], of: key, in: "a token for Vimeo clients")
        var grant = tokens.grant(
            issuer: key.id,
            subject: subject,
            total: total,
            lifetime: isCode ? VimeoTokens.codeLifetime : lifetime.map(Double.init) ?? Self.defaultLifetime
        )
        try access.limit(minted: &grant, by: key, at: grant.issueTime)
        let content = VimeoTokens.Content(
            grant: grant,
            scopes: chosen.map(\.rawValue),
            isCode: isCode,
            keyUploads: key.allows(.upload)
        )
        let sealed = tokens.seal(content)
        minted.increment()
        if isCode {
            return JSONResponse.response(201, ["code": sealed, "expiresAt": JSONResponse.timestamp(grant.expiresAt)])
        }
        do throws(VimeoError) {
            let document = try await handler.tokenDocument(content, sealed, request)
            return Response(
                201,
                ["Content-Type": "application/json", "Cache-Control": "no-store"],
                .bytes(VimeoJSON.bytes(document) + [10])
            )
        } catch {
            guard case .core(let cause) = error else {
                throw Problem(500, "internal", "an internal error occurred; try again")
            }
            throw RESTErrors.problem(cause)
        }
    }
}
