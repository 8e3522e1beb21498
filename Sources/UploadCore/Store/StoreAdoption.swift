internal import Bytes
internal import Digests
package import Foundation
package import UploadModel

/// Binds a state and a storage that are not yet a pair, and creates records for blobs that have none.
///
/// No gateway may use either of them meanwhile. To resume an interrupted adoption, make the same call again.
package struct StoreAdoption: Sendable {
    private let state: any UploadRecords & EventRecords
    private let marks: any StoreMarks
    private let storage: any MarkedStorage
    private let now: Date
    private let lifetime: TimeInterval?

    /// - Parameters:
    ///   - state: Receives the records.
    ///   - marks: The same state.
    ///   - storage: The storage to search.
    ///   - now: The current time.
    ///   - lifetime: See `UploadLimits.lifetime`.
    package init(
        state: any UploadRecords & EventRecords,
        marks: any StoreMarks,
        storage: any MarkedStorage,
        now: Date,
        lifetime: TimeInterval?
    ) {
        self.state = state
        self.marks = marks
        self.storage = storage
        self.now = now.wholeMilliseconds
        self.lifetime = lifetime
    }

    /// What was done, or would be done in a trial.
    package struct Outcome: Sendable, Equatable {
        /// Why they were not a pair; `nil` if they were.
        package var mismatch: StoreMismatch?
        /// Number of blobs that became completed media, and their size in bytes.
        package var completed = 0
        package var completedBytes: Int64 = 0
        /// Blobs that became open uploads, which their clients can resume.
        package var opened = 0
        /// Blobs left for the next sweep to set aside: parts of multipart uploads, for which no record can be created.
        package var left = 0
        /// Blobs that already have a record.
        package var known = 0
        /// Open uploads whose expiry was renewed, because the state may not know about their last bytes.
        package var renewed = 0
        /// Uploads whose bytes are missing.
        package var missing: [UploadID] = []

        package init() {}
    }

    /// - Parameters:
    ///   - isRebuilding: Whether to create records; otherwise the next sweep sets aside blobs without one.
    ///   - isTrial: Whether to change nothing.
    ///   - progress: Called from time to time with the progress.
    /// - Returns: What was done.
    /// - Throws: `.storageFull`, `.storageFailure`, `.unavailable`.
    package func run(
        rebuilding isRebuilding: Bool,
        trial isTrial: Bool,
        progress: @Sendable (Outcome) -> Void = { _ in }
    ) async throws(UploadError) -> Outcome {
        var outcome = Outcome()
        outcome.mismatch = try await StoreBinding(state: state, marks: marks, storage: storage).compare()
        var found: Set<UploadID> = []
        try await storage.findBlobs { blob throws(UploadError) in
            found.insert(blob.id)
            if try await state.uploads([blob.id])[blob.id] != nil {
                outcome.known += 1
            } else if blob.content == .pieces || !isRebuilding {
                outcome.left += 1
            } else {
                if !isTrial { try await makeRecord(of: blob) }
                outcome.completed += blob.content == .whole ? 1 : 0
                outcome.completedBytes += blob.content == .whole ? blob.size : 0
                outcome.opened += blob.content == .open ? 1 : 0
            }
            progress(outcome)
        }
        try await lookAtRecords(found, &outcome, trial: isTrial)
        if !isTrial { try await bind() }
        return outcome
    }

    /// The name under which records are created; also their dialect, which no client uses.
    package static let name = "adopted"

    private func makeRecord(of blob: FoundBlob) async throws(UploadError) {
        try await storage.adopt(blob)
        let isWhole = blob.content == .whole
        var upload = Upload(
            id: blob.id,
            // Its client may resume it by tus: it has the id, with a code that proves it.
            dialect: isWhole ? Self.name : "tus",
            subject: nil,
            principal: Self.name,
            length: isWhole ? blob.size : nil,
            offset: blob.size,
            metadata: UploadMetadata(describing: blob.contentType.map { ["filetype": $0] } ?? [:]),
            createdAt: min(blob.id.createdAt, now),
            expiresAt: isWhole ? nil : lifetime.map { now.addingTimeInterval($0).wholeMilliseconds }
        )
        let effectiveLimits = EffectiveLimits(policies: [:], period: QuotaPeriod(around: now, length: 86_400))
        try await state.insert(upload, consuming: nil, under: effectiveLimits, recording: event(.created, of: upload))
        guard isWhole else { return }
        upload.state = .completed
        upload.updatedAt = now
        upload.endedAt = upload.createdAt
        _ = try await state.complete(
            upload,
            as: Media(of: upload),
            replacing: nil,
            under: effectiveLimits,
            recording: [event(.completed, of: upload)]
        )
    }

    /// Without a delivery: the app was notified when it happened.
    private func event(_ kind: EventRecord.Kind, of upload: Upload) -> EventRecord {
        EventRecord(
            id: "msg_" + UploadID.generate(at: now).text,
            kind: kind,
            upload: upload,
            request: nil,
            occurredAt: now,
            delivery: nil
        )
    }

    /// Finds records without bytes, and renews the expiry of open uploads.
    private func lookAtRecords(
        _ found: Set<UploadID>,
        _ outcome: inout Outcome,
        trial isTrial: Bool
    ) async throws(UploadError) {
        var query = UploadQuery(states: [.open, .completed], limit: 500)
        let expiry = lifetime.map { now.addingTimeInterval($0).wholeMilliseconds }
        while true {
            let page = try await state.uploads(query)
            guard let last = page.last else { return }
            for upload in page {
                if !found.contains(upload.id), try await isMissing(upload.id) { outcome.missing.append(upload.id) }
                guard upload.state == .open, outcome.mismatch != nil, let expiry else { continue }
                guard let before = upload.expiresAt, before < expiry else { continue }
                outcome.renewed += 1
                if !isTrial { try await state.setExpiry(of: upload.id, to: expiry, updatedAt: now) }
            }
            query.before = last.id
        }
    }

    private func isMissing(_ id: UploadID) async throws(UploadError) -> Bool {
        do throws(UploadError) {
            _ = try await storage.currentLength(of: id)
            return false
        } catch  where error.code == .notFound {
            return true
        }
    }

    /// Writes the mark to the state first: they are not a pair until both have it.
    private func bind() async throws(UploadError) {
        let (mark, stored) = (try await marks.storeMark(), try await storage.storedMark())
        let epoch = max(mark?.epoch ?? 0, stored?.epoch ?? 0) + 1
        let id = mark?.id ?? stored?.id ?? Hexadecimal.encode(SecureRandom.bytes(16))
        try await marks.replaceStoreMark(StoreMark(id: id, epoch: epoch))
        try await storage.storeMark(StoreMark(id: id, epoch: epoch))
    }
}
