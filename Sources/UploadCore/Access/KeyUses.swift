package import Foundation
internal import Synchronization
package import UploadModel

/// Remembers when API keys were used, until it is recorded; a request never waits for the state.
package final class KeyUses: Sendable {
    private let pending = Mutex<[String: Date]>([:])

    package init() {}

    /// Notes a use of a key that exists.
    package func note(_ id: String, at now: Date) {
        pending.withLock { $0[id] = max($0[id] ?? now, now) }
    }

    /// A use that is not recorded yet.
    package func lastUse(of id: String) -> Date? { pending.withLock { $0[id] } }

    /// Records all noted uses; those that cannot be recorded now are kept for the next time.
    ///
    /// - Throws: `.unavailable`, `.storageFull`, `.storageFailure`.
    package func record(in state: any KeyRecords) async throws(UploadError) {
        let uses = pending.withLock { $0 }
        if uses.isEmpty { return }
        try await state.recordUses(uses)
        // A later use of the same key was noted meanwhile, and stays.
        pending.withLock { pending in
            for (id, date) in uses where pending[id] == date { pending[id] = nil }
        }
    }
}
