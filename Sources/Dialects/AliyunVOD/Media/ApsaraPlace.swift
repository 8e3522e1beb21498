internal import Foundation
internal import GatewayKit
internal import SettingsKit
internal import UploadCore
internal import UploadModel

/// Where media of ApsaraVideo VOD are kept, from the settings.
struct ApsaraPlace: Sendable {
    static let defaultApplication = "app-1000000"

    let bucket: String
    let region: String
    /// Besides the default one; empty for any.
    let applications: [String]
    /// Seconds.
    let authSeconds: Int64
    /// Seconds.
    let uploadSeconds: Int64

    init(_ settings: AliyunVODSettings) {
        bucket = settings.bucket
        region = settings.region
        applications = settings.appIDs
        authSeconds = settings.authLifetime.components.seconds
        uploadSeconds = settings.uploadLifetime.components.seconds
    }

    /// Seconds after the expiry of an UploadAuth in which the object endpoint still completes a multipart upload.
    static let grace: Int64 = 3600

    func has(_ application: String) -> Bool {
        guard AliyunVODSettings.isAppID(application) else { return false }
        return applications.isEmpty || application == Self.defaultApplication || applications.contains(application)
    }

    /// The prefix of the keys of all media of an application.
    static func directory(_ application: String) -> String { "\(application)/" }

    /// The key of the object of media.
    static func key(_ kind: ApsaraMedia.Kind, _ id: String, of application: String, suffix: String) -> String {
        let folder =
            switch kind {
            case .video: "sv"
            case .image: "image"
            case .attached: "attached"
            }
        return "\(directory(application))\(folder)/\(id).\(suffix)"
    }

    /// The id of the media to which an object belongs; `nil` if it belongs to none.
    func mediaID(of name: ObjectName) -> String? {
        guard name.bucket == bucket else { return nil }
        let segments = name.key.split(separator: "/", omittingEmptySubsequences: false)
        guard segments.count == 3, let last = segments.last else { return nil }
        let id = String(last.prefix { $0 != "." })
        return ApsaraMedia.isID(id) ? id : nil
    }

    /// Whether a key with these limits may act for an application: it has its objects.
    func allows(_ limits: KeyLimits, _ application: String) -> Bool {
        limits.allows(bucket: bucket, key: Self.directory(application))
    }

    /// The objects of an application, for the check of what a key may mint.
    func reach(_ application: String) -> MintedRights.Reach {
        .objects(bucket: bucket, prefix: Self.directory(application))
    }
}
