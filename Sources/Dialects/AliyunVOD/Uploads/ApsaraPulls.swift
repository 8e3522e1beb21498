internal import Bytes
internal import CloudCalls
internal import Digests
internal import Foundation
internal import Pulls
internal import UploadCore
internal import UploadModel
internal import VODKit

/// A job in which the gateway fetches media from a URL (`UploadMediaByURL`).
struct ApsaraPull: Sendable, Equatable, Codable {
    /// Why nothing was fetched.
    struct Failure: Sendable, Equatable, Codable {
        var code: String
        var message: String
    }

    /// 32 hexadecimal digits.
    var id: String
    /// The media that it makes.
    var mediaID: String
    var application: String
    var subject: String?
    /// Without user, password and query.
    var url: String
    var userData: String?
    /// The pulled upload; `nil` until that is recorded.
    var uploadID: String?
    /// Unix seconds; `nil` while it is fetched.
    var finishedAt: Int64?
    var size: Int64?
    /// `nil` without one.
    var failure: Failure?

    static let recordKind = "aliyun job"
}

extension PullStarter {
    /// Where a caller may make the gateway connect to; a session that may pull was minted by a key that may.
    func reach(of caller: ApsaraCaller) -> PullReach {
        switch caller.identity {
        case .key(let key): reach(of: key)
        case .session: reach(ofUserOf: true)
        }
    }
}

/// Fetches media from URLs, on the pulls of the gateway.
///
/// A job is a record, and while it is not finished another record lists it: whichever node looks next finishes it.
struct ApsaraPulls: Sendable {
    private static let openKind = "aliyun pull"
    private static let urlKind = "aliyun job url"
    private static let sessionKind = "aliyun pull session"
    /// Seconds for which a finished job can be read ("GetURLUploadInfos": a year).
    private static let retention: TimeInterval = 365 * 86_400
    /// Seconds after which a job whose upload was never recorded has failed.
    private static let lost: TimeInterval = 86_400

    let uploads: ApsaraUploads
    let starter: PullStarter
    /// Rings for each job that this process begins.
    let bell = EventBell()
    private var library: ApsaraLibrary { uploads.library }
    private var records: any DialectRecords { uploads.library.records }
    private var clock: any WallClock { uploads.clock }

    init(uploads: ApsaraUploads, starter: PullStarter) {
        self.uploads = uploads
        self.starter = starter
    }

    /// Whether a request with this id may be served: no other one had it in the last ten minutes.
    func take(session: String, of application: String) async throws(UploadError) -> Bool {
        let now = clock.now
        let record = DialectRecord(
            kind: Self.sessionKind,
            key: "\(application)/\(session)",
            text: "{}",
            createdAt: now,
            expiresAt: now.addingTimeInterval(600)
        )
        return try await records.insert(record, at: now)
    }

    /// Begins a job.
    ///
    /// - Parameters:
    ///   - new: The media.
    ///   - url: A URL that `PullStarter.problem` accepts.
    ///   - caller: Who called.
    /// - Returns: The job.
    /// - Throws: `ApsaraError`.
    func begin(_ new: ApsaraNewUpload, from url: String, by caller: ApsaraCaller) async throws(ApsaraError)
        -> ApsaraPull
    {
        guard let pulls = starter.pulls else {
            throw ApsaraError(403, "OperationDenied", "Pulling is disabled on this server (pull.enabled).")
        }
        let media = try await uploads.admitted(new, by: caller)
        var job = ApsaraPull(
            id: ApsaraMedia.newID(at: clock.now),
            mediaID: media.id,
            application: media.application,
            subject: media.subject,
            url: starter.shown(url),
            userData: media.labels.userData
        )
        let now = clock.now
        let record = CodedRecord(ApsaraPull.recordKind, job.id, job, at: now, until: nil)
        // Before the pull, so that what it brings is found wherever the gateway dies.
        try await uploads.record(
            media,
            begunBy: caller.user,
            with: [
                .insert(record.record, at: now),
                .insert(DialectRecord(kind: Self.openKind, key: job.id, text: "{}", createdAt: now), at: now),
                .insert(byURL(job, at: now), at: now),
            ]
        )
        bell.ring()
        var pulled = starter.upload(
            from: url,
            within: starter.reach(of: caller),
            metadata: ["filename": media.fileName]
        )
        pulled.object = NewObject(media.name)
        do throws(ApsaraError) {
            let grant = uploads.grant(for: media, by: caller, until: .distantFuture)
            job.uploadID = try await core(await pulls.begin(pulled, under: grant).id.text)
        } catch {
            let failure = ApsaraPull.Failure(code: "InternalError", message: error.message)
            try await core(await finish(record, failure, hasEvent: false))
            throw error
        }
        _ = try await core(await records.replace(record.replaced(by: job, until: nil).record))
        return job
    }

