internal import CloudCredentials
internal import Clouds
internal import GatewayKit
internal import HTTPClient
internal import Presigning
internal import RESTKit
internal import SettingsKit
internal import Signing
internal import SystemIO
internal import Telemetry
internal import UploadModel

/// The clouds of `direct` mode, as the settings have them.
extension Settings {
    /// The configured clouds, and what is missing for the others.
    ///
    /// - Parameters:
    ///   - pool: Reads files with credentials.
    ///   - clock: The time for signatures.
    ///   - observe: Called after each request to a cloud.
    /// - Returns: One per vendor.
    func directClouds(
        pool: BlockingPool,
        clock: any WallClock,
        observe: @escaping @Sendable (_ cloud: String, _ failure: CloudFailure?) -> Void
    ) -> DirectClouds {
        let client = HTTPClient(
            userAgent: "Sluice/\(Version.current)",
            purpose: "cloud",
            maximumTransfers: Vendor.allCases.count * CloudCaller.maximumCalls,
            // The operator chose the endpoints, so any address is allowed.
            addresses: .any
        )
        return DirectClouds(
            entries: PerVendor(
                aws: awsCloud(client, pool, clock, observe),
                aliyun: aliyunCloud(client, clock, observe),
                tencent: tencentCloud(client, clock, observe)
            )
        )
    }

    private typealias Observer = @Sendable (_ cloud: String, _ failure: CloudFailure?) -> Void

    private func awsCloud(
        _ client: HTTPClient,
        _ pool: BlockingPool,
        _ clock: any WallClock,
        _ observe: @escaping Observer
    ) -> DirectClouds.Entry {
        if aws.buckets.isEmpty { return .missing(["aws.buckets"]) }
        let caller = CloudCaller(cloud: .aws, client: client)
        let credentials: any AWSCredentialsProvider =
            if let pair = Self.pair(aws.accessKeyID, aws.secretAccessKey) {
                StaticCredentials(pair)
            } else {
                RefreshingCredentials(Self.credentialsChain(region: aws.region, client, pool: pool), clock: clock)
            }
        let tokens = AWSTokens(
            caller: caller,
            credentials: credentials,
            endpoint: Self.endpoint(aws.stsEndpoint ?? AWSService.url("sts", region: aws.region)),
            region: aws.region,
            role: aws.roleARN.map { AWSTokens.Role(name: $0, externalID: aws.externalID) },
            clock: clock
        )
        return .ready(
            DirectCloud(
                vendor: .aws,
                region: aws.region,
                address: Self.address(
                    aws.s3Endpoint ?? AWSService.url("s3", region: aws.region),
                    isPathStyle: aws.isPathStyle
                ),
                buckets: aws.buckets,
                bucketsSetting: "aws.buckets",
                credentials: credentials,
                tokens: .service(tokens),
                caller: caller,
                observe: observe
            )
        )
    }

    private func aliyunCloud(
        _ client: HTTPClient,
        _ clock: any WallClock,
        _ observe: @escaping Observer
    ) -> DirectClouds.Entry {
        guard let pair = Self.pair(aliyun.accessKeyID, aliyun.accessKeySecret), let region = aliyun.region,
            !aliyun.buckets.isEmpty
        else {
            return .missing(
                Self.missing([
                    ("aliyun.accessKeyId", aliyun.accessKeyID == nil), ("aliyun.region", aliyun.region == nil),
                    ("aliyun.buckets", aliyun.buckets.isEmpty),
                ])
            )
        }
        let caller = CloudCaller(cloud: .aliyun, client: client)
        let tokens = aliyun.roleARN.map { role in
            AliyunTokens(
                caller: caller,
                credentials: pair,
                endpoint: Self.endpoint(aliyun.stsEndpoint ?? "https://sts.\(region).aliyuncs.com"),
                role: role,
                clock: clock
            )
        }
        return .ready(
            DirectCloud(
                vendor: .aliyun,
                region: region,
                address: Self.address(aliyun.ossEndpoint ?? "https://oss-\(region).aliyuncs.com", isPathStyle: false),
                buckets: aliyun.buckets,
                bucketsSetting: "aliyun.buckets",
                credentials: StaticCredentials(pair),
                tokens: tokens.map { .service($0) } ?? .missing(["aliyun.roleArn"]),
                caller: caller,
                observe: observe
            )
        )
    }

    private func tencentCloud(
        _ client: HTTPClient,
        _ clock: any WallClock,
        _ observe: @escaping Observer
    ) -> DirectClouds.Entry {
        guard let pair = Self.pair(tencent.secretID, tencent.secretKey), let region = tencent.region,
            !tencent.buckets.isEmpty
        else {
            return .missing(
                Self.missing([
                    ("tencent.secretId", tencent.secretID == nil), ("tencent.region", tencent.region == nil),
                    ("tencent.buckets", tencent.buckets.isEmpty),
                ])
            )
        }
        let caller = CloudCaller(cloud: .tencent, client: client)
        let tokens = TencentTokens(
            caller: caller,
            credentials: pair,
            endpoint: Self.endpoint(tencent.stsEndpoint ?? "https://sts.tencentcloudapi.com"),
            region: region,
            clock: clock
        )
        return .ready(
            DirectCloud(
                vendor: .tencent,
                region: region,
                address: Self.address(
                    tencent.cosEndpoint ?? "https://cos.\(region).myqcloud.com",
                    isPathStyle: false
                ),
                buckets: tencent.buckets,
                bucketsSetting: "tencent.buckets",
                credentials: StaticCredentials(pair),
                tokens: .service(tokens),
                caller: caller,
                observe: observe
            )
        )
    }

    private static func missing(_ settings: [(name: String, isMissing: Bool)]) -> [String] {
        settings.filter(\.isMissing).map(\.name)
    }

    private static func pair(_ id: String?, _ secret: Secret<String>?) -> SigningCredentials? {
        guard let id, let secret else { return nil }
        return SigningCredentials(accessKeyID: id, secretAccessKey: secret.exposed)
    }

    /// As clients write it in the signed `Host`.
    static func endpoint(_ url: String) -> CloudEndpoint {
        CloudEndpoint(origin: ObjectURL.origin(of: url, port: nil))
    }

    private static func address(_ url: String, isPathStyle: Bool) -> ObjectAddress {
        ObjectAddress(origin: ObjectURL.origin(of: url, port: nil), isPathStyle: isPathStyle)
    }
}
