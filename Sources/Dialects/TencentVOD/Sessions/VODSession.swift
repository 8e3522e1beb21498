internal import Bytes
internal import Foundation
internal import Signing
internal import UploadModel
internal import VODKit

/// One file of a session, and the object that it becomes.
struct VODFile: Sendable, Equatable, Codable {
    /// Key of the object.
    var key: String
    /// As the client named it; some SDKs leave out the extension.
    var name: String
    /// Extension without the dot, in lower case.
    var type: String
    /// Bytes; `nil` if the client did not announce them.
    var size: Int64?
}

extension VODFile {
    /// The directory of a manifest, in which the files that it names lie; `nil` for any other file.
    fileprivate func segments(in bucket: String) -> ObjectName? {
        guard ["m3u8", "mpd"].contains(type), let slash = key.utf8.lastIndex(of: UInt8(ascii: "/")) else { return nil }
        return ObjectName(bucket: bucket, key: String(key[...slash]))
    }
}

/// The application and user to whom sessions and media belong.
struct VODOwner: Sendable, Equatable, Codable {
    /// The sub-application, or the application of signatures that name none.
    var application: Int64
    var subject: String?

    static func == (one: VODOwner, other: VODOwner) -> Bool {
        one.application == other.application && one.subject.isSameSubject(as: other.subject)
    }
}

/// Parameters of the signature, or of `ApplyUpload`, that are kept with the media.
struct VODLabels: Sendable, Equatable, Codable {
    var classID: Int64?
    var procedure: String?
    var taskPriority: Int64?
    var taskNotifyMode: String?
    var sourceContext: String?
    var sessionContext: String?

    init() {}

    init(_ parameters: TencentUploadSignature.Parameters) {
        classID = parameters.classID
        procedure = parameters.procedure
        taskPriority = parameters.taskPriority
        taskNotifyMode = parameters.taskNotifyMode
        sourceContext = parameters.sourceContext
        sessionContext = parameters.sessionContext
    }
}

/// The context of one upload, which a `vodSessionKey` names.
///
/// It is a record, so every node knows it.
struct VODSession: Sendable, Equatable, Codable {
    /// 19 digits: the id of the media that the session makes, and the key of its record.
    var fileID: String
    var owner: VODOwner
    /// With its app id.
    var bucket: String
    var region: String
    /// `nil` if only a cover is replaced.
    var video: VODFile?
    var cover: VODFile?
    /// The media whose cover is replaced.
    var replacing: String?
    var source = VODSource.client
    var labels: VODLabels
    /// Unix seconds; extended by each use.
    var validUntil: Int64
    /// Set by the first commit that found all bytes: the session cannot be resumed any more.
    var isCommitted = false
    /// How often the right to write was given anew; `nil` for never.
    ///
    /// It is, if a commit ended it, and the gateway died before the commit was recorded.
    var turn: Int?

    static let kind = "tencent session"

    var files: [VODFile] { [video, cover].compactMap { $0 } }

    /// Where further files may be stored: those that a playlist names, which an app's server sends along with it.
    var segments: ObjectName? { source == .server ? video.flatMap { $0.segments(in: bucket) } : nil }

    /// What a commit ends.
    var right: String { Self.right(fileID, turn: turn) }

    static func right(_ fileID: String, turn: Int? = nil) -> String {
        WritingRight.End.whenCommitted.grantID(for: fileID, turn: turn ?? 0)
    }

    /// The names of the objects of its files.
    var objectNames: [ObjectName] { files.map { ObjectName(bucket: bucket, key: $0.key) } }

    /// The user for whom it counts until it is committed; `nil` for none, and for what an app's server sends.
    var user: String? { source == .client ? owner.subject.map { "\(owner.application) \($0)" } : nil }

    /// The id of the media that a commit makes or changes.
    var mediaID: String { replacing ?? fileID }

    /// The term of all sessions, by their ends.
    static let ending = "end"
}

extension VODSession: FoundByTerms {
    func terms(createdAt time: Date) -> [DialectTerm] { [DialectTerm(Self.ending, at: validUntil)] }
}

/// The files that a client names when it resumes an upload; none of them if it only sends its session.
struct VODNamedFiles: Sendable, Equatable {
    var video: VODNewFile?
    var cover: VODNewFile?
    /// The media whose cover is replaced.
    var replacing: String?
}

