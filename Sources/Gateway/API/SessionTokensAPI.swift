internal import Foundation
internal import HTTPServer
internal import HTTPWire
internal import ObjectAPI
internal import UploadCore

/// `/v1/sts/tokens`: an app's backend mints credentials for the object endpoint, which its app hands to an SDK.
struct SessionTokensAPI: Sendable {
    let issuer: CredentialIssuer
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

    /// What the app's backend may allow, by the names that it has for it.
    private static let actions: [String: Set<ObjectAction>] = [
        "upload": ObjectAction.upload,
        "read": ObjectAction.read,
        "delete": [.deleteObject],
    ]

    private func mint(_ request: Request) async throws(Problem) -> Response {
        let key = try await access.require(.mint, request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let subject = fields.string("subject", maximumLength: 256, isRequired: true)
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
        try fields.finish()
        let grant = ObjectGrant(
            upload: Grant(
                id: Grant.newID(at: clock.now),
                issuer: key.id,
                subject: subject,
                maximumBytes: most,
                contentTypes: contentTypes,
                expiresAt: clock.now.addingTimeInterval(Double(lifetime)),
                isOneTime: isOneTime,
                metadata: metadata
            ),
            bucket: bucket,
            keys: keys,
            actions: actions
        )
        let credentials: SessionCredentials
        do throws(GrantTooLong) {
            credentials = try issuer.mint(grant, for: format.dialect)
        } catch {
            throw Problem(error)
        }
        metrics.minted("sts_token")
        switch format {
        case .aws: return JSONAnswer.response(201, AWSView(credentials, grant, region))
        case .aliyun: return JSONAnswer.response(201, AliyunView(credentials))
        case .tencent: return JSONAnswer.response(201, TencentView(credentials, from: clock.now))
        }
    }

    /// No more than the key that mints may do itself.
    private func actions(in fields: inout JSONFields, of key: APIKey) -> Set<ObjectAction> {
        let names = Self.actions.keys.sorted()
        let wanted = fields.strings(
            "actions",
            maximumCount: names.count,
            where: { Self.actions[$0] != nil },
            "one of \(names.joined(separator: ", "))"
        )
        let actions = (wanted.isEmpty ? ["upload"] : wanted).reduce(into: Set<ObjectAction>()) {
            $0.formUnion(Self.actions[$1] ?? [])
        }
        if !actions.isSubset(of: ObjectAction.allowed(to: key)) {
            fields.reject(
                "actions",
                "must be what the API key may do itself: `read` needs its scope, `delete` needs `admin`"
            )
        }
        return actions
    }

    // MARK: Answers

    /// As AWS's token service names them.
    private struct AWSView: Encodable {
        let credentials: AWSCredentialsView
        let bucket: String?
        let region: String

        enum CodingKeys: String, CodingKey {
            case credentials = "Credentials"
            case bucket, region
        }

        init(_ credentials: SessionCredentials, _ grant: ObjectGrant, _ region: String) {
            self.credentials = AWSCredentialsView(credentials)
            bucket = grant.bucket
            self.region = region
        }
    }

    /// As Alibaba Cloud's token service names them.
    private struct AliyunView: Encodable {
        let accessKeyID: String
        let accessKeySecret: String
        let securityToken: String
        let expiration: String

        enum CodingKeys: String, CodingKey {
            case accessKeyID = "AccessKeyId"
            case accessKeySecret = "AccessKeySecret"
            case securityToken = "SecurityToken"
            case expiration = "Expiration"
        }

        init(_ credentials: SessionCredentials) {
            accessKeyID = credentials.accessKeyID
            accessKeySecret = credentials.secretAccessKey.text
            securityToken = credentials.sessionToken
            expiration = credentials.expiresAt.formatted(.iso8601)
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

        init(_ credentials: SessionCredentials, from now: Date) {
            self.credentials = Credentials(
                tmpSecretId: credentials.accessKeyID,
                tmpSecretKey: credentials.secretAccessKey.text,
                sessionToken: credentials.sessionToken
            )
            startTime = Int64(now.timeIntervalSince1970)
            expiredTime = Int64(credentials.expiresAt.timeIntervalSince1970)
            expiration = credentials.expiresAt.formatted(.iso8601)
        }
    }
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

    init(_ credentials: SessionCredentials) {
        accessKeyID = credentials.accessKeyID
        secretAccessKey = credentials.secretAccessKey.text
        sessionToken = credentials.sessionToken
        expiration = credentials.expiresAt.formatted(.iso8601)
    }
}
