package import Foundation
internal import Synchronization
package import UploadCore

/// Which API keys were revoked; credentials that they minted are over with them.
///
/// What the state said of a key is believed for some seconds, so that requests need not ask it: so long credentials may live on.
package final class RevocationList: Sendable {
    /// - Returns: Whether there is no such key any more, or it was revoked.
    package typealias Lookup = @Sendable (_ keyID: String) async throws(UploadError) -> Bool

    /// Seconds.
    package static let memory: TimeInterval = 5
    private static let maximumCount = 10_000

    private let clock: any WallClock
    private let lookup: Lookup
    private let known = Mutex<[String: (isRevoked: Bool, until: Date)]>([:])

    package init(clock: any WallClock, lookup: @escaping Lookup) {
        self.clock = clock
        self.lookup = lookup
    }

    /// Whether the key with this id was revoked.
    ///
    /// - Throws: If the state does not answer.
    package func contains(_ keyID: String) async throws(UploadError) -> Bool {
        let now = clock.now
        // A clock that was set back must not keep what was known for longer.
        let remembered = known.withLock { known in
            known[keyID].flatMap { $0.until > now && $0.until <= now.addingTimeInterval(Self.memory) ? $0 : nil }
        }
        if let remembered { return remembered.isRevoked }
        let isRevoked = try await lookup(keyID)
        known.withLock { known in
            if known.count >= Self.maximumCount { known.removeAll() }
            known[keyID] = (isRevoked, now.addingTimeInterval(Self.memory))
        }
        return isRevoked
    }
}
