internal import CloudCredentials
internal import RESTKit
package import SettingsKit

/// The account whose credentials and URLs are issued in `direct` mode.
package struct AWSSettings: SettingsSection {
    /// Empty disables `direct` mode.
    package var buckets: [String] = []
    package var accessKeyID: String?
    /// Without a key pair, credentials are searched for in the same places as AWS's own tools do.
    package var secretAccessKey: Secret<String>?
    package var region = "us-east-1"
    /// `nil` federates the user who owns the key pair.
    package var roleARN: String?
    package var externalID: String?
    /// `http(s)://host[:port]`; `nil` uses the AWS endpoint of the region.
    ///
    /// The same applies to the other endpoint.
    package var stsEndpoint: String?
    package var s3Endpoint: String?
    package var isPathStyle = false

    package init() {}

    package static let table: [Setting] = [
        setting(
            "aws.buckets",
            \.buckets,
            .buckets,
            "S3 buckets for which direct mode may mint credentials and URLs; if empty, there is no direct mode for S3."
        ),
        setting(
            "aws.accessKeyId",
            \.accessKeyID,
            optional: .visible(minimum: 1),
            "Access key for direct mode; if not set, credentials come from the environment, files or the machine, as in AWS's tools."
        ),
        setting("aws.secretAccessKey", \.secretAccessKey, secret: .visible(minimum: 1), "Its secret."),
        setting("aws.region", \.region, .region, "Region of these buckets, and of the token service."),
        setting(
            "aws.roleArn",
            \.roleARN,
            optional: .visible(minimum: 20),
            "Role that sessions of direct mode assume (AssumeRole); if not set, the user of the access key is federated (GetFederationToken)."
        ),
        setting(
            "aws.externalId",
            \.externalID,
            optional: .visible(minimum: 2),
            "External id that the role's trust policy requires."
        ),
        setting(
            "aws.stsEndpoint",
            \.stsEndpoint,
            optional: .origin,
            "URL of the token service; if not set, that of AWS in the region."
        ),
        setting(
            "aws.s3Endpoint",
            \.s3Endpoint,
            optional: .origin,
            "URL of the store; if not set, that of AWS in the region."
        ),
        setting(
            "aws.pathStyle",
            \.isPathStyle,
            .flag,
            "Whether URLs of direct mode name the bucket in the path instead of the host name."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let aws = settings.aws
        demands.pair("aws.accessKeyId", aws.accessKeyID != nil, "aws.secretAccessKey", aws.secretAccessKey != nil)
        demands.demand(
            aws.externalID == nil || aws.roleARN != nil,
            "aws.roleArn",
            because: "aws.externalId",
            "must be set too, because aws.externalId is"
        )
    }
}

extension Settings {
    package var aws: AWSSettings {
        get { self[AWSSettings.self] }
        set { self[AWSSettings.self] = newValue }
    }
}

extension SettingFormat where Value == String {
    package static let region = SettingFormat(
        allowed: "lower-case letters, digits and hyphens, such as eu-west-1",
        parse: { AWSService.isRegion($0) ? $0 : nil },
        render: { $0 }
    )
}
