internal import Bytes
internal import CoreMetrics
internal import Foundation
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// `/v1/tencent`: signatures for the upload SDKs of Tencent Cloud VOD.
struct TencentAPI: Sendable {
    let issuer: TencentSignatureIssuer
    let settings: TencentVODSettings
    let access: Access
    /// What a signature reaches for an application; `nil` stands for the one of signatures that name none.
    let reach: @Sendable (_ application: Int64?) -> MintedRights.Reach
    let minted: Counter
    let bodyLimit: Int
    let clock: any WallClock

    var routes: [Route] {
        [
            Route(.post, "/v1/tencent/signatures") { request, _ in
                await responding(request) { () throws(Problem) in try await sign(request) }
            }
        ]
    }

    private func sign(_ request: Request) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.mint, request)
        let isPlain = try wantsPlainText(request)
        let bytes = try await JSONFields.content(of: request, limit: bodyLimit)
        let now = clock.now
        // Fast path: most apps use the defaults.
        var wanted = SignatureRequest()
        if !bytes.isEmpty {
            wanted = try Self.checked { () throws(InvalidSignatureRequest) in try SignatureRequest(json: bytes) }
        }
        if key.user != nil { try limit(&wanted, by: key, at: now) }
        if issuer.mode == .direct, !key.limits.isEmpty {
            let problems = wanted.problems(ofKeyWithLimits: settings)
            if !problems.isEmpty { throw Self.problem(problems) }
        }
        let issued = try Self.checked { [wanted] () throws(InvalidSignatureRequest) in
            try issuer.issue(wanted, at: now, mintedBy: key.id, until: key.end(ofMintedAt: now))
        }
        try access.check(key, mints: MintedRights(subject: wanted.subject, reach: reach(wanted.vodSubAppID)))
        minted.increment()
        if isPlain { return Response(201, Self.plainFields, .bytes(Array((issued.signature + "\n").utf8))) }
        return Response(201, Self.jsonFields, .bytes(Self.json(issued)))
    }

    private static func checked<Success>(
        _ body: () throws(InvalidSignatureRequest) -> Success
    ) throws(Problem) -> Success {
        do throws(InvalidSignatureRequest) {
            return try body()
        } catch {
            if error.problems.isEmpty { throw Problem(400, "invalid_json", error.message) }
            throw problem(error.problems)
        }
    }

    private static func problem(_ problems: [FieldProblem]) -> Problem {
        Problem.invalidFields(problems.map { .init(field: $0.field, message: $0.message) })
    }

    /// Applies the limits of an app user; the signature begins now, so that a later revocation ends it.
    private func limit(
        _ wanted: inout SignatureRequest,
        by key: APIKey,
        at now: Date
    ) throws(Problem) {
        guard issuer.mode == .relay else { throw Access.notDirect }
        try access.requireExpressible([.maximumBytes, .contentTypes], of: key, in: "a signature for Tencent VOD")
        if wanted.currentTimeStamp != nil || wanted.expireTime != nil {
            throw Problem.invalidFields([
                .init(field: "expireTime", message: "must not be there with the token of an app user; use expiresIn")
            ])
        }
        wanted.subject = wanted.subject ?? key.limits.onlySubject
        var grant = Grant(
            id: key.id,
            subject: nil,
            maximumBytes: wanted.maximumBytes,
            contentTypes: wanted.contentTypes ?? [],
            expiresAt: .distantFuture
        )
        try access.limit(minted: &grant, by: key, at: now)
        wanted.maximumBytes = grant.maximumBytes
        wanted.contentTypes = grant.contentTypes.isEmpty ? nil : grant.contentTypes
    }

    private static let plainFields: HTTPFields = [
        "Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store", "Vary": "Accept",
    ]
    private static let jsonFields: HTTPFields = [
        "Content-Type": "application/json", "Cache-Control": "no-store", "Vary": "Accept",
    ]

    private func wantsPlainText(_ request: Request) throws(Problem) -> Bool {
        guard let field = request.head.fields["Accept"], field != "*/*" else { return false }
        guard let form = AcceptHeader(field).best(of: ["application/json", "text/plain"]) else {
            throw Problem(406, "not_acceptable", "the response is application/json or text/plain")
        }
        return form == "text/plain"
    }

    /// The response as JSON, members in alphabetical order.
    ///
    /// Written by hand because this is the hottest path: numbers, and strings of Base64 and a secret id, which
    /// `JSONObjectWriter` quotes.
    private static func json(_ issued: IssuedSignature) -> [UInt8] {
        var text = JSONObjectWriter(capacity: issued.signature.utf8.count + 160)
        text.member("currentTimeStamp", issued.currentTimeStamp)
        text.member("expireTime", issued.expireTime)
        text.member("random", Int64(issued.random))
        text.member("secretId", issued.secretID)
        text.member("signature", issued.signature)
        return text.finish(lineFeed: true)
    }
}
