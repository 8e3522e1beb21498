internal import Foundation
internal import Synchronization
internal import UploadModel

/// State changes of uploads, each made under the lease: completing, ending, and repairing what a crash left behind.
///
/// These operations call each other (completing may end a refused upload, reconciling may complete one), so they are
/// one type; the services that clients reach are built on it. For an open upload, the storage determines how many bytes
/// it has; for everything else, the state is authoritative. Wherever the process dies, a later request or a sweep can
/// finish each step:
///
/// | died after | what is found | what happens |
/// |---|---|---|
/// | blob created, no record | a blob without a record | the sweep sets it aside |
/// | bytes stored, no completion | an open upload with all its bytes | `status`, `append` or the sweep completes it |
/// | some parts of a final upload joined | an open final upload with some bytes | as above, from there |
/// | end recorded, blob not removed | a blob that is not needed | the sweep removes it |
final class UploadLifecycle: Sendable {
    typealias Records = UploadRecords & PartRecords & ObjectRecords

    let context: ServiceContext
    let state: any Records
    let storage: any BlobStorage
    let takingParts: (any PartStorage)?
    let ledger: UploadLedger
    let events: EventService
    let hooks: any UploadHooks
    let leases: LeaseTable
    let recents: RecentUploads
    /// Serialises changes of metadata on this node without disturbing the lease; the state store detects those of other
    /// nodes.
    let edits: TurnTable<UploadID>
    /// Serialises changes of the object with a name on this node; without it, concurrent writers would conflict
    /// repeatedly.
    let names: TurnTable<ObjectName>
    /// Uploads that the storage is finishing and a task on this node waits for.
    let finishing = Mutex<Set<UploadID>>([])
    /// Ended uploads whose bytes could not be removed.
    let unremoved = Mutex<Set<UploadID>>([])
    /// When this process began to serve.
    private let startedAt: Date

    init(
        _ context: ServiceContext,
        state: any Records,
        storage: any BlobStorage,
        ledger: UploadLedger,
        events: EventService,
        hooks: any UploadHooks,
        edits: TurnTable<UploadID>,
        recents: RecentUploads,
        among authority: (any LeaseAuthority)?
    ) {
        self.context = context
        self.state = state
        self.storage = storage
        takingParts = storage.partStorage
        startedAt = context.now
        self.ledger = ledger
        self.events = events
        self.hooks = hooks
        self.edits = edits
        self.recents = recents
        names = TurnTable(timeout: context.limits.takeOverTimeout)
        leases = LeaseTable(
            timeout: context.limits.takeOverTimeout,
            protectedTurn: context.limits.protectedTurn,
            among: authority,
            onTakeOver: { [observer = context.observer] in observer.observe(.takenOver($0)) },
            onRefusal: { [observer = context.observer] id, error in
                if error.code == .busy || error.code == .interrupted { observer.observe(.turnedAway(id, error)) }
            },
            onUse: { [recents] in recents.forget($0) }
        )
    }

    var now: Date { context.now }

    /// The upload as a client that resumes it must see it: a running writer is stopped, and the offset is durable.
    ///
    /// Completes an upload that has all its bytes but no recorded completion.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - finish: What counts as complete for the caller.
    /// - Returns: The open or completed upload.
    /// - Throws: `.notFound`, `.gone`, `.busy`, `.storageFailure`.
    func status(of id: UploadID, _ finish: Finish = .whenFull) async throws(UploadError) -> Upload {
        try await context.reporting(id) { () async throws(UploadError) -> Upload in
            let upload = try await leases.withLease(on: id, interrupter: nil) {
                () async throws(UploadError) -> Upload in
                // Clients that resume append next.
                recents.hold(id)
                var found: Upload?
                defer { recents.end(id, with: found) }
                let upload = try await reconciled(id, finish)
                found = upload
                return upload
            }
            await completeFinals(waitingFor: upload)
            return upload
        }
    }

