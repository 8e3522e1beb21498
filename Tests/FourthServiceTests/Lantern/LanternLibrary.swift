import Bytes
import Foundation
import UploadCore
import UploadModel
import VODKit

/// The videos: what the calls do, in the words of the core and of `VODKit`.
struct LanternLibrary: Sendable {
    let records: any DialectRecords
    let uploads: UploadService
    let clock: any WallClock
    /// Seconds for which a video is kept that is not committed.
    let lifetime: TimeInterval
    let outbox: MediaOutbox<LanternEvent>
    private let begun: BegunUploads

    init(records: any DialectRecords, uploads: UploadService, clock: any WallClock, lifetime: TimeInterval) {
        self.records = records
        self.uploads = uploads
        self.clock = clock
        self.lifetime = lifetime
        outbox = MediaOutbox(records, clock: clock)
        begun = BegunUploads("lantern begun", in: records)
    }

    /// Records a video, and creates the upload of its bytes.
    func begin(_ new: LanternVideo.New, by key: APIKey) async throws(LanternFailure) -> (LanternVideo, Upload) {
        let now = clock.now
        let id = UploadID.generate(at: now)
        let end = now.addingTimeInterval(lifetime)
        let user = new.user ?? key.limits.onlySubject
        guard key.limits.allows(subject: user) else { throw .foreignUser }
        let video = LanternVideo(
            id: id.text,
            title: new.title,
            tags: new.tags ?? [],
            size: new.size,
            user: user,
            issuer: key.id,
            endsAt: end.unixMilliseconds
        )
        let record = CodedRecord(LanternVideo.recordKind, video.id, video, at: now, until: nil)
        return try await core { () throws(UploadError) in
            var grant = Grant(id: key.id, issuer: key.id, subject: user, dialect: "lantern", expiresAt: .distantFuture)
            try key.limit(minted: &grant, at: now)
            guard let counting = try await begun.beginning(video.id, of: video.account, until: end, at: now) else {
                throw UploadError(tooManyUploadsOf: .subject, maximum: BegunUploads.maximum)
            }
            _ = try await records.apply([.insert(record.record, at: now), counting])
            var upload = NewUpload(dialect: "lantern", length: new.size)
            upload.id = id
            upload.keptFor = lifetime
            do throws(UploadError) {
                return (video, try await uploads.create(upload, under: grant))
            } catch {
                _ = try await records.apply([
                    .removeIfPresent(kind: LanternVideo.recordKind, key: video.id),
                    begun.ending(video.id, of: video.account),
                ])
                throw error
            }
        }
    }

    /// A video all of whose bytes are there is media from now on; a second time nothing happens.
    func commit(_ id: String, by key: APIKey) async throws(LanternFailure) -> LanternVideo {
        while true {
            let found = try await found(id, by: key, in: [.begun, .committed])
            if found.content.state == .committed { return found.content }
            let upload = try await core { () throws(UploadError) in
                guard let id = UploadID(id) else { throw UploadError(.notFound, "There is no such video.") }
                return try await uploads.status(of: id)
            }
            guard upload.state == .completed else { throw .incomplete(upload.offset) }
            var video = found.content
            video.state = .committed
            video.size = upload.offset
            let committed = video
            let isDone = try await core { () throws(UploadError) in
                try await records.apply([
                    .replace(found.replaced(by: committed, until: nil).record), recording(.committed, of: committed),
                    begun.ending(id, of: committed.account),
                ])
            }
            if isDone { return committed }
        }
    }

    func video(_ id: String, by key: APIKey) async throws(LanternFailure) -> LanternVideo {
        try await found(id, by: key, in: [.committed]).content
    }

