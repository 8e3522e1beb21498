internal import Bytes
internal import Digests
internal import Foundation
internal import Synchronization

/// Makes sure that state and storage are a pair: the sweep removes bytes that no record knows, so with a wrong, lost or older state it
/// would remove them all.
///
/// Both have a mark of the same id, and an epoch that grows in the state before it grows in the storage.
///
/// | state | storage | what it is |
/// |---|---|---|
/// | no mark, no uploads | no mark, no blobs | a new pair |
/// | no mark, uploads | no mark | a pair of a version without marks |
/// | epoch 0 | no mark | as above, and a crash came between |
/// | a mark, no uploads | no mark, no blobs | a pair with a new storage |
/// | the same id, an epoch that is not less | | a pair |
/// | anything else | | `StoreMismatch` |
package final class StoreBinding: Sendable {
    private let state: any StateStore
    private let marks: any StoreMarks
    private let storage: any MarkedStorage
    /// The newest event when the epoch grew last.
    private let lastEvent = Mutex<Int64?>(nil)

    package init(state: any StateStore, marks: any StoreMarks, storage: any MarkedStorage) {
        self.state = state
        self.marks = marks
        self.storage = storage
    }

    /// Compares the marks, and binds a new pair; to be called at the start, before anything is removed.
    ///
    /// - Returns: Why they are no pair; nothing was changed then.
    /// - Throws: `.unavailable`, `.storageFailure`.
    package func bind() async throws(UploadError) -> StoreMismatch? {
        if let mismatch = try await compare() { return mismatch }
        do throws(UploadError) {
            let newest = try await state.lastEvent()
            try await renew()
            lastEvent.withLock { $0 = newest }
        } catch  where error.code == .storageFull {
            // A full disk must not keep the gateway from starting, so that somebody can make room.
        }
        return nil
    }

    /// Lets the epoch grow if anything was recorded since the last time; to be called now and then, and at the end.
    ///
    /// A copy of the state is told from the state itself by what came after it, so by no more than the time between two calls.
    package func advance() async throws(UploadError) {
        let newest = try await state.lastEvent()
        guard lastEvent.withLock({ $0 != newest }) else { return }
        try await renew()
        lastEvent.withLock { $0 = newest }
    }

    private func renew() async throws(UploadError) {
        let new = StoreMark(id: Hexadecimal.encode(SecureRandom.bytes(16)), epoch: 0)
        let mark = try await marks.ensureStoreMark(new)
        // Before the state can demand that it is there.
        if mark.epoch == 0 { try await storage.storeMark(mark) }
        try await storage.storeMark(try await marks.advanceStoreMark())
    }

    /// Why state and storage are no pair.
    package func compare() async throws(UploadError) -> StoreMismatch? {
        while true {
            // The state on both sides: another node may bind the pair, or advance it, at this moment.
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

/// Why a state and a storage are no pair.
package enum StoreMismatch: String, Sendable, CaseIterable {
    /// The state knows nothing of a storage that was used.
    case unknownState = "state_unknown"
    /// The storage was never used with this state, which was used.
    case unknownStorage = "storage_unknown"
    /// Each was used with another one.
    case otherPair = "other_pair"
    /// The storage was used with a later version of the state.
    case olderState = "state_older"

    /// For the operator: what is wrong, and what to do, without a path or an address.
    package var description: String {
        let reason =
            switch self {
            case .unknownState:
                "The storage has uploads of which this state has no records: the state was lost, is new, or is another one."
            case .unknownStorage:
                "The storage is not the one that this state was used with: it is empty, not mounted, or another one."
            case .otherPair: "State and storage belong to different gateways: one of both is the wrong one."
            case .olderState: "The state is older than the storage: it was restored from a backup."
            }
        return """
            \(reason) Nothing is written or removed until they belong together: start with the right ones, or stop the gateway and run \
            `sluice adopt --dry-run`, then `sluice adopt`, which makes records of what the storage has.
            """
    }

    /// What a request is told that would change something.
    package var refusal: UploadError {
        UploadError(
            .unavailable,
            "The records of this server and its storage do not belong together; nothing is written until its operator has seen to that."
        )
    }
}
