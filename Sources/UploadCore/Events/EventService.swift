package import Foundation
internal import Synchronization
package import UploadModel

/// An append that is running on this node, or ended a moment ago.
package struct RunningAppend: Sendable {
    /// The upload when the append began.
    package let upload: Upload
    package let beganAt: ContinuousClock.Instant
}

/// Creates the events that are recorded with changes of uploads, and serves them to subscribers.
package final class EventService: Sendable {
    private let context: ServiceContext
    private let state: any EventRecords
    private let storage: any BlobStorage
    private let hooks: any UploadHooks
    private let appends: ActiveAppends
    /// Rings after each event recorded by this process.
    package let bell = EventBell()
    /// Until when the state records all events, as far as this process has asked for it.
    private let keptUntil = Mutex(Date.distantPast)

    init(
        _ context: ServiceContext,
        state: any EventRecords,
        storage: any BlobStorage,
        hooks: any UploadHooks,
        appends: ActiveAppends
    ) {
        self.context = context
        self.state = state
        self.storage = storage
        self.hooks = hooks
        self.appends = appends
    }

    /// The current time, in whole milliseconds as the state stores it.
    package var now: Date { context.now }

    /// Creates an event for a change that happens now, to be recorded with it.
    func event(_ kind: EventRecord.Kind, of upload: Upload, by request: RequestInfo? = nil) -> EventRecord {
        let now = self.now
        var upload = upload
        if upload.attributes?.partSizes != nil || upload.attributes?.completing != nil {
            // Up to 10,000 numbers each, which the object has and no receiver of events needs.
            upload.attributes?.partSizes = nil
            upload.attributes?.partChecksums = nil
            upload.attributes?.completing = nil
        }
        return EventRecord(
            id: "msg_" + UploadID.generate(at: now).text,
            kind: kind,
            upload: upload,
            request: request ?? RequestContext.current?.info,
            occurredAt: now,
            delivery: hooks.wants(kind) ? EventRecord.Delivery(nextAttemptAt: now) : nil
        )
    }

    /// Uploads that are receiving bytes, with their current offsets.
    package func uploadsInProgress() async -> [Upload] {
        let uploads = appends.uploads
        if uploads.isEmpty { return [] }
        let progress = (try? await storage.progress(of: uploads.map(\.id))) ?? [:]
        let now = now
        return uploads.compactMap { upload in
            // If it ended meanwhile, its final event covers it.
            guard let progress = progress[upload.id] else { return nil }
            var upload = upload
            if progress.length > upload.offset {
                upload.offset = progress.length
                upload.updatedAt = max(upload.updatedAt, min(progress.changedAt ?? now, now)).wholeMilliseconds
            }
            return upload
        }
    }

    /// Records the progress of running uploads if a hook wants it.
    package func recordProgress() async {
        guard hooks.wants(.progress) else { return }
        for upload in await uploadsInProgress() { await recordProgress(of: upload) }
    }

    func recordProgress(of upload: Upload) async {
        let (isNew, request) = appends.report(upload.id, at: upload.offset)
        guard isNew else { return }
        do throws(UploadError) {
            try await state.record(event(.progress, of: upload, by: request))
            bell.ring()
        } catch {
            context.report(error, of: upload.id)
        }
    }

    /// - Throws: `.storageFailure`, `.unavailable`.
    package func events(_ query: EventQuery) async throws(UploadError) -> [EventRecord] {
        try await context.reporting(nil) { () async throws(UploadError) -> [EventRecord] in
            try await state.events(query)
        }
    }

    /// Makes the state record all events, for as long as it keeps records; call before a client begins to follow events,
    /// and every few minutes while it does.
    ///
    /// Writes once an hour at most. While nothing follows events, those that no hook receives may be left out.
    ///
    /// - Throws: `.storageFull`, `.storageFailure`, `.unavailable`, if events could be left out now.
    package func keepEvents() async throws(UploadError) {
        // Nothing is changed then, so there are no events.
        if context.refusal != nil { return }
        let now = self.now
        let retention = context.limits.recordRetention
        let known = keptUntil.withLock { $0 }
        if known >= now.addingTimeInterval(retention - min(3600, retention / 2)) { return }
        do throws(UploadError) {
            let end = now.addingTimeInterval(retention)
            try await context.reporting(nil) { () async throws(UploadError) in
                try await state.keepEvents(until: end, at: now)
            }
            keptUntil.withLock { $0 = max($0, end) }
        } catch {
            if known <= now { throw error }
        }
    }

    /// The sequence number of the newest event, or 0.
    ///
    /// - Throws: `.storageFailure`, `.unavailable`.
    package func lastEvent() async throws(UploadError) -> Int64 {
        try await context.reporting(nil) { () async throws(UploadError) -> Int64 in try await state.lastEvent() }
    }

    /// Whether all events after `sequence` can be read; `false` also for a number that this server never issued.
    ///
    /// - Throws: `.storageFailure`, `.unavailable`.
    package func keepsEvents(after sequence: Int64) async throws(UploadError) -> Bool {
        try await context.reporting(nil) { () async throws(UploadError) -> Bool in
            let newest = try await state.lastEvent()
            guard sequence < newest, sequence >= 0 else { return sequence == newest }
            guard sequence >= (try await state.eventsKeptSince()) else { return false }
            // Events are removed by age: if the next one is within the retention time, none after it is missing.
            guard let next = try await state.events(EventQuery(after: sequence, limit: 1)).first else { return false }
            return next.sequence == sequence + 1
                && next.occurredAt >= now.addingTimeInterval(-context.limits.recordRetention)
        }
    }

    /// Running appends, and those that ended since the last call; meant for callers that poll.
    package func lookAtAppends() -> [RunningAppend] { appends.look() }

    /// Current length of an open upload, possibly not durable; `nil` if the upload is not open or the storage cannot determine
    /// it.
    package func currentLength(of id: UploadID) async -> Int64? { try? await storage.currentLength(of: id) }
}
