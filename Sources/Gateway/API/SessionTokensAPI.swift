internal import CloudCredentials
internal import Clouds
internal import Foundation
internal import HTTPServer
internal import HTTPWire
internal import ObjectAPI
internal import Signing
internal import UploadCore

/// `/v1/sts/tokens`: an app's backend mints credentials for the object endpoint, or has those of a real cloud made; its app hands
/// them to an SDK.
struct SessionTokensAPI: Sendable {
    let issuer: CredentialIssuer
    let clouds: DirectClouds
    let access: Access
    let metrics: Metrics
    let bodyLimit: Int
    let maximumBytes: Int64
    let clock: any WallClock
    let region: String

    /// Shorter ones would be over before a slow upload is.
    static let minimumLifetime: Int64 = 60
    static let maximumLifetime: Int64 = 36 * 3600
    static let defaultLifetime: Int64 = 3600

    var routes: [Route] {
        [
            Route(.post, "/v1/sts/tokens") { request, _ in
                await answering(request) { () throws(Problem) in try await mint(request) }
            }
        ]
    }

    private func mint(_ request: Request) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.mint, request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let subject = fields.subject(isRequired: true)
        let bucket = fields.bucket()
        let keys = fields.objectKeys()
        let actions = actions(in: &fields, of: key)
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
        let format = fields.objectFormat()
        let now = clock.now
        let grant = ObjectGrant(
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
        let cloud = clouds.wanted(format, bucket: bucket, in: &fields)
        let order = cloud?.tokenOrder(for: grant, subject: subject ?? "", lifetime: lifetime, in: &fields)
        try fields.finish()
        try access.check(key, subject: subject, bucket: bucket, keys)
        if let cloud, let order {
            let made = try await cloud.asking { () async throws(CloudFailure) in
                try await order.service.mint(order.request)
            }
            metrics.minted("direct_sts_token")
            let place = Place(bucket: bucket, region: cloud.region, endpoint: cloud.address.origin)
            return answer(MintedSession(value: made.value, expiresAt: made.expiresAt), format, at: place)
        }
        let credentials: SessionCredentials
        do throws(GrantTooLong) {
            credentials = try issuer.mint(grant, for: format.dialect)
        } catch {
            throw Problem(error)
        }
        metrics.minted("sts_token")
        // How clients reach the endpoint, whoever has the credentials knows; boto3 wants a region all the same.
        let place = format == .aws ? Place(bucket: bucket, region: region, endpoint: nil) : nil
        return answer(MintedSession(credentials), format, at: place)
    }

    private func answer(_ session: MintedSession, _ format: ObjectFormat, at place: Place?) -> Response {
        switch format {
        case .aws: JSONAnswer.response(201, AWSView(session, place))
        case .aliyun: JSONAnswer.response(201, AliyunView(session, place))
        case .tencent: JSONAnswer.response(201, TencentView(session, place, from: clock.now))
        }
    }

    /// No more than the key that mints may do itself.
    private func actions(in fields: inout JSONFields, of key: APIKey) -> Set<ObjectAction> {
        let names = SessionAction.allCases.map(\.rawValue).sorted()
        let wanted = fields.strings(
            "actions",
            maximumCount: names.count,
            where: { SessionAction(rawValue: $0) != nil },
            "one of \(names.joined(separator: ", "))"
        )
        let actions = (wanted.isEmpty ? ["upload"] : wanted).reduce(into: Set<ObjectAction>()) {
            $0.formUnion(SessionAction(rawValue: $1)?.actions ?? [])
        }
        if !actions.isSubset(of: ObjectAction.allowed(to: key)) {
            fields.reject(
                "actions",
                "must be what the API key may do itself: `read` needs its scope, `delete` needs `delete`"
            )
        }
        return actions
    }

    // MARK: Answers

    /// Where the credentials are good for something.
    private struct Place {
        let bucket: String
        let region: String
        /// The store; `nil` for the object endpoint.
        let endpoint: String?
    }

    /// As AWS's token service names them.
    private struct AWSView: Encodable {
        let credentials: AWSCredentialsView
        let bucket: String?
        let region: String?
        let endpoint: String?

        enum CodingKeys: String, CodingKey {
            case credentials = "Credentials"
            case bucket, region, endpoint
        }

        init(_ session: MintedSession, _ place: Place?) {
            credentials = AWSCredentialsView(session)
            bucket = place?.bucket
            region = place?.region
            endpoint = place?.endpoint
        }
    }

    /// As Alibaba Cloud's token service names them.
    private struct AliyunView: Encodable {
        let accessKeyID: String
        let accessKeySecret: String
        let securityToken: String
        let expiration: String
        let bucket: String?
        let region: String?
        let endpoint: String?

        enum CodingKeys: String, CodingKey {
            case accessKeyID = "AccessKeyId"
            case accessKeySecret = "AccessKeySecret"
            case securityToken = "SecurityToken"
            case expiration = "Expiration"
            case bucket, region, endpoint
        }

        init(_ session: MintedSession, _ place: Place?) {
            accessKeyID = session.value.accessKeyID
            accessKeySecret = session.value.secretAccessKey
            securityToken = session.value.sessionToken ?? ""
            expiration = session.expiresAt.formatted(.iso8601)
            bucket = place?.bucket
            region = place?.region
            endpoint = place?.endpoint
        }
    }

    /// As Tencent Cloud's token service names them.
    private struct TencentView: Encodable {
        struct Credentials: Encodable {
            let tmpSecretId: String
            let tmpSecretKey: String
            let sessionToken: String
        }

        let credentials: Credentials
        let startTime: Int64
        let expiredTime: Int64
        let expiration: String
        let bucket: String?
        let region: String?
        let endpoint: String?

        init(_ session: MintedSession, _ place: Place?, from now: Date) {
            credentials = Credentials(
                tmpSecretId: session.value.accessKeyID,
                tmpSecretKey: session.value.secretAccessKey,
                sessionToken: session.value.sessionToken ?? ""
            )
            startTime = now.unixSeconds
            expiredTime = session.expiresAt.unixSeconds
            expiration = session.expiresAt.formatted(.iso8601)
            bucket = place?.bucket
            region = place?.region
            endpoint = place?.endpoint
        }
    }
}

/// Credentials of a session, whoever made them.
struct MintedSession: Sendable {
    let value: SigningCredentials
    let expiresAt: Date

    init(value: SigningCredentials, expiresAt: Date) {
        self.value = value
        self.expiresAt = expiresAt
    }

    init(_ session: SessionCredentials) { self.init(value: session.signing, expiresAt: session.expiresAt) }
}

/// Credentials of a session as AWS's token service names them.
struct AWSCredentialsView: Encodable {
    let accessKeyID: String
    let secretAccessKey: String
    let sessionToken: String
    let expiration: String

    enum CodingKeys: String, CodingKey {
        case accessKeyID = "AccessKeyId"
        case secretAccessKey = "SecretAccessKey"
        case sessionToken = "SessionToken"
        case expiration = "Expiration"
    }

    init(_ session: MintedSession) {
        accessKeyID = session.value.accessKeyID
        secretAccessKey = session.value.secretAccessKey
        sessionToken = session.value.sessionToken ?? ""
        expiration = session.expiresAt.formatted(.iso8601)
    }
}
