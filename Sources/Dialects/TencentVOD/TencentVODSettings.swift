internal import ObjectGateway
package import SettingsKit

/// Tencent VOD.
package struct TencentVODSettings: SettingsSection {
    package var mode = Mode.relay
    package var endpoint: String?
    package var endpointTimeout = Duration.seconds(4)
    /// Bucket of VOD uploads without its app id, and that app id; these and the settings below are for `relay` mode.
    package var bucket = "vod"
    package var appID: Int64 = 1_250_000_000
    package var vodAppID: Int64 = 1_500_000_000
    /// Digits.
    package var subApplications: [String] = []
    /// Only in `direct` mode.
    package var procedures: [String] = []
    package var domain = "vod2.qcloud.com"
    package var acceleratedDomain: String?
    package var mediaURL: String?
    package var sessionLifetime = Duration.seconds(86_400)
    package var certificateLifetime = Duration.seconds(7200)
    package var appliesPerSecond = 100
    package var events = Events.off
    package var callbackURL: String?

    package enum Events: String, Sendable, CaseIterable {
        case off
        /// The app's server asks for them.
        case pull
        /// They are posted to `callbackURL`.
        case push
    }

    package enum Mode: String, Sendable, CaseIterable {
        /// Signs with its own key pair and receives the bytes itself.
        case relay
        /// Signs with the Tencent account's key pair; the bytes go to Tencent.
        case direct
    }

    package init() {}

    package static let table: [Setting] = [
        setting(
            "tencent.mode",
            \.mode,
            .choice,
            "Whether VOD uploads come to this gateway or go to Tencent."
        ),
        setting(
            "tencent.endpoint",
            \.endpoint,
            optional: .origin,
            "URL of Tencent VOD, such as https://vod2.qcloud.com, to which direct mode forwards the calls of upload SDKs; if not set, it serves none."
        ),
        setting(
            "tencent.endpointTimeout",
            \.endpointTimeout,
            .duration(.milliseconds(100) ... .seconds(60)),
            "How long Tencent VOD may take to answer such a call; the default is shorter than any SDK waits."
        ),
        setting(
            "tencent.bucket",
            \.bucket,
            .bucket,
            "Bucket of VOD uploads in relay mode, without its app id; clients send to bucket-appId."
        ),
        setting("tencent.appId", \.appID, .count(1...Int64.max), "App id of that bucket."),
        setting(
            "tencent.vodAppId",
            \.vodAppID,
            .count(1...Int64.max),
            "VOD application of signatures that name no sub-application (vodSubAppId)."
        ),
        setting(
            "tencent.subApplications",
            \.subApplications,
            .texts(
                "application ids separated by commas, such as 1500000001, 1500000002",
                { (Int64($0) ?? 0) > 0 && !$0.hasPrefix("+") }
            ),
            "Sub-applications that signatures and calls may name besides that one; if empty, they may name any."
        ),
        setting(
            "tencent.procedures",
            \.procedures,
            .texts("names separated by commas, such as LongVideoPreset") { !$0.isEmpty && $0.utf8.count <= 128 },
            "Task flows (procedure) that keys with limits may choose in direct mode; if empty, none."
        ),
        setting(
            "tencent.domain",
            \.domain,
            .visible(minimum: 1),
            "Host name of this gateway in answers to upload SDKs; iOS sends it as Host when it commits."
        ),
        setting(
            "tencent.cosDomain",
            \.acceleratedDomain,
            optional: .visible(minimum: 1),
            "host[:port] or URL that iOS uses for all its requests to COS (cosAcc); if not set, it uses the bucket's name at Tencent."
        ),
        setting(
            "tencent.mediaURL",
            \.mediaURL,
            optional: .publicURL,
            "URL under which the bucket of VOD uploads can be downloaded, for answers to clients; if not set, that of the object endpoint."
        ),
        setting(
            "tencent.sessionLifetime",
            \.sessionLifetime,
            .duration(.seconds(1) ... .seconds(30 * 86_400)),
            "How long after its last use a VOD upload can be resumed."
        ),
        setting(
            "tencent.certificateLifetime",
            \.certificateLifetime,
            .duration(.seconds(1) ... .seconds(129_600)),
            "Lifetime of the credentials for one VOD upload; most SDKs do not refresh them."
        ),
        setting(
            "tencent.appliesPerSecond",
            \.appliesPerSecond,
            .count(1...1_000_000),
            "VOD uploads that each application may begin in a second."
        ),
        setting(
            "tencent.events",
            \.events,
            .choice,
            "Whether app servers fetch the events of new media (pull), they are posted to tencent.callbackURL (push), or there are none."
        ),
        setting(
            "tencent.callbackURL",
            \.callbackURL,
            optional: .receiverURL,
            "URL of the app server to which events of new media are posted."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let tencent = settings.tencentVOD
        if tencent.events == .push {
            demands.demand(
                tencent.callbackURL != nil,
                "tencent.callbackURL",
                because: "tencent.events",
                "must be set, because tencent.events is push"
            )
        }
        // One of them is a problem of `TencentSettings`.
        if tencent.mode == .direct, settings.tencent.secretID == nil, settings.tencent.secretKey == nil {
            for key in ["tencent.secretId", "tencent.secretKey"] {
                demands.demand(false, key, because: "tencent.mode", "must be set, because tencent.mode is direct")
            }
        }
        demands.demand(
            tencent.endpoint == nil || tencent.mode == .direct,
            "tencent.mode",
            because: "tencent.endpoint",
            "must be direct, because tencent.endpoint is set"
        )
    }
}

extension Settings {
    package var tencentVOD: TencentVODSettings {
        get { self[TencentVODSettings.self] }
        set { self[TencentVODSettings.self] = newValue }
    }
}
