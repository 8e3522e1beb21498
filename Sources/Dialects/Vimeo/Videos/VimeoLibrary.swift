internal import Foundation
internal import HTTPWire
internal import UploadCore
internal import UploadModel
internal import VODKit

/// A video with its upload.
struct VimeoEntry: Sendable {
    var record: CodedRecord<VimeoVideo>
    /// Open or completed; `nil` while a client begins anew.
    ///
    /// The offset of an open one may be out of date.
    var upload: Upload?
    /// Versions whose uploads have not ended, oldest first.
    var versions: [(version: VimeoVideo.Version, upload: Upload)] = []
    /// The active picture, and how many there are.
    var picture: VimeoAttachment?
    var pictures = 0
    var textTracks = 0

    var video: VimeoVideo { record.content }
    /// What the video shows: its latest file that is complete, or else the first one.
    var active: Upload? { versions.last { $0.upload.state == .completed }?.upload ?? upload }
}

/// The videos: records, whose uploads decide whether they exist.
struct VimeoLibrary: Sendable {
    let records: any DialectRecords
    let uploads: UploadService
    let clock: any WallClock
    /// Seconds for which an upload without bytes is kept at least.
    let lifetime: TimeInterval
    /// What users have left.
    let quota: QuotaService
    /// The bytes of uploads.
    let storage: any BlobStorage
    /// `nil` if nothing can be fetched.
    var pulls: PullService?
    var attachments: VimeoAttachments {
        VimeoAttachments(records: records, uploads: uploads, clock: clock, quota: quota, storage: storage)
    }

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

    /// Adds what a document tells of pictures and text tracks.
    func described(_ entry: VimeoEntry) async throws(UploadError) -> VimeoEntry {
        var entry = entry
        let pictures = try await attachments.all(.picture, of: entry.video)
        entry.pictures = pictures.count
        entry.picture = pictures.first { $0.id == entry.video.activePicture }
        entry.textTracks = try await attachments.all(.textTrack, of: entry.video).count
        return entry
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
        guard record.content.subject.isSameSubject(as: user.subject) else { return nil }
        if record.content.isDeleted == true { return nil }
        var versions: [(version: VimeoVideo.Version, upload: Upload)] = []
        for version in record.content.versions ?? [] {
            if let upload = try await aliveUpload(version.uploadID) { versions.append((version, upload)) }
        }
        let upload = try await upload(of: record.content)
        let entry = VimeoEntry(record: record, upload: upload, versions: versions)
        if entry.active != nil { return entry }
        if record.content.uploadID == nil, keeps(record) { return entry }
        // It has ended, or a client has begun anew since the record was read.
        let current = try await records.record(VimeoVideo.recordKind, record.record.key)
        if let current, current.version != record.record.version {
            return try await self.entry(of: try CodedRecord<VimeoVideo>(current), of: user)
        }
        if record.content.approach == .pull, record.content.failure == nil {
            // What could not be fetched is told for a while.
            return try await failed(entry)
        }
        // Nobody can bring it back: an upload that has ended never begins again.
        if current != nil { try await forget(record.content) }
        return nil
    }

    /// Goes on with a deletion that was interrupted, if there is one.
    func finishDeletion(_ id: Int64, of user: VimeoUser) async throws(UploadError) {
        let key = VimeoVideo.recordKey(id, of: user)
        guard let record = try await records.record(VimeoVideo.recordKind, key) else { return }
        let video = try CodedRecord<VimeoVideo>(record).content
        if video.subject.isSameSubject(as: user.subject), video.isDeleted == true {
            try await finishDeletion(of: video)
        }
    }

    /// Ends the uploads of a video that is deleted, and removes what is left.
    ///
    /// - Throws: `.rejected` if the app keeps it: then it is not deleted.
    private func finishDeletion(of video: VimeoVideo) async throws(UploadError) {
        do throws(UploadError) {
            for version in video.versions ?? [] { try await uploads.end(version.uploadID) }
            for id in [video.uploadID, video.replacedID].compactMap({ $0 }) { try await uploads.end(id) }
        } catch {
            guard error.code == .rejected, let record = try await records.record(VimeoVideo.recordKind, video.recordKey)
            else { throw error }
            let current = try CodedRecord<VimeoVideo>(record)
            var kept = current.content
            kept.isDeleted = nil
            _ = try await records.replace(current.replaced(by: kept, until: nil).record)
            throw error
        }
        try await forget(video)
    }

    /// Removes what is left of a video that has no upload, or whose uploads have ended.
    func forget(_ video: VimeoVideo) async throws(UploadError) {
        try await attachments.removeAll(of: video)
        _ = try await records.apply(
            [VimeoVideo.recordKind, Self.openKind].map { .removeIfPresent(kind: $0, key: video.recordKey) }
        )
    }

