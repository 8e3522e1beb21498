internal import Bytes
package import Foundation
internal import Synchronization

/// What all dialects do with uploads: create, append, ask, end; with limits, leases, expiry and durability in one place.
///
/// The storage is the truth for how many bytes an open upload has; the state store is the truth for everything else.
/// Each step leaves something that a later request or `sweep` can finish, wherever the process dies:
///
/// | died after | what is found | what happens |
/// |---|---|---|
/// | blob made, no record | a blob that nobody knows | `sweep` sets it aside |
/// | bytes stored, no completion | an open upload with all its bytes | `status`, `append` or `sweep` completes it |
/// | some parts of a final upload joined | an open final upload with some bytes | as above, from there |
/// | end recorded, blob there | a blob that nobody needs | `sweep` removes it |
package final class UploadService: Sendable {
    package let limits: UploadLimits

    let state: any StateStore
    let storage: any BlobStorage
    let observer: any UploadObserver
    let leases: LeaseTable
    /// Changes of metadata on this node, which do not disturb whoever has the lease; those of others the state store notices.
    let edits: TurnTable<UploadID>
    /// Changes of which object has a name, on this node: who takes a name would else find again and again that another one took it.
    let names: TurnTable<ObjectName>
    let hooks: any UploadHooks
    let policies: PolicyBook
    let appends = ActiveAppends()
    /// Uploads that have a blob, or are about to, and no record yet.
    let unrecorded = Mutex<Set<UploadID>>([])
    /// Rings after each event that is recorded here.
    package let bell = EventBell()
    /// Of media whose digest is being computed on this node.
    let hashing: TurnTable<UploadID>
    /// Parts that come at this moment.
    let comingParts = ComingParts()
    /// Uploads of one-time grants of which nobody knows whether they were recorded, by the id of the grant.
    let untold = Mutex<[String: Upload]>([:])
    /// Uploads that the storage is finishing, and somebody waits for that.
    let finishing = Mutex<Set<UploadID>>([])
    /// Ended uploads whose bytes could not be removed.
    let unremoved = Mutex<Set<UploadID>>([])
    let isFirstSweep = Atomic(true)
    /// Why nothing may be changed; `nil` if it may.
    let refusal: UploadError?
    /// Asks whether the sweep may take more blobs than usual, once.
    let isSweepApproved: @Sendable () async throws(UploadError) -> Bool
    private let clock: any WallClock

    /// - Parameters:
    ///   - state: Where records are.
    ///   - storage: Where bytes are.
    ///   - clock: Tells the time of day.
    ///   - limits: What is allowed.
    ///   - observer: Told what happens.
    ///   - hooks: The app.
    ///   - authority: Decides which node uses an upload; `nil` if there is one.
    ///   - refusal: What every request is told that would change something; `nil` for none.
    ///   - isSweepApproved: See `StoreMarks.takeSweepApproval`.
    package init(
        state: any StateStore,
        storage: any BlobStorage,
        clock: any WallClock,
        limits: UploadLimits,
        observer: any UploadObserver,
        hooks: any UploadHooks = NoHooks(),
        among authority: (any LeaseAuthority)? = nil,
        refusing refusal: UploadError? = nil,
        isSweepApproved: @escaping @Sendable () async throws(UploadError) -> Bool = { false }
    ) {
        self.refusal = refusal
        self.isSweepApproved = isSweepApproved
        self.state = state
        self.storage = storage
        self.clock = clock
        self.limits = limits
        self.observer = observer
        self.hooks = hooks
        self.policies = PolicyBook(state: state, defaults: limits.policies)
        self.leases = LeaseTable(
            timeout: limits.takeOverTimeout,
            protectedTurn: limits.protectedTurn,
            among: authority
        ) { observer.observe(.takenOver($0)) }
        hashing = TurnTable(timeout: limits.takeOverTimeout)
        self.edits = TurnTable(timeout: limits.takeOverTimeout)
        self.names = TurnTable(timeout: limits.takeOverTimeout)
    }

    /// At shutdown: every append ends with what it has, and no new one begins.
    package func interruptAll() {
        leases.interruptAll()
    }

    /// - Throws: Why nothing may be changed.
    func checkWritable() throws(UploadError) {
        if let refusal { throw refusal }
    }

    // MARK: Shared steps

    /// The time, in whole milliseconds as the state store keeps it.
    package var now: Date { clock.now.wholeMilliseconds }

    /// Runs `body` and tells the observer when storage or state fails in it.
    func reporting<Success>(
        _ id: UploadID?,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        do throws(UploadError) {
            return try await body()
        } catch {
            report(error, of: id)
            throw error
        }
    }

    func report(_ error: UploadError, of id: UploadID?) {
        switch error.code {
        case .storageFull, .storageFailure:
            observer.observe(.failed(id, error))
        case .unavailable where error.cause != nil && !(error.cause is SourceFailure):
            observer.observe(.failed(id, error))
        default:
            break
        }
    }

    /// The upload as it is, with its durable offset; heals what a crash left.
    ///
    /// To be called with the lease.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - finish: Completes a full upload also if it was not created for that, when `whenFull`.
    /// - Returns: Open or completed.
    /// - Throws: `.notFound`; `.gone` when it has ended or its time is over; `.storageFailure`.
    func settled(_ id: UploadID, _ finish: Finish = .told(isLast: false)) async throws(UploadError) -> Upload {
        guard var upload = try await state.upload(id) else { throw Self.notFound }
        switch upload.state {
        case .terminated, .expired: throw Self.gone
        case .completed where isOver(upload):
            try await end(upload, as: .expired)
            throw Self.gone
        case .completed: return upload
        case .open: break
        }
        if upload.takesParts { return try await settledParts(of: upload) }
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
            throw Self.gone
        }
        return upload
    }

    /// Asks the storage about a blob that a record says is there.
    func bytesOf<Success>(
        _ id: UploadID,
        _ ask: (UploadID) async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        do throws(UploadError) {
            return try await ask(id)
        } catch  where error.code == .notFound {
            // Another node may have ended it since the record was read.
            switch try await state.upload(id)?.state {
            // Its client can only begin anew.
            case .open where storage.mayLoseBlobs: throw Self.gone
            case .open, .completed: break
            case .terminated, .expired: throw Self.gone
            case nil: throw Self.notFound
            }
            throw UploadError(.storageFailure, "The bytes of this upload are missing.", cause: error)
        }
    }

    func isOver(_ upload: Upload) -> Bool {
        upload.isAlive && upload.expiresAt.map { $0 <= now } ?? false
    }

    /// Records that an upload has all its bytes.
    ///
    /// To be called with the lease.
    ///
    /// - Parameters:
    ///   - upload: Open, with its durable offset.
    ///   - digest: Of all its bytes, if one was checked while they came.
    /// - Returns: The upload as it is recorded; open, with its length, while the storage takes longer to finish it than a
    ///   client should wait.
    /// - Throws: `.gone` if it has ended meanwhile; `.digestMismatch` and `.contentTypeRefused` (and it has ended then);
    ///   `.conditionFailed` for an object whose name another one has or has not; `.quotaExceeded`; `.unavailable` if a hook can not be asked; `.storageFull`, `.storageFailure`.
    func complete(_ upload: Upload, knowing digest: ExpectedDigest? = nil) async throws(UploadError) -> Upload {
        try checkWritable()
        let terms = try await terms(for: upload.accounts)
        do throws(UploadError) {
            try await storage.synchronize(upload.id)
        } catch  where error.code == .finishing {
            return try await finishLater(upload, under: terms)
        }
        try await checkContent(of: upload, under: terms)
        let digests = try await verifiedDigests(of: upload, knowing: digest)
        try await hooks.willFinish(upload)
        var completed = upload
        completed.state = .completed
        completed.length = upload.offset
        completed.updatedAt = now
        completed.endedAt = completed.updatedAt
        let isPartial = upload.concatenation?.role == .partial
        completed.expiresAt = isPartial ? limits.lifetime.map { now.addingTimeInterval($0).wholeMilliseconds } : nil
        completed.reservedBytes = isPartial ? upload.offset : 0
        let condition = completed.attributes?.condition
        completed.attributes?.condition = nil
        completed.attributes?.completing = nil
        completed.attributes?.isHeld = nil
        let name = completed.objectName
        let (isFirst, media, replaced) = try await withEdits(of: upload.id, name) {
            () async throws(UploadError) -> (Bool, Media, Upload?) in
            try await repeating { () async throws(UploadError) -> (Bool, Media, Upload?) in
                // They may have been changed while the bytes came.
                if let recorded = try await state.upload(upload.id) { completed.metadata = recorded.metadata }
                let media = Media(of: completed, digests: digests)
                let replaced = try await replacedObject(by: completed, if: condition)
                let isFirst = try await state.complete(
                    completed,
                    as: isPartial ? nil : media,
                    replacing: replaced?.id,
                    under: terms,
                    recording: [event(.completed, of: completed)]
                        + (replaced.map { [event(.terminated, of: $0)] } ?? [])
                )
                return (isFirst, media, replaced)
            }
        }
        guard isFirst else {
            guard let recorded = try await state.upload(upload.id), recorded.state == .completed else {
                throw Self.gone
            }
            return recorded
        }
        bell.ring()
        observer.observe(.completed(completed, isPartial ? nil : media))
        if let replaced {
            observer.observe(.terminated(replaced.id))
            await removeBytes(of: replaced.id)
        }
        return completed
    }

    /// Runs `body` while nobody else on this node changes the metadata of an upload, or which object has a name.
    private func withEdits<Success>(
        of id: UploadID,
        _ name: ObjectName?,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        try await edits.withTurn(at: id) { () async throws(UploadError) -> Success in
            guard let name else { return try await body() }
            return try await names.withTurn(at: name, body)
        }
    }

    /// Runs `body` again while it fails because another node has changed the metadata since they were read; each time one of them
    /// gets on.
    func repeating<Success>(
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        let deadline = ContinuousClock.now + limits.takeOverTimeout
        while true {
            do throws(UploadError) {
                return try await body()
            } catch  where error.code == .busy && ContinuousClock.now < deadline && !Task.isCancelled {
                // Apart from each other.
                try? await Task.sleep(for: .milliseconds(Int.random(in: 1...20)))
            }
        }
    }

    /// Ends an upload: the record first, then the bytes, which `sweep` removes if that fails here.
    ///
    /// To be called with the lease.
    ///
    /// - Parameters:
    ///   - upload: As it is recorded.
    ///   - reason: `terminated` or `expired`.
    /// - Throws: `.gone` if it has ended before; `.notOpen` if it is open there and was completed meanwhile.
    func end(_ upload: Upload, as reason: Upload.State) async throws(UploadError) {
        try checkWritable()
        let id = upload.id
        var ended = upload
        if upload.state == .open { ended.offset = (try? await receivedBytes(of: upload)) ?? 0 }
        let received = ended.offset
        ended.state = reason
        ended.updatedAt = now
        ended.endedAt = ended.updatedAt
        ended.expiresAt = nil
        ended.reservedBytes = 0
        let isFirst = try await state.end(
            id,
            from: upload.state,
            as: reason,
            at: ended.updatedAt,
            received: received,
            recording: event(reason == .expired ? .expired : .terminated, of: ended)
        )
        guard isFirst else {
            if upload.state == .open, try await state.upload(id)?.state == .completed { throw Self.completedMeanwhile }
            throw Self.gone
        }
        bell.ring()
        observer.observe(reason == .expired ? .expired(id) : .terminated(id))
        await removeBytes(of: id)
    }

    /// Removes what nobody needs any more; what fails, or can not be while the storage is finishing it, is left to `sweep`.
    ///
    /// - Returns: Whether it is removed.
    @discardableResult
    func removeBytes(of id: UploadID) async -> Bool {
        do throws(UploadError) {
            try await storage.remove(id)
            unremoved.withLock { _ = $0.remove(id) }
            return true
        } catch {
            unremoved.withLock { _ = $0.insert(id) }
            report(error, of: id)
            return false
        }
    }

    /// Bytes that an open upload has, which may not be durable yet.
    func receivedBytes(of upload: Upload) async throws(UploadError) -> Int64 {
        upload.takesParts ? try await state.partBytes(of: upload.id) : try await storage.currentLength(of: upload.id)
    }

    static let completedMeanwhile = UploadError(.notOpen, "The upload was completed meanwhile, and stays.")
    static let notFound = UploadError(.notFound, "There is no such upload.")
    static let gone = UploadError(.gone, "The upload has expired or was terminated; create a new one.")
}
