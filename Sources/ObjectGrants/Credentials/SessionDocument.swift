package import Foundation
package import Signing
internal import UploadModel

/// Session credentials for an app's backend, with the member names of the vendor's token service.
package struct SessionDocument: Encodable {
    /// Where the credentials can be used.
    package struct Place: Sendable {
        let bucket: String
        let region: String
        /// Endpoint of the store; `nil` for the object endpoint.
        let endpoint: String?

        package init(bucket: String, region: String, endpoint: String?) {
            self.bucket = bucket
            self.region = region
            self.endpoint = endpoint
        }
    }

    private let session: MintedSession
    private let vendor: Vendor
    private let place: Place?
    private let time: Date

    /// - Parameters:
    ///   - session: The credentials, from any issuer.
    ///   - vendor: The vendor whose format is used.
    ///   - place: `nil` if clients know it already.
    ///   - now: When the credentials become valid.
    package init(_ session: MintedSession, for vendor: Vendor, at place: Place?, from now: Date) {
        self.session = session
        self.vendor = vendor
        self.place = place
        time = now
    }

    package func encode(to encoder: any Encoder) throws {
        switch vendor {
        case .aws: try AWSView(session, place).encode(to: encoder)
        case .aliyun: try AliyunView(session, place).encode(to: encoder)
        case .tencent: try TencentView(session, place, from: time).encode(to: encoder)
        }
    }

    /// Members as in AWS's token service.
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

    /// Members as in Alibaba Cloud's token service.
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

    /// Members as in Tencent Cloud's token service.
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

/// Session credentials from any issuer.
package struct MintedSession: Sendable {
    package let value: SigningCredentials
    package let expiresAt: Date

    package init(value: SigningCredentials, expiresAt: Date) {
        self.value = value
        self.expiresAt = expiresAt
    }

    package init(_ session: SessionCredentials) { self.init(value: session.signing, expiresAt: session.expiresAt) }
}

/// Session credentials with the member names of AWS's token service.
package struct AWSCredentialsView: Encodable {
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

    package init(_ session: MintedSession) {
        accessKeyID = session.value.accessKeyID
        secretAccessKey = session.value.secretAccessKey
        sessionToken = session.value.sessionToken ?? ""
        expiration = session.expiresAt.formatted(.iso8601)
    }
}