    /// - Parameters:
    ///   - tag: Only videos with it; `nil` for all.
    ///   - after: The place of the last video of the page before.
    ///   - limit: Of the page.
    ///   - key: Finds the videos of its users.
    /// - Returns: The videos, newest first, and the place of the last one if there may be more.
    /// - Throws: `LanternFailure`.
    func search(
        tag: String?,
        after: DialectPlace?,
        limit: Int,
        by key: APIKey
    ) async throws(LanternFailure) -> (videos: [LanternVideo], next: DialectPlace?) {
        var conditions: [MediaSearch<LanternVideo>.Condition] = []
        if let tag { conditions.append(.terms([LanternVideo.tagged(tag)])) }
        if case .only(let users) = VisibleUsers(key.limits) {
            conditions.append(.terms(Set(users.map(LanternVideo.owned))))
        }
        if conditions.isEmpty { conditions = [.terms([LanternVideo.all])] }
        var search = MediaSearch<LanternVideo>(
            LanternVideo.recordKind,
            conditions,
            isDescending: true,
            limit: limit,
            mostCounted: 1000
        )
        search.after = after
        let wanted = search
        let found = try await core { () throws(UploadError) in
            try await wanted.found(in: records) { one in
                let video = one.content
                return video.state == .committed && key.limits.allows(subject: video.user)
                    && (tag.map { tag in video.tags.contains { $0.isExactly(tag) } } ?? true)
            }
        }
        let last = found.media.count < limit ? nil : found.media.last
        return (
            found.media.map(\.content),
            last.map { DialectPlace($0.record.createdAt.unixMilliseconds, $0.record.key) }
        )
    }

    /// It is marked together with its event; if the gateway dies then, `finish` removes the bytes.
    func delete(_ id: String, by key: APIKey) async throws(LanternFailure) {
        while true {
            let found = try await found(id, by: key, in: [.committed])
            let isMarked = try await core { () throws(UploadError) in
                try await mark(found, with: [recording(.deleted, of: found.content)])
            }
            guard isMarked else { continue }
            return try await core { () throws(UploadError) in try await remove(id) }
        }
    }

    /// Removes what nobody has committed in time, and what deletions have left.
    func finish(_ failing: FailingRecords) async throws(UploadError) -> Bool {
        let kind = LanternVideo.recordKind
        let now = clock.now.unixMilliseconds
        let hasExpired = try await records.each(kind, LanternVideo.pending(.begun), upTo: now, failing: failing) {
            (record) throws(UploadError) in
            let found = try CodedRecord<LanternVideo>(record)
            let counting = begun.ending(found.content.id, of: found.content.account)
            // If not, it was committed at the last moment.
            if try await mark(found, with: [counting]) { try await remove(found.content.id) }
        }
        let hasDeleted = try await records.each(kind, LanternVideo.pending(.deleted), upTo: 0, failing: failing) {
            (record) throws(UploadError) in
            try await remove(record.key)
        }
        return hasExpired || hasDeleted
    }

    private func found(
        _ id: String,
        by key: APIKey,
        in states: Set<LanternVideo.State>
    ) async throws(LanternFailure) -> CodedRecord<LanternVideo> {
        let found = try await core { () throws(UploadError) in
            guard DialectRecord.canBeKey(id) else { return nil as CodedRecord<LanternVideo>? }
            return try await records.record(LanternVideo.recordKind, id).map { record throws(UploadError) in
                try CodedRecord<LanternVideo>(record)
            }
        }
        guard let found, states.contains(found.content.state), key.limits.allows(subject: found.content.user) else {
            throw .noVideo
        }
        return found
    }

    private func mark(
        _ found: CodedRecord<LanternVideo>,
        with changes: [DialectChange]
    ) async throws(UploadError) -> Bool {
        var video = found.content
        video.state = .deleted
        return try await records.apply([.replace(found.replaced(by: video, until: nil).record)] + changes)
    }

    private func remove(_ id: String) async throws(UploadError) {
        if let upload = UploadID(id) {
            do throws(UploadError) {
                try await uploads.terminate(upload)
            } catch  where error.code == .notFound || error.code == .gone {}
        }
        _ = try await records.removeRecord(LanternVideo.recordKind, id)
    }

    private func recording(_ kind: LanternEvent.Kind, of video: LanternVideo) -> DialectChange {
        let event = LanternEvent(kind: kind, video: video.id, title: video.title, subject: video.user)
        return outbox.recording(event, as: event.key)
    }

    private func core<Value: Sendable>(
        _ body: () async throws(UploadError) -> Value
    ) async throws(LanternFailure) -> Value {
        do throws(UploadError) { return try await body() } catch { throw LanternFailure(error) }
    }
}
