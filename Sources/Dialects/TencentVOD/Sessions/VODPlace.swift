internal import Foundation
internal import GatewayKit
internal import ObjectGateway
internal import SettingsKit
internal import UploadCore
internal import UploadModel

/// What the answers of the VOD endpoints contain, from the settings.
struct VODPlace: Sendable {
    /// The bucket as the object endpoint knows it: with its app id.
    let bucketName: String
    /// The application that is reported if the signature names no sub-application.
    let appID: Int64
    /// That one, and the sub-applications that the operator named.
    let applications: [Int64]
    let region: String
    /// A host at which clients reach this gateway; iOS sends it as `Host` of its commit.
    let domain: String
    /// `host[:port]` or a URL that iOS uses for all its requests to COS.
    let acceleratedDomain: String?
    /// The URL of the bucket for downloads, without a slash at its end; `nil` for that of the object endpoint.
    let mediaURL: String?
    /// Seconds from its last use during which a session can be resumed.
    let sessionSeconds: Int64
    /// Seconds for which credentials are valid.
    var certificateSeconds: Int64
    /// Sessions that each app may begin in a second.
    let appliesPerSecond: Int

    init(_ settings: Settings) {
        let vod = settings.tencentVOD
        bucketName = "\(vod.bucket)-\(vod.appID)"
        appID = vod.vodAppID
        applications = [vod.vodAppID] + vod.subApplications.compactMap { Int64($0) }
        region = settings.tencent.region ?? "ap-guangzhou"
        domain = vod.domain
        acceleratedDomain = vod.acceleratedDomain
        mediaURL = vod.mediaURL
        sessionSeconds = vod.sessionLifetime.components.seconds
        certificateSeconds = vod.certificateLifetime.components.seconds
        appliesPerSecond = vod.appliesPerSecond
    }

    /// The parts of a bucket's name, which clients want separately.
    static func split(_ bucketName: String) -> (bucket: String, appID: Int64) {
        guard let hyphen = bucketName.lastIndex(of: "-") else { return (bucketName, 0) }
        return (String(bucketName[..<hyphen]), Int64(bucketName[bucketName.index(after: hyphen)...]) ?? 0)
    }

    /// The first key segment of everything that is uploaded through the VOD endpoints.
    ///
    /// Fixed, because requests that a proxy forwards to COS are recognised by it.
    static let root = "vod"

    /// The prefix of the keys of one media.
    static func directory(_ appID: Int64, _ fileID: String) -> String { "\(directory(appID))\(fileID)/" }

    /// The media below whose prefix a key lies; `nil` for other keys.
    static func media(of key: String) -> (application: Int64, fileID: String)? {
        let parts = key.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == root, let application = Int64(parts[1]) else { return nil }
        return (application, String(parts[2]))
    }

    /// The prefix of the keys of all media of an application.
    private static func directory(_ appID: Int64) -> String { "\(root)/\(appID)/" }

    /// The application that a signature or call means: backends write 0 where they use no sub-application.
    func application(_ named: Int64?) -> Int64 { named.flatMap { $0 == 0 ? nil : $0 } ?? appID }

    /// Whether signatures may name an application; if the operator named none, all are allowed.
    func has(_ application: Int64) -> Bool { applications.count == 1 || applications.contains(application) }

    /// Whether a key with these limits may act for an application: it has its objects.
    ///
    /// - Parameters:
    ///   - limits: Of the key.
    ///   - appID: The application; `nil` for the one of signatures that name none.
    /// - Returns: Whether it may.
    func allows(_ limits: KeyLimits, _ appID: Int64?) -> Bool {
        limits.allows(bucket: bucketName, key: Self.directory(application(appID)))
    }

    /// The objects of an application, for the check of what a key may mint.
    func reach(_ appID: Int64?) -> MintedRights.Reach {
        .objects(bucket: bucketName, prefix: Self.directory(application(appID)))
    }

    /// The region's old short name, which some SDKs show; others keep their name.
    static func shortName(of region: String) -> String {
        let names = [
            "ap-guangzhou": "gz", "ap-shanghai": "sh", "ap-beijing": "bj", "ap-chongqing": "cq", "ap-chengdu": "cd",
            "ap-nanjing": "nj", "ap-hongkong": "hk", "ap-singapore": "sg",
        ]
        return names[region] ?? region
    }
}
