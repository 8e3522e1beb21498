package import SettingsKit

/// The account at Tencent Cloud, and its buckets of COS.
package struct TencentSettings: SettingsSection {
    package var secretID: String?
    package var secretKey: Secret<String>?
    /// Region of COS credentials and URLs in `direct` mode; so are the settings below.
    package var region: String?
    package var buckets: [String] = []
    package var stsEndpoint: String?
    package var cosEndpoint: String?

    package init() {}

    package static let table: [Setting] = [
        setting(
            "tencent.secretId",
            \.secretID,
            optional: .visible(minimum: 1),
            "SecretId of the Tencent Cloud account."
        ),
        setting(
            "tencent.secretKey",
            \.secretKey,
            secret: .visible(minimum: 1),
            "SecretKey of the Tencent Cloud account."
        ),
        setting(
            "tencent.region",
            \.region,
            optional: .region,
            "Region of these buckets, such as ap-guangzhou, and of the token service."
        ),
        setting(
            "tencent.buckets",
            \.buckets,
            .buckets,
            "COS buckets, with their app id (media-1250000000), for which direct mode may mint credentials and URLs; if empty, there is no direct mode for COS."
        ),
        setting(
            "tencent.stsEndpoint",
            \.stsEndpoint,
            optional: .origin,
            "URL of the token service; if not set, that of Tencent Cloud."
        ),
        setting(
            "tencent.cosEndpoint",
            \.cosEndpoint,
            optional: .origin,
            "URL of COS, without the bucket in front of the host; if not set, that of Tencent Cloud in the region."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let tencent = settings.tencent
        demands.pair("tencent.secretId", tencent.secretID != nil, "tencent.secretKey", tencent.secretKey != nil)
    }
}

extension Settings {
    package var tencent: TencentSettings {
        get { self[TencentSettings.self] }
        set { self[TencentSettings.self] = newValue }
    }
}
