internal import Bytes
internal import Foundation
internal import UploadModel
internal import VODKit

/// A video in the account at Vimeo that was created here, with the user to whom it belongs.
struct VimeoCloudVideo: Sendable, Equatable, Codable {
    /// Of Vimeo.
    var id: Int64
    var subject: String
    var issuer: String?
    /// The token of its creator; `nil` in records of earlier versions.
    var principal: String?
    /// As its client sees it: `ticket` and `streaming` are unknown to Vimeo now.
    var approach: VimeoVideo.Approach
    /// The local video or ticket whose bytes are sent on; `nil` if its client sends them to Vimeo.
    var source: Int64?
    /// As Vimeo last told, as JSON.
    var document: String
    /// `status` of that document.
    var status: String
    /// Why its bytes do not reach Vimeo.
    var failure: VimeoVideo.Failure?
    /// Whether Vimeo has it no longer.
    var isGone: Bool?

    static let recordKind = "vimeo cloud video"

    var user: VimeoUser { VimeoUser(subject) }
    var uri: String { "/videos/\(id)" }
    var recordKey: String { VimeoVideo.recordKey(id, of: user) }
    var sourceKey: String? { source.map { VimeoVideo.recordKey($0, of: user) } }
    /// Whether nothing changes by itself any more (protocol notes §4.9).
    var isSettled: Bool { failure != nil || !["uploading", "transcode_starting", "transcoding"].contains(status) }

    /// Takes what Vimeo told.
    mutating func learn(_ document: JSONMembers) {
        self.document = String(decoding: VimeoJSON.bytes(.object(document)), as: UTF8.self)
        if case .string(let text)? = document["status"] { status = text }
        isGone = nil
    }

    /// Members of the document.
    var members: JSONMembers {
        JSONValue(json: Array(document.utf8))?.members ?? ["uri": .string(uri), "status": .string(status)]
    }
}

/// The records of videos at Vimeo, each with a mark until it is settled.
struct VimeoCloudVideos: Sendable {
    /// When a video is looked at the next time.
    struct Mark: Sendable, Equatable, Codable {
        /// Unix seconds.
        var dueAt: Int64
    }

    static let markKind = "vimeo cloud mark"

    let records: any DialectRecords
    let clock: any WallClock
    /// Seconds from creation to the first look.
    let interval: Int64

    /// Records a video, unless it is recorded.
    func insert(_ video: VimeoCloudVideo) async throws(UploadError) {
        let now = clock.now
        let record = CodedRecord(VimeoCloudVideo.recordKind, video.recordKey, video, at: now, until: nil)
        _ = try await records.apply([.insertIfAbsent(record.record, at: now), watching(video)])
    }

    /// Has a video looked at until it is settled.
    func watch(_ video: VimeoCloudVideo) async throws(UploadError) { _ = try await records.apply([watching(video)]) }

    private func watching(_ video: VimeoCloudVideo) -> DialectChange {
        let now = clock.now
        let due = Mark(dueAt: now.unixSeconds + interval)
        return .insertIfAbsent(CodedRecord(Self.markKind, video.recordKey, due, at: now, until: nil).record, at: now)
    }

    /// - Returns: `nil` also if it belongs to another user.
    func one(_ id: Int64, of user: VimeoUser) async throws(UploadError) -> CodedRecord<VimeoCloudVideo>? {
        guard let found = try await one(at: VimeoVideo.recordKey(id, of: user)),
            found.content.subject.isSameSubject(as: user.subject)
        else { return nil }
        return found
    }

    func one(at key: String) async throws(UploadError) -> CodedRecord<VimeoCloudVideo>? {
        guard let record = try await records.record(VimeoCloudVideo.recordKind, key) else { return nil }
        return try CodedRecord<VimeoCloudVideo>(record)
    }

    /// Those of a user that Vimeo still has, newest first, without those whose records cannot be read.
    func all(of user: VimeoUser) async throws(UploadError) -> [VimeoCloudVideo] {
        var all: [VimeoCloudVideo] = []
        _ = try await records.each(VimeoCloudVideo.recordKind, prefix: user.prefix + "/") {
            record throws(UploadError) in
            guard let video = try? CodedRecord<VimeoCloudVideo>(record).content else { return }
            if video.subject.isSameSubject(as: user.subject), video.isGone != true { all.append(video) }
        }
        return all
    }

    /// Changes a video, whatever happens at the same time.
    ///
    /// - Returns: The changed one; `nil` if it was removed.
    @discardableResult
    func change(_ key: String, _ change: (inout VimeoCloudVideo) -> Void) async throws(UploadError) -> VimeoCloudVideo?
    {
        while let found = try await one(at: key) {
            var video = found.content
            change(&video)
            if found.has(video) { return video }
            if try await records.replace(found.replaced(by: video, until: nil).record) { return video }
        }
        return nil
    }

    func remove(_ video: VimeoCloudVideo) async throws(UploadError) {
        _ = try await records.apply(
            [VimeoCloudVideo.recordKind, Self.markKind].map { .removeIfPresent(kind: $0, key: video.recordKey) }
        )
    }
}
