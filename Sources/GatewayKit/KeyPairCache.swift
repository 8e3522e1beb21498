internal import Foundation
internal import ObjectGrants
package import Signing
internal import Synchronization
package import UploadCore
package import UploadModel

/// Finds the API keys behind key pairs, and their possible pairs; keeps each for one second, so that not every request
/// reads the state and derives secrets.
///
/// A revocation is therefore seen within a second, like those in `RevocationList`. Unknown ids are not kept: guessing
/// them does not fill the memory.
package final class KeyPairCache: Sendable {
    package struct Pairs: Sendable {
        package let key: APIKey
        package let credentials: [SigningCredentials]
        /// Notes a use of the key; call it for each verified signature.
        package let noteUse: @Sendable () -> Void
    }

    private struct Entry {
        let pairs: Pairs
        let readAt: Date

        /// `false` also for an entry from the future: the clock was set back.
        func isFresh(at now: Date) -> Bool { (0..<KeyPairCache.lifetime).contains(now.timeIntervalSince(readAt)) }
    }

    /// Seconds.
    private static let lifetime: TimeInterval = 1
    private static let capacity = 1024

    private let entries = Mutex<[String: Entry]>([:])
    private let state: any KeyRecords
    private let master: MasterSecret
    private let clock: any WallClock
    private let uses: KeyUses

    package init(state: any KeyRecords, master: MasterSecret, clock: any WallClock, uses: KeyUses) {
        self.state = state
        self.master = master
        self.clock = clock
        self.uses = uses
    }

    /// The key with a pair's access key id and its pairs, if it is usable and has the scope.
    ///
    /// - Throws: The errors of the state.
    package func pairs(_ accessKeyID: String, _ scope: Scope) async throws(UploadError) -> Pairs? {
        guard let id = StaticKeyPair.keyID(of: accessKeyID) else { return nil }
        let now = clock.now
        guard let pairs = try await pairs(of: id, at: now), pairs.key.isUsable(at: now), pairs.key.allows(scope),
            // Limits could not be enforced on a pair with full access.
            scope != .admin || pairs.key.limits.isEmpty
        else { return nil }
        return pairs
    }

    private func pairs(of id: String, at now: Date) async throws(UploadError) -> Pairs? {
        if let entry = entries.withLock({ $0[id] }), entry.isFresh(at: now) { return entry.pairs }
        guard let key = try await state.key(id: id) else { return nil }
        let (uses, clock) = (uses, clock)
        let pairs = Pairs(
            key: key,
            credentials: StaticKeyPair.all(key, master: master, at: now).map(\.credentials),
            noteUse: {
                uses.note(id, at: clock.now)
                RequestMeter.note(key: id, subject: nil)
            }
        )
        entries.withLock { entries in
            // Clearing the cache is simpler than finding the oldest of very many entries.
            if entries.count >= Self.capacity, entries[id] == nil { entries = [:] }
            entries[id] = Entry(pairs: pairs, readAt: now)
        }
        return pairs
    }
}