extension VODSession {
    /// Whether a client may go on with this session for the files that it names.
    ///
    /// Phones find a session by its video alone and name all files again: one without a cover could never be committed if
    /// the session has one, and for a new cover there is no path. Names may differ, because pickers of photos make another
    /// copy each time.
    func has(_ named: VODNamedFiles) -> Bool {
        guard named.replacing == nil || named.replacing == replacing else { return false }
        if named.video == nil, named.cover == nil { return true }
        return Self.isSame(video, named.video) && Self.isSame(cover, named.cover)
    }

    private static func isSame(_ file: VODFile?, _ named: VODNewFile?) -> Bool {
        guard let file, let named else { return file == nil && named == nil }
        // What was not announced can be anything.
        guard let size = file.size, let namedSize = named.size else { return file.type == named.type.lowercasedASCII() }
        return file.type == named.type.lowercasedASCII() && size == namedSize
    }

    /// Takes over the names of files that are the same.
    mutating func takeNames(of named: VODNamedFiles) {
        if let name = named.video?.name, !name.isEmpty { video?.name = name }
        if let name = named.cover?.name, !name.isEmpty { cover?.name = name }
    }
}

/// How media came here, in the words of the vendor's events.
enum VODSource: String, Sendable, Codable {
    case client = "ClientUpload"
    case server = "ServerUpload"
    case pull = "PullUpload"
}

/// The media of a committed session.
struct VODMedia: Sendable, Equatable, Codable {
    var fileID: String
    var owner: VODOwner
    var bucket: String
    var region: String
    var source: VODSource
    var video: VODFile
    /// Hexadecimal MD5 of the video; `nil` if it was sent in parts.
    var md5: String?
    /// Names the content that size and MD5 are of; `nil` in records of earlier versions.
    var contentID: String?
    var cover: VODFile?
    /// The session that brought the current cover, if it was replaced.
    var coverSession: String?
    /// Keys of replaced covers whose objects may still be there.
    var replacedCovers: [String] = []
    var labels: VODLabels
    var name: String
    var description = ""
    var tags: [String] = []
    /// Unix seconds of the last change; `nil` if there was none.
    var updatedAt: Int64?
    /// Whether it is being deleted, or was: then it is no longer there for anybody.
    var isDeleted = false

    static let kind = "tencent media"

    /// - Parameters:
    ///   - session: The session.
    ///   - size: Bytes of its video.
    ///   - md5: Hexadecimal MD5 of its video, if it is known.
    ///   - contentID: Names the content, as `VODContent.id`.
    ///
    /// `nil` if the session has no video.
    init?(_ session: VODSession, size: Int64, md5: String?, contentID: String? = nil) {
        guard var video = session.video else { return nil }
        video.size = size
        fileID = session.fileID
        owner = session.owner
        bucket = session.bucket
        region = session.region
        source = session.source
        self.video = video
        self.md5 = md5
        self.contentID = contentID
        cover = session.cover
        labels = session.labels
        name = video.name
    }

    /// Where the files lie that its manifest names; `nil` if it has none.
    var segments: ObjectName? { source == .server ? video.segments(in: bucket) : nil }

    func has(_ file: VODFile) -> Bool { file.key == video.key || file.key == cover?.key }

    /// The keys of all objects that belong to it.
    var keys: [String] { [video.key] + (cover.map { [$0.key] } ?? []) + replacedCovers }

    /// What is kept of deleted media: its id, and nothing that a user wrote.
    var tombstone: VODMedia {
        var copy = self
        copy.md5 = nil
        copy.contentID = nil
        copy.cover = nil
        copy.coverSession = nil
        copy.replacedCovers = []
        copy.labels = VODLabels()
        copy.video.name = ""
        copy.name = ""
        copy.description = ""
        copy.tags = []
        return copy
    }

    /// The key of the record: media of one application stand together, in the order in which their uploads began.
    static func key(_ fileID: String, of application: Int64) -> String { "\(application)/\(fileID)" }
}

/// Seals the id of a session into the `vodSessionKey` that clients keep.
struct VODSessionKeys: Sendable {
    /// A sealed text can begin with a hyphen, which command lines take for an option.
    private static let prefix = "v"

    private let ring: SealingKeyRing

    init(master: MasterSecret) { ring = SealingKeyRing(master: master, purpose: "tencent vod session v1") }

    func seal(_ fileID: String) -> String { Self.prefix + ring.seal(Array(fileID.utf8)).text }

    /// `nil` if no key of this installation sealed it.
    func open(_ text: String) -> String? {
        guard text.hasPrefix(Self.prefix), let token = SealedToken(String(text.dropFirst(Self.prefix.count))),
            let plain = ring.open(token)
        else { return nil }
        return String(validating: plain, as: UTF8.self)
    }
}
