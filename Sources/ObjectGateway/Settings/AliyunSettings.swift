package import SettingsKit

/// The Alibaba Cloud account whose credentials and URLs are issued in `direct` mode.
package struct AliyunSettings: SettingsSection {
    package var buckets: [String] = []
    package var accessKeyID: String?
    package var accessKeySecret: Secret<String>?
    package var region: String?
    package var roleARN: String?
    package var stsEndpoint: String?
    package var ossEndpoint: String?

    package init() {}

    package static let table: [Setting] = [
        setting(
            "aliyun.buckets",
            \.buckets,
            .buckets,
            "OSS buckets for which direct mode may mint credentials and URLs; if empty, there is no direct mode for OSS."
        ),
        setting(
            "aliyun.accessKeyId",
            \.accessKeyID,
            optional: .visible(minimum: 1),
            "AccessKey of a RAM user of Alibaba Cloud, for direct mode."
        ),
        setting("aliyun.accessKeySecret", \.accessKeySecret, secret: .visible(minimum: 1), "Its secret."),
        setting(
            "aliyun.region",
            \.region,
            optional: .region,
            "Region of these buckets, such as cn-shanghai, and of the token service."
        ),
        setting(
            "aliyun.roleArn",
            \.roleARN,
            optional: .visible(minimum: 10),
            "RAM role that sessions of direct mode assume (AssumeRole)."
        ),
        setting(
            "aliyun.stsEndpoint",
            \.stsEndpoint,
            optional: .origin,
            "URL of the token service; if not set, that of Alibaba Cloud in the region."
        ),
        setting(
            "aliyun.ossEndpoint",
            \.ossEndpoint,
            optional: .origin,
            "URL of OSS, without the bucket in front of the host; if not set, that of Alibaba Cloud in the region."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let aliyun = settings.aliyun
        demands.pair(
            "aliyun.accessKeyId",
            aliyun.accessKeyID != nil,
            "aliyun.accessKeySecret",
            aliyun.accessKeySecret != nil
        )
    }
}

extension Settings {
    package var aliyun: AliyunSettings {
        get { self[AliyunSettings.self] }
        set { self[AliyunSettings.self] = newValue }
    }
}