    /// The upload with its durable offset; repairs what a crash left behind.
    ///
    /// Requires the lease.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - finish: `whenFull` completes a full upload even if it was not created for that.
    /// - Returns: The open or completed upload.
    /// - Throws: `.notFound`; `.gone` if it has ended or expired; `.storageFailure`.
    func reconciled(_ id: UploadID, _ finish: Finish = .explicit(isLast: false)) async throws(UploadError) -> Upload {
        guard var upload = try await state.upload(id) else { throw UploadError.noUpload }
        switch upload.state {
        case .terminated, .expired: throw UploadError.uploadEnded
        case .completed where isOver(upload):
            try await end(upload, as: .expired)
            throw UploadError.uploadEnded
        case .completed: return upload
        case .open: break
        }
        if upload.takesParts { return try await reconciledParts(of: upload) }
        if let parts = upload.concatenation?.parts, !isOver(upload) { return try await assembled(upload, of: parts) }
        upload.offset = try await bytesOf(id) { id throws(UploadError) in try await storage.durableLength(of: id) }
        if let length = upload.length, upload.offset >= length {
            guard upload.offset == length else {
                throw UploadError(.storageFailure, "The storage holds more bytes than this upload has.")
            }
            if upload.completesWhenFull || finish == .whenFull { return try await complete(upload) }
        }
        if isOver(upload) {
            try await end(upload, as: .expired)
            throw UploadError.uploadEnded
        }
        return upload
    }

    /// Queries the storage about a blob that should exist according to its record.
    func bytesOf<Success>(
        _ id: UploadID,
        _ ask: (UploadID) async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        do throws(UploadError) {
            return try await ask(id)
        } catch  where error.code == .notFound {
            // Another node may have ended it since the record was read.
            switch try await state.upload(id)?.state {
            // The client can only start again.
            case .open where storage.mayLoseBlobs: throw UploadError.uploadEnded
            case .open, .completed: break
            case .terminated, .expired: throw UploadError.uploadEnded
            case nil: throw UploadError.noUpload
            }
            throw UploadError(.storageFailure, "The bytes of this upload are missing.", cause: error)
        }
    }

    func isOver(_ upload: Upload) -> Bool {
        upload.isAlive && upload.expiresAt.map { $0 <= now } ?? false
    }

    /// Length of an open upload in bytes; possibly not durable yet.
    func receivedBytes(of upload: Upload) async throws(UploadError) -> Int64 {
        upload.takesParts ? try await state.partBytes(of: upload.id) : try await storage.currentLength(of: upload.id)
    }

    /// Open uploads as they are now, possibly not durable yet: `offset`, and `updatedAt`, which moves with their bytes.
    ///
    /// - Returns: Nothing for one whose blob cannot be read.
    func current(_ uploads: [Upload]) async throws(UploadError) -> [UploadID: Upload] {
        let (inParts, others) = (uploads.filter(\.takesParts), uploads.filter { !$0.takesParts })
        var current: [UploadID: Upload] = [:]
        let progress = others.isEmpty ? [:] : try await storage.progress(of: others.map(\.id))
        for upload in others {
            if let progress = progress[upload.id] { current[upload.id] = self.upload(upload, at: progress) }
        }
        if inParts.isEmpty { return current }
        let sums = try await state.partBytes(of: inParts.map(\.id))
        for var upload in inParts {
            upload.offset = sums[upload.id] ?? 0
            current[upload.id] = upload
        }
        return current
    }

    /// The same for one upload.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    func current(_ upload: Upload) async throws(UploadError) -> Upload {
        guard upload.takesParts else { return self.upload(upload, at: try await storage.progress(of: upload.id)) }
        var upload = upload
        upload.offset = try await state.partBytes(of: upload.id)
        return upload
    }

    /// The record of an open upload does not change with each byte, so the time of the last one is that of the blob.
    ///
    /// Not of one that was last written before this process began: a backup or a migration may have made it.
    private func upload(_ upload: Upload, at progress: BlobProgress) -> Upload {
        var upload = upload
        upload.offset = progress.length
        if let changedAt = progress.changedAt, changedAt > startedAt, changedAt > upload.updatedAt, progress.length > 0
        {
            upload.updatedAt = min(changedAt, max(now, upload.updatedAt)).wholeMilliseconds
        }
        return upload
    }

    /// Renews the expiry, unless it would change so little that a transaction is not worth it.
    ///
    /// The minimum step is 1 % of the lifetime, but at most 60 s: lifetime 24 h → 60 s; 10 min → 6 s; 10 s → 0.1 s.
    func renewedExpiry(of upload: Upload) async -> Date? {
        guard let lifetime = context.limits.lifetime else { return upload.expiresAt }
        let renewed = now.addingTimeInterval(lifetime).wholeMilliseconds
        if let expiresAt = upload.expiresAt, renewed.timeIntervalSince(expiresAt) <= min(lifetime / 100, 60) {
            return expiresAt
        }
        do throws(UploadError) {
            try await state.setExpiry(of: upload.id, to: renewed, updatedAt: upload.updatedAt)
            return renewed
        } catch {
            // The bytes are stored, as promised to the client; the next append tries again.
            context.report(error, of: upload.id)
            return upload.expiresAt
        }
    }
}
