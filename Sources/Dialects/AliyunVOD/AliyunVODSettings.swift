internal import ObjectGateway
package import SettingsKit

/// ApsaraVideo VOD.
package struct AliyunVODSettings: SettingsSection {
    package var mode = Mode.relay
    /// `nil` for that of the cloud in the region; only in `direct` mode.
    package var endpoint: String?
    package var signature = Signature.v3
    package var bucket = "outin-sluice"
    package var region = "cn-shanghai"
    /// If empty, callers may name any application.
    package var appIDs: [String] = []
    /// Also template groups; only in `direct` mode.
    package var workflows: [String] = []
    package var authLifetime = Duration.seconds(3000)
    package var uploadLifetime = Duration.seconds(30 * 86_400)

    package enum Mode: String, Sendable, CaseIterable {
        /// Media is kept here.
        case relay
        /// Calls are performed by the cloud, with the account's key; the bytes go there.
        case direct
    }

    /// How calls for the cloud are signed.
    package enum Signature: String, Sendable, CaseIterable {
        case v3, v1
    }

    package init() {}

    package static let table: [Setting] = [
        setting(
            "aliyun.vod.mode",
            \.mode,
            .choice,
            "Whether media of ApsaraVideo VOD is kept here, or calls are signed and passed on to Alibaba Cloud."
        ),
        setting(
            "aliyun.vod.endpoint",
            \.endpoint,
            optional: .origin,
            "URL of ApsaraVideo VOD for direct mode; if not set, that of Alibaba Cloud in aliyun.vod.region."
        ),
        setting(
            "aliyun.vod.signature",
            \.signature,
            .choice,
            "Version of the signatures of direct mode: v3, or v1 for an endpoint that knows no other."
        ),
        setting(
            "aliyun.vod.bucket",
            \.bucket,
            .bucket,
            "Bucket of the object endpoint for uploads to ApsaraVideo VOD."
        ),
        setting(
            "aliyun.vod.region",
            \.region,
            .region,
            "Region that upload SDKs are told; they report their progress to the VOD host of this region."
        ),
        setting(
            "aliyun.vod.appIds",
            \.appIDs,
            .texts("application ids separated by commas, such as app-1000001", AliyunVODSettings.isAppID),
            "Applications (AppId) besides app-1000000 that callers may name; if empty, any."
        ),
        setting(
            "aliyun.vod.workflows",
            \.workflows,
            .texts("ids separated by commas, such as VOD_NO_TRANSCODE", AliyunVODSettings.isID),
            "Workflows and template groups that callers with limits may choose in direct mode (WorkflowId, TemplateGroupId); if empty, none."
        ),
        setting(
            "aliyun.vod.authLifetime",
            \.authLifetime,
            .duration(.seconds(1) ... .seconds(43_200)),
            "How long an UploadAuth is valid; SDKs then ask the app for another one."
        ),
        setting(
            "aliyun.vod.uploadLifetime",
            \.uploadLifetime,
            .duration(.seconds(3600) ... .seconds(31_536_000)),
            "How long after its last UploadAuth media without content is kept."
        ),
    ]

    /// Letters, digits, hyphens and underscores: it becomes part of object keys.
    package static func isAppID(_ text: String) -> Bool { isID(text) }

    private static func isID(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                    || byte == 0x2D || byte == 0x5F
            }
    }

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let vod = settings.aliyunVOD
        demands.demand(
            vod.mode == .relay || settings.aliyun.accessKeyID != nil,
            "aliyun.accessKeyId",
            because: "aliyun.vod.mode",
            "must be set, because aliyun.vod.mode is direct"
        )
        demands.demand(
            vod.endpoint == nil || vod.mode == .direct,
            "aliyun.vod.mode",
            because: "aliyun.vod.endpoint",
            "must be direct, because aliyun.vod.endpoint is set"
        )
    }
}

extension Settings {
    package var aliyunVOD: AliyunVODSettings {
        get { self[AliyunVODSettings.self] }
        set { self[AliyunVODSettings.self] = newValue }
    }
}
