internal import UploadModel

/// Bytes that a client sent here by the Old Upload, or by approach `streaming`, and that go on to Vimeo by tus.
struct VimeoTransfer: Sendable, Equatable, Codable {
    /// The local video or ticket.
    var source: Int64
    var subject: String
    var issuer: String?
    /// The token of its creator; `nil` in records of earlier versions.
    var principal: String?
    /// The video at Vimeo.
    var video: Int64
    /// Whether it becomes another file of that video.
    var isVersion: Bool
    var approach: VimeoVideo.Approach
    /// The upload link at Vimeo.
    var link: String
    /// What Vimeo answered when it created the video.
    var document: String
    /// Until when a process works on it; Unix seconds.
    var claimedUntil: Int64?
    /// That process.
    var claim: String?
    /// Attempts that failed, and when the next one is due in Unix seconds.
    var failures = 0
    var dueAt: Int64 = 0
    /// When Vimeo had all bytes, or when it was given up; Unix seconds.
    var endedAt: Int64?
    var hasFailed: Bool?

    static let recordKind = "vimeo transfer"

    var user: VimeoUser { VimeoUser(subject) }
    /// That of the local video.
    var recordKey: String { VimeoVideo.recordKey(source, of: user) }
    var videoURI: String { "/videos/\(video)" }
}
