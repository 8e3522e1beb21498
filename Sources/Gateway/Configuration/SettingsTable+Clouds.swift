/// Settings of the accounts at clouds for which credentials and URLs are minted.
extension SettingsTable {
    static let clouds: [Setting] = aws + aliyun + tencent

    private static let aws: [Setting] = [
        Setting(
            "aws.buckets",
            \.aws.buckets,
            .buckets,
            "Buckets of S3 that direct mode may mint credentials and URLs for; without any, there is no direct mode for it."
        ),
        Setting(
            "aws.accessKeyId",
            \.aws.accessKeyID,
            optional: .visible(minimum: 1),
            "Access key for direct mode; without one, credentials come from the environment, files or the machine, as in AWS's tools."
        ),
        Setting("aws.secretAccessKey", \.aws.secretAccessKey, secret: .visible(minimum: 1), "Its secret."),
        Setting("aws.region", \.aws.region, .region, "Region of these buckets, and of the token service."),
        Setting(
            "aws.roleArn",
            \.aws.roleARN,
            optional: .visible(minimum: 20),
            "Role that sessions of direct mode take (AssumeRole); without one, the user of the access key is federated (GetFederationToken)."
        ),
        Setting(
            "aws.externalId",
            \.aws.externalID,
            optional: .visible(minimum: 2),
            "What the role's trust policy asks for."
        ),
        Setting(
            "aws.stsEndpoint",
            \.aws.stsEndpoint,
            optional: .origin,
            "The token service; without it, that of AWS in the region."
        ),
        Setting(
            "aws.s3Endpoint",
            \.aws.s3Endpoint,
            optional: .origin,
            "The store; without it, that of AWS in the region."
        ),
        Setting(
            "aws.pathStyle",
            \.aws.isPathStyle,
            .flag,
            "URLs of direct mode name the bucket in the path instead of the host name."
        ),
    ]

    private static let aliyun: [Setting] = [
        Setting(
            "aliyun.buckets",
            \.aliyun.buckets,
            .buckets,
            "Buckets of OSS that direct mode may mint credentials and URLs for; without any, there is no direct mode for it."
        ),
        Setting(
            "aliyun.accessKeyId",
            \.aliyun.accessKeyID,
            optional: .visible(minimum: 1),
            "AccessKey of a RAM user of Alibaba Cloud, for direct mode."
        ),
        Setting("aliyun.accessKeySecret", \.aliyun.accessKeySecret, secret: .visible(minimum: 1), "Its secret."),
        Setting(
            "aliyun.region",
            \.aliyun.region,
            optional: .region,
            "Region of these buckets, such as cn-shanghai, and of the token service."
        ),
        Setting(
            "aliyun.roleArn",
            \.aliyun.roleARN,
            optional: .visible(minimum: 10),
            "RAM role that sessions of direct mode take (AssumeRole)."
        ),
        Setting(
            "aliyun.stsEndpoint",
            \.aliyun.stsEndpoint,
            optional: .origin,
            "The token service; without it, that of Alibaba Cloud in the region."
        ),
        Setting(
            "aliyun.ossEndpoint",
            \.aliyun.ossEndpoint,
            optional: .origin,
            "OSS, without the bucket in front of the host; without it, that of Alibaba Cloud in the region."
        ),
    ]

    private static let tencent: [Setting] = [
        Setting(
            "tencent.mode",
            \.tencent.mode,
            .choice,
            "Whether uploads of VOD come here or go to Tencent."
        ),
        Setting(
            "tencent.secretId",
            \.tencent.secretID,
            optional: .visible(minimum: 1),
            "SecretId of the Tencent Cloud account."
        ),
        Setting(
            "tencent.secretKey",
            \.tencent.secretKey,
            secret: .visible(minimum: 1),
            "SecretKey of the Tencent Cloud account."
        ),
        Setting(
            "tencent.region",
            \.tencent.region,
            optional: .region,
            "Region of these buckets, such as ap-guangzhou, and of the token service."
        ),
        Setting(
            "tencent.buckets",
            \.tencent.buckets,
            .buckets,
            "Buckets of COS, with their app id (media-1250000000), that direct mode may mint credentials and URLs for; without any, there is no direct mode for it."
        ),
        Setting(
            "tencent.stsEndpoint",
            \.tencent.stsEndpoint,
            optional: .origin,
            "The token service; without it, that of Tencent Cloud."
        ),
        Setting(
            "tencent.cosEndpoint",
            \.tencent.cosEndpoint,
            optional: .origin,
            "COS, without the bucket in front of the host; without it, that of Tencent Cloud in the region."
        ),
    ]
}
