internal import Bytes
internal import Digests
internal import Foundation
internal import Synchronization
package import UploadModel

/// Ensures that state and storage belong together.
///
/// The sweep removes bytes without a record, so with a wrong, lost or older state it would remove all of them.
///
/// Both hold a mark with the same id, and an epoch that grows in the state before it grows in the storage.
///
/// | state | storage | meaning |
/// |---|---|---|
/// | no mark, no uploads | no mark, no blobs | a new pair |
/// | no mark, uploads | no mark | a pair of a version without marks |
/// | epoch 0 | no mark | as above, after a crash while binding |
/// | a mark, no uploads | no mark, no blobs | a pair with a new storage |
/// | the same id, an epoch that is not lower | | a pair |
/// | anything else | | `StoreMismatch` |
package final class StoreBinding: Sendable {
    private let state: any UploadRecords & EventRecords
    private let marks: any StoreMarks
    private let storage: any MarkedStorage
    /// The number of events when the epoch last grew.
    private let eventCount = Mutex<Int64?>(nil)

    package init(state: any UploadRecords & EventRecords, marks: any StoreMarks, storage: any MarkedStorage) {
        self.state = state
        self.marks = marks
        self.storage = storage
    }

    /// Compares the marks, and binds a new pair; call at startup, before anything is removed.
    ///
    /// - Returns: Why they are not a pair, with nothing changed; `nil` if they are.
    /// - Throws: `.unavailable`, `.storageFailure`.
    package func bind() async throws(UploadError) -> StoreMismatch? {
        if let mismatch = try await compare() { return mismatch }
        do throws(UploadError) {
            let count = try await state.eventCount()
            try await renew()
            eventCount.withLock { $0 = count }
        } catch  where error.code == .storageFull {
            // A full disk must not prevent the gateway from starting, or nobody could free space.
        }
        return nil
    }

    /// Increments the epoch if anything happened since the last call; call periodically and at shutdown.
    ///
    /// A copy of the state can be detected by what was recorded after it was made, so detection lags by at most the
    /// time between two calls.
    ///
    /// - Throws: `.storageFailure` if they are no pair any more: a storage in the place of ours must not get its mark.
    package func advance() async throws(UploadError) {
        let count = try await state.eventCount()
        guard eventCount.withLock({ $0 != count }) else { return }
        if let mismatch = try await compare() { throw UploadError(.storageFailure, mismatch.description) }
        try await renew()
        eventCount.withLock { $0 = count }
    }

    private func renew() async throws(UploadError) {
        let new = StoreMark(id: Hexadecimal.encode(SecureRandom.bytes(16)), epoch: 0)
        let mark = try await marks.ensureStoreMark(new)
        // Must be stored before the state can require it.
        if mark.epoch == 0 { try await storage.storeMark(mark) }
        try await storage.storeMark(try await marks.advanceStoreMark())
    }

    /// Why state and storage are not a pair; `nil` if they are.
    package func compare() async throws(UploadError) -> StoreMismatch? {
        while true {
            // Read the state before and after: another node may be binding the pair or advancing its epoch right now.
            let before = try await marks.storeMark()
            let stored = try await storage.storedMark()
            let mark = try await marks.storeMark()
            guard mark == before else { continue }
            guard let mismatch = try await mismatch(of: mark, with: stored) else { return nil }
            if try await marks.storeMark() == mark { return mismatch }
        }
    }

    private func mismatch(
        of mark: StoreMark?,
        with stored: StoreMark?
    ) async throws(UploadError) -> StoreMismatch? {
        switch (mark, stored) {
        case (let mark?, let stored?):
            if mark.id != stored.id { return .otherPair }
            return mark.epoch < stored.epoch ? .olderState : nil
        case (nil, .some): return .unknownState
        case (nil, nil):
            if try await isUsed() { return nil }
            return try await storage.hasBlobs() ? .unknownState : nil
        case (let mark?, nil):
            if mark.epoch == 0 { return nil }
            if try await isUsed() { return .unknownStorage }
            return try await storage.hasBlobs() ? .unknownStorage : nil
        }
    }

    private func isUsed() async throws(UploadError) -> Bool { try await !state.uploads(UploadQuery(limit: 1)).isEmpty }
}

/// Why a state and a storage are not a pair.
package enum StoreMismatch: String, Sendable, CaseIterable {
    /// The storage was used, but the state does not know it.
    case unknownState = "state_unknown"
    /// The state was used, but never with this storage.
    case unknownStorage = "storage_unknown"
    /// Each was used with a different partner.
    case otherPair = "other_pair"
    /// The storage was used with a later version of the state.
    case olderState = "state_older"

    /// A message for the operator: what is wrong and what to do, without a path or an address.
    package var description: String {
        let reason =
            switch self {
            case .unknownState:
                "The storage has uploads of which this state has no records: the state was lost, is new, or is another one."
            case .unknownStorage:
                "The storage is not the one that this state was used with: it is empty, not mounted, or another one."
            case .otherPair: "State and storage belong to different gateways: one of them is the wrong one."
            case .olderState: "The state is older than the storage: it was restored from a backup."
            }
        return """
            \(reason) Nothing is written or removed until they belong together: start with the right ones, or stop the gateway and run \
            `sluice adopt --dry-run`, then `sluice adopt`, which makes records of what the storage has.
            """
    }

    /// The error for every request that would change something.
    package var refusal: UploadError {
        UploadError(
            .unavailable,
            "The records of this server and its storage do not belong together; nothing is written until the operator has corrected this."
        )
    }
}
