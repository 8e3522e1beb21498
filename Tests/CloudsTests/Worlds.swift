import CloudCredentials
import Foundation
import HTTPClient
import Signing
import SluiceTesting

@testable import Clouds

/// What the callers of token services are made of, without a time that a busy machine could exceed.
enum World {
    static let pair = SigningCredentials(accessKeyID: "AKIDEXAMPLE", secretAccessKey: "the-secret-key")
    /// 2026-01-02 03:04:05 UTC.
    static let noon = Date(timeIntervalSince1970: 1_767_323_045)
    static let request = CloudTokenRequest(subject: "user-42", policy: #"{"a b":"*"}"#, lifetime: 3600)
    static let client = HTTPClient(userAgent: "test", addresses: .any)

    static func caller(_ cloud: Vendor, timeout: Duration = .seconds(300)) -> CloudCaller {
        CloudCaller(cloud: cloud, client: client, timeout: timeout)
    }

    static func aws(
        _ url: String,
        role: AWSTokens.Role? = AWSTokens.Role(name: "arn:aws:iam::123456789012:role/up", externalID: "ext 1"),
        pair: SigningCredentials = pair,
        timeout: Duration = .seconds(300)
    ) -> AWSTokens {
        AWSTokens(
            caller: caller(.aws, timeout: timeout),
            credentials: StaticCredentials(pair),
            endpoint: CloudEndpoint(origin: url),
            region: "eu-west-1",
            role: role,
            clock: ManualClock(noon)
        )
    }

    static func aliyun(_ url: String) -> AliyunTokens {
        AliyunTokens(
            caller: caller(.aliyun),
            credentials: pair,
            endpoint: CloudEndpoint(origin: url),
            role: "acs:ram::1234567890123456:role/up",
            clock: ManualClock(noon)
        )
    }

    static func tencent(_ url: String) -> TencentTokens {
        TencentTokens(
            caller: caller(.tencent),
            credentials: pair,
            endpoint: CloudEndpoint(origin: url),
            region: "ap-guangzhou",
            clock: ManualClock(noon)
        )
    }

    /// Serves `answer` for as long as `body` takes.
    static func serving(
        _ response: TestServer.Reply,
        _ body: (TestServer) async throws -> Void
    ) async throws {
        let server = try TestServer { _, _ in response }
        do {
            try await body(server)
        } catch {
            await server.shutDown()
            throw error
        }
        await server.shutDown()
    }

    static let awsResponse = """
        <AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
        <AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s1</SecretAccessKey><SessionToken>t1</SessionToken>
        <Expiration>2026-01-02T04:04:05Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>
        """
    static let aliyunResponse = """
        {"RequestId":"1","AssumedRoleUser":{"Arn":"a","AssumedRoleId":"1:a"},"Credentials":{"AccessKeyId":"STS.1",
        "AccessKeySecret":"s1","SecurityToken":"t1","Expiration":"2026-01-02T04:04:05Z"}}
        """
    static let tencentResponse = """
        {"Response":{"Credentials":{"Token":"t1","TmpSecretId":"AKID1","TmpSecretKey":"s1"},"ExpiredTime":1767326645,
        "Expiration":"2026-01-02T04:04:05Z","RequestId":"1"}}
        """
}