    /// Whether a video without an upload is kept.
    private func keeps(_ record: CodedRecord<VimeoVideo>) -> Bool {
        clock.now.unixSeconds - record.content.modifiedAt <= Int64(lifetime)
    }

    /// A pulled video whose upload was given up.
    private func failed(_ entry: VimeoEntry) async throws(UploadError) -> VimeoEntry? {
        let now = clock.now.unixSeconds
        let failure = try await self.failure(ofPull: entry.video)
        let changed = try await change(entry) { video in
            guard video.uploadID == entry.video.uploadID else { return nil }
            var video = video
            video.uploadID = nil
            video.failure = failure
            video.modifiedAt = now
            return video
        }
        return changed == nil ? nil : try await self.entry(at: entry.record.record.key)
    }

    /// Why a pull was given up: what a limit refuses is told as when a client sends it.
    private func failure(ofPull video: VimeoVideo) async throws(UploadError) -> VimeoVideo.Failure {
        guard let id = video.uploadID.flatMap({ UploadID($0) }) else { return .uploading }
        switch try await pulls?.job(of: id)?.lastError?.code {
        case "quota_exceeded":
            let report = try await quota.quota(of: Account(.subject, video.subject))
            return VimeoQuota(report, cap: video.total).isCapTightest(video.total) ? .total : .quota
        case "content_too_large": return .quota
        default: return .uploading
        }
    }

    private func upload(of video: VimeoVideo) async throws(UploadError) -> Upload? {
        if let id = video.uploadID { return try await aliveUpload(id) }
        guard let id = video.replacedID, let replaced = try await aliveUpload(id) else { return nil }
        return replaced.state == .completed ? replaced : nil
    }

    private func aliveUpload(_ id: String) async throws(UploadError) -> Upload? {
        guard let upload = try await uploads.recorded(id), upload.isAlive else { return nil }
        let isOver = upload.state == .open && upload.expiresAt.map { $0 <= clock.now } ?? false
        return isOver ? nil : upload
    }

    /// A page of the videos of a user, newest first; no tickets, and none whose record cannot be read.
    ///
    /// - Parameters:
    ///   - page: Which one.
    ///   - user: The user.
    ///   - principal: Only those that this token has begun; `nil` for all.
    /// - Returns: The page, and the number of all of them.
    /// - Throws: `UploadError`.
    func videos(
        _ page: VimeoCall.Page,
        of user: VimeoUser,
        begunBy principal: String?
    ) async throws(UploadError) -> MediaSearch<VimeoVideo>.Found {
        try await records.addTerms(to: VimeoVideo.recordKind, as: VimeoVideo.self)
        var search = MediaSearch<VimeoVideo>(
            VimeoVideo.recordKind,
            [.terms([VimeoVideo.term(user.subject, principal)])],
            isDescending: true,
            limit: page.size,
            mostCounted: .max
        )
        search.offset = (page.number - 1) * page.size
        search.isCounted = true
        return try await search.found(in: records) { $0.content.isListed(of: user.subject, principal) }
    }

    /// The entries of some videos, without those that have ended meanwhile.
    func entries(of videos: [CodedRecord<VimeoVideo>], of user: VimeoUser) async throws(UploadError)
        -> [VimeoEntry]
    {
        var entries: [VimeoEntry] = []
        for video in videos { if let entry = try await entry(of: video, of: user) { entries.append(entry) } }
        return entries
    }

    // MARK: Changing

    /// Adds a picture or a text track, unless the video is deleted at the same time.
    ///
    /// The video changes, too, so that of several that are added at once no more are than there is room for.
    ///
    /// - Returns: The attachment, with another id if its own was taken, and the video.
    /// - Throws: `VimeoError` 404 if it was deleted, 403 if it has too many.
    func add(_ attachment: VimeoAttachment, to entry: VimeoEntry) async throws(VimeoError) -> (
        attachment: VimeoAttachment, video: VimeoVideo
    ) {
        var attachment = attachment
        while let current = try await core(await self.entry(at: entry.record.record.key)) {
            let all = try await core(await attachments.all(attachment.kind, of: current.video))
            guard all.count < VimeoAttachments.most else {
                throw VimeoError(
                    403,
                    nil,
                    "The video has too many of them.",
                    "Delete some first; \(VimeoAttachments.most) are allowed."
                )
            }
            var video = current.video
            video.modifiedAt = clock.now.unixSeconds
            let replacing = DialectChange.replace(current.record.replaced(by: video, until: nil).record)
            if try await core(await records.apply([replacing, attachments.insertion(of: attachment)])) {
                return (attachment, video)
            }
            // If the video has not changed meanwhile, the id is that of another one.
            if try await core(await records.record(attachment.kind.recordKind, attachment.recordKey)) != nil {
                attachment.id = VimeoVideo.newID(at: clock.now)
            }
        }
        throw VimeoError.refused(.notFound)
    }

