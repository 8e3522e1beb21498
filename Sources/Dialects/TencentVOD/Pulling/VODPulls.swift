internal import Foundation
internal import Pulls
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Fetches media from URLs, on the pulls of the gateway.
///
/// A task is a record, and while it is not finished another record lists it: whichever node looks next makes media of what
/// has arrived.
struct VODPulls: Sendable {
    private static let open = "tencent pull"
    /// Seconds for which a finished task can be read.
    private static let retention: TimeInterval = 7 * 86_400
    /// Seconds after which a task whose upload was never recorded has failed.
    private static let lost: TimeInterval = 86_400

    let uploads: VODUploads
    let starter: PullStarter
    /// Rings for each task that this process begins.
    let bell = EventBell()
    private var library: VODLibrary { uploads.library }
    private var records: any DialectRecords { uploads.records }
    private var clock: any WallClock { uploads.clock }

    init(uploads: VODUploads, starter: PullStarter) {
        self.uploads = uploads
        self.starter = starter
    }

    /// Begins a task.
    ///
    /// - Parameters:
    ///   - file: Name and type of the media.
    ///   - url: A URL that `PullStarter.problem` accepts.
    ///   - reach: Where the caller may make the gateway connect to.
    ///   - sessionID: What the caller recognises the task by.
    ///   - signer: Who called.
    /// - Returns: The task.
    /// - Throws: `VODError`.
    func begin(
        _ file: VODNewFile,
        from url: String,
        within reach: PullReach,
        sessionID: String?,
        by signer: VODSigner
    ) async throws(VODError) -> VODPull {
        guard let pulls = starter.pulls else {
            throw VODError(.notServed, "pulling is disabled on this server (pull.enabled)")
        }
        try uploads.checkRate(of: signer)
        let session = try await uploads.newSession(.media(file, cover: nil), region: nil, by: signer, at: clock.now)
        guard let video = session.video else { throw VODError.invalid("there is no media") }
        try await uploads.admit(video, of: session, by: signer)
        try await core(await uploads.prepareBucket())
        var task = VODPull(
            fileID: session.fileID,
            owner: session.owner,
            bucket: session.bucket,
            region: session.region,
            video: video,
            labels: session.labels,
            url: starter.shown(url),
            sessionID: sessionID
        )
        let now = clock.now
        let key = VODMedia.key(task.fileID, of: task.owner.application)
        let record = CodedRecord(VODPull.kind, key, task, at: now, until: nil)
        let open = DialectRecord(kind: Self.open, key: key, text: "{}", createdAt: now)
        // Before the pull, so that what it brings is found wherever the gateway dies.
        guard try await core(await records.apply([.insert(record.record, at: now), .insert(open, at: now)]))
        else {
            throw VODError.core(UploadError(.unavailable, "The id of the task is taken; try again."))
        }
        bell.ring()
        var new = starter.upload(
            from: url,
            within: reach,
            metadata: file.newUpload.metadata.values,
            contentTypes: signer.contentTypes
        )
        new.object = NewObject(ObjectName(bucket: task.bucket, key: video.key))
        do throws(UploadError) {
            let grant = signer.grant(for: task.fileID, until: .distantFuture)
            task.uploadID = try await pulls.begin(new, under: grant).id.text
        } catch {
            let failure = VODPull.Failure(code: 70_000, message: error.message)
            try await core(await finish(record, failure: failure, hasEvent: false))
            throw .core(error)
        }
        _ = try await core(await records.replace(record.replaced(by: task, until: nil).record))
        return task
    }

    /// The task of an application, with its media if there is any.
    func task(
        _ taskID: String,
        of application: Int64
    ) async throws(UploadError) -> (task: CodedRecord<VODPull>, media: CodedRecord<VODMedia>?)? {
        guard let fileID = VODPull.fileID(in: taskID, of: application) else { return nil }
        let key = VODMedia.key(fileID, of: application)
        guard DialectRecord.canBeKey(key), let record = try await records.record(VODPull.kind, key) else { return nil }
        return (try CodedRecord<VODPull>(record), try await library.media(fileID, of: application))
    }

    // MARK: Finishing

    /// Creates the media whose content has arrived, and ends the tasks that have failed; one that cannot be looked at keeps no
    /// other from ending.
    ///
    /// - Returns: Whether any task was open.
    /// - Throws: The first failure, at the end; the next call continues.
    func finishAll(_ failing: FailingRecords = FailingRecords()) async throws(UploadError) -> Bool {
        try await records.each(Self.open, failing: failing) { (record) throws(UploadError) in
            if let found = try await records.record(VODPull.kind, record.key) {
                try await check(try CodedRecord<VODPull>(found))
            } else {
                _ = try await records.removeRecord(Self.open, record.key)
            }
        }
    }

    private func check(_ found: CodedRecord<VODPull>) async throws(UploadError) {
        let task = found.content
        // A gateway of an earlier version died before it recorded the event of the end.
        if task.finishedAt != nil { return try await finish(found, failure: task.failure) }
        let id = task.uploadID.flatMap { UploadID($0) }
        if let id, try await uploads.uploads.state(of: id) == .open { return }
        // Created by a check of an earlier version that was interrupted, and perhaps deleted since.
        if try await library.record(task.fileID, of: task.owner.application) != nil {
            return try await finish(found, failure: nil)
        }
        if let object = try await uploads.objects.object(ObjectName(bucket: task.bucket, key: task.video.key)) {
            let media = VODMedia(task.session, size: object.size, md5: object.md5, contentID: object.id.text)
            return try await finish(found, failure: nil, with: media.map { [library.insertion(of: $0)] } ?? [])
        }
        guard let id else {
            guard clock.now.timeIntervalSince(found.record.createdAt) > Self.lost else { return }
            return try await finish(found, failure: VODPull.Failure(code: 70_000, message: "The task was interrupted."))
        }
        let reason = try await starter.pulls?.job(of: id)?.lastError?.message ?? "The upload was ended."
        try await finish(found, failure: VODPull.Failure(code: 60_000, message: reason))
    }

    /// Ends a task.
    ///
    /// - Parameters:
    ///   - found: The task.
    ///   - failure: Why it failed; `nil` if its content is stored.
    ///   - others: What is recorded with the end.
    ///   - hasEvent: Whether an event reports the end; not if the call that created the task failed.
    /// - Throws: `UploadError`.
    private func finish(
        _ found: CodedRecord<VODPull>,
        failure: VODPull.Failure?,
        with others: [DialectChange] = [],
        hasEvent: Bool = true
    ) async throws(UploadError) {
        let now = clock.now
        var task = found.content
        task.finishedAt = now.unixSeconds
        task.failure = failure
        let end = now.addingTimeInterval(Self.retention)
        let events = uploads.events
        let event = hasEvent ? events.recording(.pulled, of: task.fileID, in: task.owner) : []
        let changes: [DialectChange] = [
            .replace(found.replaced(by: task, until: end).record),
            .removeIfPresent(kind: Self.open, key: found.record.key),
        ]
        // If not, another node was faster, or the upload was recorded meanwhile: the next check ends it.
        if try await records.apply(changes + event + others) { events.bell.ring() }
    }
}
