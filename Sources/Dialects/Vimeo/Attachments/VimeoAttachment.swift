internal import Foundation
internal import UploadModel

/// A picture or a text track of a video (protocol notes §6).
struct VimeoAttachment: Sendable, Equatable, Codable {
    enum Kind: String, Sendable, Codable, CaseIterable {
        case picture, textTrack

        /// Of records.
        var recordKind: String {
            switch self {
            case .picture: "vimeo picture"
            case .textTrack: "vimeo text track"
            }
        }

        /// In paths.
        var collection: String {
            switch self {
            case .picture: "pictures"
            case .textTrack: "texttracks"
            }
        }
    }

    var id: Int64
    var kind: Kind
    var video: Int64
    var subject: String
    var issuer: String?
    /// The token of its creator.
    var principal: String
    /// As `VimeoVideo.limits`.
    var limits: VimeoLimits?
    /// Of the core; `nil` until its bytes are there.
    var uploadID: String?
    /// Uploads whose bytes are coming; the first that is complete is `uploadID`, whether that is recorded or not.
    var coming: [String]?
    /// Of a text track.
    var type: String?
    var language: String?
    var name: String?
    /// Whether it is being removed, so that no bytes come any more.
    var isRemoved: Bool?

    var user: VimeoUser { VimeoUser(subject) }
    /// All of a video have one beginning, oldest first.
    var recordKey: String { Self.prefix(of: video, user) + String(id) }

    static func prefix(of video: Int64, _ user: VimeoUser) -> String { VimeoVideo.recordKey(video, of: user) + "/" }

    func uri(of video: VimeoVideo) -> String { "\(video.uri)/\(kind.collection)/\(id)" }

    static let types = ["captions", "subtitles", "chapters", "descriptions", "metadata"]
}
