internal import Bytes
package import Foundation
internal import Synchronization
package import UploadModel

/// The operations on uploads that all dialects share: create, append, query, end.
///
/// Limits, leases, expiry and durability are handled in one place. `UploadLifecycle` decides the state of an upload,
/// and `UploadLedger` how many bytes it may have.
package final class UploadService: Sendable {
    typealias Records = UploadRecords

    let context: ServiceContext
    let state: any Records
    let storage: any BlobStorage
    let ledger: UploadLedger
    let events: EventService
    let hooks: any UploadHooks
    let lifecycle: UploadLifecycle
    let appends: ActiveAppends
    let unrecorded: UnrecordedBlobs
    /// Uploads of one-time grants that may or may not have been recorded, by the id of the grant.
    let unreported = Mutex<[String: Upload]>([:])
    let wholeContents = WholeContents(largest: 32 << 10, most: 8 << 20)

    init(
        _ context: ServiceContext,
        state: any Records,
        storage: any BlobStorage,
        ledger: UploadLedger,
        events: EventService,
        hooks: any UploadHooks,
        lifecycle: UploadLifecycle,
        appends: ActiveAppends,
        unrecorded: UnrecordedBlobs
    ) {
        self.context = context
        self.state = state
        self.storage = storage
        self.ledger = ledger
        self.events = events
        self.hooks = hooks
        self.lifecycle = lifecycle
        self.appends = appends
        self.unrecorded = unrecorded
    }

    package var limits: UploadLimits { context.limits }
    /// The current time, in whole milliseconds as the state stores it.
    package var now: Date { context.now }
    var leases: LeaseTable { lifecycle.leases }

    /// At shutdown: every append ends with the bytes that it has, and no new one begins.
    package func interruptAll() {
        leases.interruptAll()
    }

    /// The upload as a client that resumes it must see it; like `UploadLifecycle.status`.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - finish: What counts as complete for the caller.
    /// - Returns: Open or completed.
    /// - Throws: `.notFound`, `.gone`, `.busy`, `.storageFailure`.
    package func status(of id: UploadID, _ finish: Finish = .whenFull) async throws(UploadError) -> Upload {
        let upload = try await lifecycle.status(of: id, finish)
        RequestMeter.note(key: upload.issuer, subject: upload.subject)
        return upload
    }

    /// Waits until the storage has finished an upload, for a client that has no way to ask later.
    ///
    /// - Parameter upload: As an append returned it.
    /// - Returns: The completed upload; still open if the task was cancelled or the storage is not finishing it.
    /// - Throws: `.notFound`, `.gone`, `.busy`, `.unavailable`, `.storageFailure`.
    package func finished(_ upload: Upload) async throws(UploadError) -> Upload {
        try await lifecycle.finished(upload)
    }
}
