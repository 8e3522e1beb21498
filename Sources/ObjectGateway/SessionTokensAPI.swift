internal import CloudCredentials
internal import Clouds
internal import CoreMetrics
internal import Foundation
internal import HTTPServer
internal import HTTPWire
internal import ObjectGrants
internal import Presigning
internal import RESTKit
internal import Signing
internal import UploadModel

/// `/v1/sts/tokens`: an app's backend mints credentials for the object endpoint, or requests them from a real cloud.
///
/// Its app passes them to an SDK.
struct SessionTokensAPI: Sendable {
    let issuer: CredentialIssuer
    let clouds: DirectClouds
    let access: Access
    let minted: Counter
    /// By a cloud.
    let mintedDirectly: Counter
    let bodyLimit: Int
    let maximumBytes: Int64
    let clock: any WallClock
    let region: String
    /// For uploads of app users.
    let buckets: [String]

    /// Seconds; shorter credentials would expire during a slow upload.
    static let minimumLifetime: Int64 = 60
    static let maximumLifetime: Int64 = 36 * 3600
    static let defaultLifetime: Int64 = 3600
    /// Seconds by which a cloud's clock may be ahead, and its answer late.
    private static let cloudSkew: Double = 300

    var routes: [Route] {
        [
            Route(.post, "/v1/sts/tokens") { request, _ in
                await responding(request) { () throws(Problem) in try await mint(request) }
            }
        ]
    }

    private func mint(_ request: Request) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.mint, request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let subject = fields.subject(isRequired: true)
        let bucket = fields.bucket()
        let keys = fields.objectKeys()
        let actions = actions(in: &fields)
        let rights = ObjectAction.rights(of: actions, for: subject, at: keys.reach(in: bucket))
        if case .scopes? = key.refusal(minting: rights) {
            fields.reject(
                "actions",
                "must be what the API key may do itself: `read` needs its scope, `delete` needs `delete`"
            )
        }
        let most = fields.integer("maxBytes", in: 0...maximumBytes)
        let contentTypes = fields.strings(
            "contentTypes",
            maximumCount: 32,
            where: MediaTypeText.isPattern,
            MediaTypeText.hint
        )
        let lifetime =
            fields.integer("expiresIn", in: Self.minimumLifetime...Self.maximumLifetime) ?? Self.defaultLifetime
        let isOneTime = fields.bool("oneTime") ?? false
        let metadata = fields.dictionary("metadata", maximumCount: 64, maximumBytes: 1024)
        let vendor = fields.objectFormat()
        let now = clock.now
        var grant = ObjectGrant(
            upload: Grant(
                id: Grant.newID(at: now),
                issuer: key.id,
                subject: subject,
                maximumBytes: most,
                contentTypes: contentTypes,
                expiresAt: now.addingTimeInterval(Double(lifetime)),
                isOneTime: isOneTime,
                metadata: metadata,
                issuedAt: now
            ),
            bucket: bucket,
            keys: keys,
            actions: actions
        )
        try access.limit(minted: &grant.upload, by: key, at: now)
        let cloud = clouds.wanted(vendor, bucket: bucket, in: &fields)
        // The cloud's session cannot be ended here.
        let secondsLeft = Int64(grant.upload.expiresAt.timeIntervalSince(now).rounded(.down))
        let order = cloud?.tokenOrder(
            for: grant,
            subject: subject ?? "",
            lifetime: lifetime,
            endingWithin: secondsLeft,
            in: &fields
        )
        try fields.finish()
        try access.check(key, mints: rights)
        try access.checkUser(key, bucket: bucket, keys, for: vendor, isDirect: cloud != nil, among: buckets)
        if let cloud, let order {
            let made = try await cloud.asking { () async throws(CloudFailure) in
                try await order.service.mint(order.request)
            }
            guard made.expiresAt <= now.addingTimeInterval(Double(order.request.lifetime) + Self.cloudSkew) else {
                throw Problem(502, "cloud_failed", "\(cloud.name) made a session that lasts longer than was asked for.")
            }
            mintedDirectly.increment()
            let place = SessionDocument.Place(bucket: bucket, region: cloud.region, endpoint: cloud.address.origin)
            return response(MintedSession(value: made.value, expiresAt: made.expiresAt), vendor, at: place)
        }
        let credentials: SessionCredentials
        do throws(GrantTooLong) {
            credentials = try issuer.mint(grant, for: vendor)
        } catch {
            throw Problem(error)
        }
        minted.increment()
        // Clients already know the endpoint, but boto3 still needs a region.
        let place = vendor == .aws ? SessionDocument.Place(bucket: bucket, region: region, endpoint: nil) : nil
        return response(MintedSession(credentials), vendor, at: place)
    }

    private func response(
        _ session: MintedSession,
        _ vendor: Vendor,
        at place: SessionDocument.Place?
    ) -> Response {
        JSONResponse.response(201, SessionDocument(session, for: vendor, at: place, from: clock.now))
    }

    private func actions(in fields: inout JSONFields) -> Set<ObjectAction> {
        let names = SessionAction.allCases.map(\.rawValue).sorted()
        let wanted = fields.strings(
            "actions",
            maximumCount: names.count,
            where: { SessionAction(rawValue: $0) != nil },
            "one of \(names.joined(separator: ", "))"
        )
        return (wanted.isEmpty ? ["upload"] : wanted).reduce(into: Set<ObjectAction>()) {
            $0.formUnion(SessionAction(rawValue: $1)?.actions ?? [])
        }
    }
}