    /// Removes a picture or a text track with its bytes, and makes room for another one.
    ///
    /// - Returns: Whether it was there.
    func remove(_ found: CodedRecord<VimeoAttachment>, from entry: VimeoEntry) async throws(UploadError) -> Bool {
        guard try await attachments.remove(found) else { return false }
        try await touch(entry)
        return true
    }

    /// Records that what belongs to a video has changed.
    func touch(_ entry: VimeoEntry) async throws(UploadError) {
        let now = clock.now.unixSeconds
        _ = try await change(entry) { video in
            var video = video
            video.modifiedAt = now
            return video
        }
    }

    private static let openKind = "vimeo open"

    /// Records a new video, whose upload exists.
    ///
    /// - Returns: Whether its id was free.
    func insert(_ video: VimeoVideo) async throws(UploadError) -> Bool {
        let now = clock.now
        let record = CodedRecord(VimeoVideo.recordKind, video.recordKey, video, at: now, until: nil)
        return try await records.apply([.insert(record.record, at: now), marking(video.recordKey)])
    }

    /// `lookAtOpen` finds a video by its mark, also if no client asks for it again.
    private func marking(_ key: String) -> DialectChange {
        let now = clock.now
        return .insertIfAbsent(DialectRecord(kind: Self.openKind, key: key, text: "{}", createdAt: now), at: now)
    }

    /// Removes records of videos and tickets that were given up.
    ///
    /// - Returns: Whether there were any.
    /// - Throws: `UploadError`; the next call continues.
    @discardableResult
    func lookAtOpen(_ failing: FailingRecords = FailingRecords()) async throws(UploadError) -> Bool {
        try await records.each(Self.openKind, failing: failing) { mark throws(UploadError) in
            if let record = try await records.record(VimeoVideo.recordKind, mark.key) {
                let video = try CodedRecord<VimeoVideo>(record).content
                if video.isDeleted == true { return try await finishDeletion(of: video) }
            }
            let entry = try await entry(at: mark.key)
            if let entry, entry.video.isTicket {
                if try await isAbandoned(entry) { _ = try await delete(entry) }
                return
            }
            if let entry, entry.status != .available { return }
            // A creation of an earlier version records the mark before the video.
            if entry == nil, clock.now.timeIntervalSince(mark.createdAt) < 3600 { return }
            // Unless the video changes meanwhile: a deletion needs the mark.
            let video = entry.map { [DialectChange.replace($0.record.record)] } ?? []
            _ = try await records.apply(video + [.removeIfPresent(kind: Self.openKind, key: mark.key)])
        }
    }

    /// Whether the bytes of a ticket are complete, and nothing has become of it: its completion was interrupted, and its
    /// client did not come back.
    private func isAbandoned(_ ticket: VimeoEntry) async throws(UploadError) -> Bool {
        guard let upload = ticket.upload, upload.state == .completed,
            clock.now.timeIntervalSince(upload.updatedAt) > lifetime
        else { return false }
        guard let replaced = ticket.video.replaces else { return true }
        let video = try await entry(replaced, of: ticket.video.user)?.video
        return video?.versions?.contains { $0.uploadID == upload.id.text } != true
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
            guard current.content.isDeleted != true, let wanted = change(current.content) else { return nil }
            if current.has(wanted) { return wanted }
            if try await records.replace(current.replaced(by: wanted, until: nil).record) { return wanted }
        }
        return nil
    }

    /// Deletes a video with its bytes.
    ///
    /// The record says so first: from then on nobody sees it, and no other bytes come; whatever is interrupted later,
    /// `lookAtOpen` finishes.
    ///
    /// - Returns: Whether it was there; one of several callers at the same time is told so.
    /// - Throws: `.rejected` if the app keeps it.
    func delete(_ entry: VimeoEntry) async throws(UploadError) -> Bool {
        let key = entry.record.record.key
        while let record = try await records.record(VimeoVideo.recordKind, key) {
            let current = try CodedRecord<VimeoVideo>(record)
            if current.content.isDeleted == true {
                try await finishDeletion(of: current.content)
                return false
            }
            var video = current.content
            video.isDeleted = true
            // Unless a client has begun anew meanwhile, or added a version.
            let replacing = DialectChange.replace(current.replaced(by: video, until: nil).record)
            guard try await records.apply([replacing, marking(key)]) else { continue }
            try await finishDeletion(of: video)
            return true
        }
        return false
    }
}
