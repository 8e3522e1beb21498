internal import Foundation
internal import GatewayKit
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// `/v1/revocations`: an app revokes what it has minted, for one user or for all.
struct RevocationsAPI: Sendable {
    let state: any RevocationRecords
    let revoked: RevocationList
    let access: Access
    let bodyLimit: Int
    let clock: any WallClock
    /// Seconds by which clocks of others may be ahead.
    let skew: TimeInterval
    let audit: AuditLog

    var routes: [Route] {
        [
            Route(.post, "/v1/revocations") { request, _ in
                await responding(request) { () throws(Problem) in try await revoke(request) }
            }
        ]
    }

    private struct View: Encodable {
        var subject: String?
        var issuedBefore: String
        var createdAt: String
    }

    private func revoke(_ request: Request) async throws(Problem) -> Response {
        let actor = try await access.require(.admin, request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let subject = fields.subject()
        let text = fields.string("issuedBefore", maximumLength: 64)
        let now = clock.now
        // Includes what was minted in this very millisecond, which is the precision of recorded times, on any node.
        var issuedBefore = now.addingTimeInterval(0.001 + clock.lag)
        if let text {
            // Later than now by what a clock can be ahead: it ends what such a clock has made, and all that is minted until then.
            if let time = Timestamp.parse(text), time <= now.addingTimeInterval(skew) {
                issuedBefore = time
            } else {
                fields.reject(
                    "issuedBefore",
                    "must be a time such as 2025-06-25T16:00:00Z (RFC 3339), at most \(Int(skew)) s from now (limits.clockSkew)"
                )
            }
        } else if subject == nil {
            fields.reject("subject", "is required, or `issuedBefore`, or both")
        }
        try fields.finish()
        let revocation = Revocation(subject: subject, issuedBefore: issuedBefore, createdAt: now)
        try await access.core { () throws(UploadError) in try await state.insert(revocation) }
        revoked.expire()
        audit.record(
            .revoke,
            by: actor.id,
            client: request.clientAddress,
            ["subject": subject, "issuedBefore": JSONResponse.timestamp(issuedBefore)]
        )
        return JSONResponse.response(
            201,
            View(
                subject: subject,
                issuedBefore: JSONResponse.timestamp(issuedBefore),
                createdAt: JSONResponse.timestamp(now)
            )
        )
    }
}
