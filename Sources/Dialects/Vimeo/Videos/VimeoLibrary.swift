internal import Foundation
internal import UploadCore
internal import VODKit

/// A video with its upload.
struct VimeoEntry: Sendable {
    var record: CodedRecord<VimeoVideo>
    /// Open or completed; `nil` while a client begins anew.
    ///
    /// The offset of an open one may be out of date.
    var upload: Upload?

    var video: VimeoVideo { record.content }
}

/// The videos: records, whose uploads decide whether they exist.
struct VimeoLibrary: Sendable {
    let records: any DialectRecords
    let uploads: UploadService
    let clock: any WallClock
    /// Seconds for which an upload without bytes is kept at least.
    let lifetime: TimeInterval

    // MARK: Reading

    /// A video or a ticket of a user.
    ///
    /// - Returns: `nil` if there is none; a record whose upload has ended is removed.
    func entry(_ id: Int64, of user: VimeoUser) async throws(UploadError) -> VimeoEntry? {
        guard let record = try await records.record(VimeoVideo.recordKind, VimeoVideo.recordKey(id, of: user)) else {
            return nil
        }
        return try await entry(of: try CodedRecord<VimeoVideo>(record), of: user)
    }

    /// The video or ticket whose record has this key.
    func entry(at key: String) async throws(UploadError) -> VimeoEntry? {
        guard let record = try await records.record(VimeoVideo.recordKind, key) else { return nil }
        let video = try CodedRecord<VimeoVideo>(record)
        return try await entry(of: video, of: video.content.user)
    }

    private func entry(of record: CodedRecord<VimeoVideo>, of user: VimeoUser) async throws(UploadError) -> VimeoEntry?
    {
        // Users whose numbers are equal do not see each other's videos.
        guard record.content.subject == user.subject else { return nil }
        guard let uploadID = record.content.uploadID else {
            let isOver = clock.now.unixSeconds - record.content.modifiedAt > Int64(lifetime)
            if isOver { _ = try await records.removeRecord(VimeoVideo.recordKind, record.record.key) }
            return isOver ? nil : VimeoEntry(record: record, upload: nil)
        }
        if let upload = try await aliveUpload(uploadID) { return VimeoEntry(record: record, upload: upload) }
        // It has ended: with the video, or because a client has begun anew since the record was read.
        let current = try await records.record(VimeoVideo.recordKind, record.record.key)
        if let current, current.version != record.record.version {
            return try await entry(of: try CodedRecord<VimeoVideo>(current), of: user)
        }
        // Nobody can bring it back: an upload that has ended never begins again.
        if current != nil { _ = try await records.removeRecord(VimeoVideo.recordKind, record.record.key) }
        return nil
    }

    private func aliveUpload(_ id: String) async throws(UploadError) -> Upload? {
        guard let id = UploadID(id) else { return nil }
        do throws(UploadError) {
            let upload = try await uploads.recorded(id)
            let isOver = upload.state == .open && upload.expiresAt.map { $0 <= clock.now } ?? false
            return upload.isAlive && !isOver ? upload : nil
        } catch  where error.code == .notFound {
            return nil
        }
    }

    /// All videos of a user, newest first; no tickets.
    func videos(of user: VimeoUser) async throws(UploadError) -> [CodedRecord<VimeoVideo>] {
        var found: [CodedRecord<VimeoVideo>] = []
        var last: String?
        while true {
            let page = try await records.records(
                VimeoVideo.recordKind,
                prefix: user.prefix + "/",
                after: last,
                limit: Self.pageSize
            )
            for record in page {
                let video = try CodedRecord<VimeoVideo>(record)
                if video.content.subject == user.subject, !video.content.isTicket { found.append(video) }
            }
            guard page.count == Self.pageSize, let key = page.last?.key else { return found }
            last = key
        }
    }

    private static let pageSize = 500

    /// The entries of some videos, without those that have ended meanwhile.
    func entries(of videos: ArraySlice<CodedRecord<VimeoVideo>>, of user: VimeoUser) async throws(UploadError)
        -> [VimeoEntry]
    {
        var entries: [VimeoEntry] = []
        for video in videos { if let entry = try await entry(of: video, of: user) { entries.append(entry) } }
        return entries
    }

    // MARK: Changing

    /// Records a new video, whose upload exists.
    ///
    /// - Returns: Whether its id was free.
    func insert(_ video: VimeoVideo) async throws(UploadError) -> Bool {
        let now = clock.now
        let record = CodedRecord(VimeoVideo.recordKind, video.recordKey, video, at: now, until: nil)
        return try await records.insert(record.record, at: now)
    }

    /// Changes a video, whatever happens at the same time.
    ///
    /// - Parameters:
    ///   - entry: As read.
    ///   - change: Called with the current content, perhaps several times; `nil` leaves it as it is.
    /// - Returns: The changed content; `nil` if `change` wants nothing, or the video has ended.
    /// - Throws: `.unavailable`, `.storageFull`, `.storageFailure`.
    func change(_ entry: VimeoEntry, _ change: (VimeoVideo) -> VimeoVideo?) async throws(UploadError) -> VimeoVideo? {
        while let record = try await records.record(VimeoVideo.recordKind, entry.record.record.key) {
            let current = try CodedRecord<VimeoVideo>(record)
            guard let wanted = change(current.content) else { return nil }
            if wanted == current.content { return wanted }
            if try await records.replace(current.replaced(by: wanted, until: nil).record) { return wanted }
        }
        return nil
    }

    /// Deletes a video with its bytes; ends its upload first, so that whatever is interrupted later is no video any more.
    ///
    /// - Returns: Whether it was there.
    func delete(_ entry: VimeoEntry) async throws(UploadError) -> Bool {
        var ended = entry.video.uploadID
        while true {
            if let ended { try await end(ended) }
            // A client may have begun anew meanwhile.
            let record = try await records.record(VimeoVideo.recordKind, entry.record.record.key)
            guard let record, let current = try? CodedRecord<VimeoVideo>(record), current.content.uploadID != ended,
                let next = current.content.uploadID
            else { return try await records.removeRecord(VimeoVideo.recordKind, entry.record.record.key) }
            ended = next
        }
    }

    /// Ends an upload, if it has not ended yet.
    func end(_ id: String) async throws(UploadError) {
        guard let id = UploadID(id) else { return }
        do throws(UploadError) {
            try await uploads.terminate(id)
        } catch  where error.code == .notFound || error.code == .gone {
            return
        }
    }
}