    /// A job by its id.
    func job(_ id: String) async throws(UploadError) -> CodedRecord<ApsaraPull>? {
        guard ApsaraMedia.isID(id), let record = try await records.record(ApsaraPull.recordKind, id) else { return nil }
        return try CodedRecord<ApsaraPull>(record)
    }

    /// The ids of the jobs for a URL, the oldest first.
    func jobIDs(for url: String) async throws(UploadError) -> [String] {
        let prefix = Self.urlPrefix(starter.shown(url))
        return try await records.records(Self.urlKind, prefix: prefix, after: nil, limit: 100).map(\.text)
    }

    /// The record that lists a job by its URL.
    private func byURL(_ job: ApsaraPull, at now: Date) -> DialectRecord {
        DialectRecord(
            kind: Self.urlKind,
            key: Self.urlPrefix(job.url) + job.id,
            text: job.id,
            createdAt: now,
            expiresAt: now.addingTimeInterval(Self.retention)
        )
    }

    /// Keys are limited in length, URLs are not.
    private static func urlPrefix(_ url: String) -> String {
        Hexadecimal.encode(Digest.hash(url.utf8, .sha256)) + "/"
    }

    // MARK: Finishing

    /// Ends the jobs whose content has arrived, or that have failed.
    ///
    /// - Returns: Whether any job was open.
    /// - Throws: `UploadError`; the next call continues.
    func finishAll(_ failing: FailingRecords = FailingRecords()) async throws(UploadError) -> Bool {
        try await records.each(Self.openKind, failing: failing) { (record) throws(UploadError) in
            if let found = try await job(record.key) {
                try await check(found)
            } else {
                _ = try await records.removeRecord(Self.openKind, record.key)
            }
        }
    }

    private func check(_ found: CodedRecord<ApsaraPull>) async throws(UploadError) {
        let job = found.content
        // A gateway of an earlier version died before it recorded the event of the end.
        if job.finishedAt != nil { return try await finish(found, job.failure) }
        let id = job.uploadID.flatMap { UploadID($0) }
        if let id, try await uploads.uploads.state(of: id) == .open {
            if let media = try await library.record(job.mediaID)?.content, !media.isDeleted { return }
            try await end(id)
        }
        if let media = try await library.media(job.mediaID), media.content.content != nil {
            return try await finish(found, nil)
        }
        guard let id else {
            guard clock.now.timeIntervalSince(found.record.createdAt) > Self.lost else { return }
            return try await finish(
                found,
                ApsaraPull.Failure(code: "InternalError", message: "The job was interrupted.")
            )
        }
        let reason = try await starter.pulls?.job(of: id)?.lastError?.message ?? "The upload was ended."
        try await finish(found, ApsaraPull.Failure(code: "FileDownloadFailed", message: reason))
    }

    /// Stops fetching for media that was deleted.
    private func end(_ id: UploadID) async throws(UploadError) {
        do throws(UploadError) {
            try await uploads.uploads.terminate(id, .open)
        } catch  where [.notFound, .gone, .notOpen].contains(error.code) {
            return
        }
        starter.pulls?.cancel(id)
    }

    /// Ends a job.
    ///
    /// - Parameters:
    ///   - found: The job.
    ///   - failure: Why it failed; `nil` if its content is stored.
    ///   - hasEvent: Whether an event reports the end; not if the call that created the job failed.
    /// - Throws: `UploadError`.
    private func finish(
        _ found: CodedRecord<ApsaraPull>,
        _ failure: ApsaraPull.Failure?,
        hasEvent: Bool = true
    ) async throws(UploadError) {
        let now = clock.now
        var job = found.content
        job.finishedAt = job.finishedAt ?? now.unixSeconds
        job.failure = failure
        let end = now.addingTimeInterval(Self.retention)
        while true {
            let media = try await library.record(job.mediaID)
            // The content may have arrived after the deletion and after the last check of open media.
            if let media, media.content.isDeleted { _ = try await library.objects.removeObject(media.content.name) }
            job.size = media?.content.content?.size
            var changes = [
                DialectChange.replace(found.replaced(by: job, until: end).record),
                .removeIfPresent(kind: Self.openKind, key: job.id),
            ]
            if let media, hasEvent {
                let pull = ApsaraEvent.Pull(jobID: job.id, url: job.url, failure: failure)
                let at = max((job.finishedAt ?? 0) * 1000, media.content.content?.storedAt ?? 0)
                changes += try await library.events.recording(.pulled, of: media.content, pull: pull, at: at)
            }
            // Media whose content never arrived does not exist.
            let isRemoved = failure != nil && media?.content.isDeleted == false
            if let media, isRemoved { changes += try await library.marking(media) }
            if try await records.apply(changes) {
                library.events.bell.ring()
                if isRemoved { try await library.finishRemoval(of: job.mediaID) }
                return
            }
            // Another node was faster, or the upload was recorded meanwhile: the next check ends it.
            guard try await self.job(job.id)?.record.version == found.record.version else { return }
        }
    }
}
