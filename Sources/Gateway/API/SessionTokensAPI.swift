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

    /// In whose words credentials are told.
    private enum Format: String, CaseIterable {
        case aws, aliyun, tencent

        var dialect: ObjectDialect {
            switch self {
            case .aws: .s3
            case .aliyun: .oss
            case .tencent: .cos
            }
        }
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
        let bucket = fields.string("bucket", maximumLength: 63, isRequired: true) ?? ""
        let keys = keys(in: &fields)
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
        let format = format(in: &fields)
        try fields.finish()
        let grant = ObjectGrant(
            upload: Grant(
                id: "grant_" + UploadID.generate(at: clock.now).text,
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
            throw Problem(422, "grant_too_long", error.message)
        }
        metrics.minted("sts_token")
        switch format {
        case .aws: return JSONAnswer.response(201, AWSView(credentials, grant, region))
        case .aliyun: return JSONAnswer.response(201, AliyunView(credentials))
        case .tencent: return JSONAnswer.response(201, TencentView(credentials, from: clock.now))
        }
    }

    private func keys(in fields: inout JSONFields) -> ObjectGrant.Keys {
        let only = fields.string("key", maximumLength: 1024)
        let prefix = fields.string("keyPrefix", maximumLength: 1024)
        switch (only, prefix) {
        case (let only?, nil):
            if only.isEmpty { fields.reject("key", "must not be empty") }
            return .only(only)
        case (nil, let prefix?): return .prefix(prefix)
        case (nil, nil): fields.reject("keyPrefix", "is required, or `key`; empty for all keys of the bucket")
        default: fields.reject("key", "must not be there beside `keyPrefix`")
        }
        return .only("")
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

    private func format(in fields: inout JSONFields) -> Format {
        guard let text = fields.string("format", maximumLength: 16) else { return .aws }
        guard let format = Format(rawValue: text) else {
            fields.reject("format", "must be one of \(Format.allCases.map(\.rawValue).joined(separator: ", "))")
            return .aws
        }
        return format
    }

    // MARK: Answers

    /// As AWS's token service names them.
    private struct AWSView: Encodable {
        struct Credentials: Encodable {
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
        }

        let credentials: Credentials
        let bucket: String?
        let region: String

        enum CodingKeys: String, CodingKey {
            case credentials = "Credentials"
            case bucket, region
        }

        init(_ credentials: SessionCredentials, _ grant: ObjectGrant, _ region: String) {
            self.credentials = Credentials(
                accessKeyID: credentials.accessKeyID,
                secretAccessKey: credentials.secretAccessKey.text,
                sessionToken: credentials.sessionToken,
                expiration: credentials.expiresAt.formatted(.iso8601)
            )
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
