internal import Foundation
internal import Synchronization
internal import UploadModel

/// Caches keys, so that not every request of a client reads the state store or verifies a signature.
///
/// Only existing keys are kept, at most `capacity` of them: guessing keys does not fill the memory.
final class KeyCache: Sendable {
    /// Default seconds that a cached key is used; also the maximum delay of a revocation by another process.
    static let lifetime: TimeInterval = 1

    private struct Entry {
        let key: APIKey
        let readAt: Date

        /// `false` also for an entry from the future: the clock was set back.
        func isFresh(at now: Date, _ lifetime: TimeInterval) -> Bool {
            (0..<lifetime).contains(now.timeIntervalSince(readAt))
        }
    }

    /// A digest as a cache key: evenly distributed already, so eight of its bytes are enough as a hash.
    private struct Fingerprint: Hashable {
        let digest: [UInt8]

        func hash(into hasher: inout Hasher) {
            hasher.combine(digest.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
        }
    }

    private let capacity: Int
    private let lifetime: TimeInterval
    private let entries = Mutex<[Fingerprint: Entry]>([:])

    init(capacity: Int = 1024, lifetime: TimeInterval = KeyCache.lifetime) {
        self.capacity = capacity
        self.lifetime = lifetime
    }

    var count: Int { entries.withLock { $0.count } }

    func key(digest: [UInt8], at now: Date) -> APIKey? {
        entries.withLock { entries in
            guard let entry = entries[Fingerprint(digest: digest)], entry.isFresh(at: now, lifetime) else { return nil }
            return entry.key
        }
    }

    /// Forgets all keys: one was changed.
    func removeAll() { entries.withLock { $0 = [:] } }

    /// Caches the `key` with the secret of `digest`; `readAt` is a time before it was read.
    func insert(_ key: APIKey, digest: [UInt8], readAt: Date) {
        entries.withLock { entries in
            if entries.count >= capacity, entries[Fingerprint(digest: digest)] == nil {
                entries = entries.filter { $0.value.isFresh(at: readAt, lifetime) }
                if entries.count >= capacity { entries.removeAll(keepingCapacity: true) }
            }
            entries[Fingerprint(digest: digest)] = Entry(key: key, readAt: readAt)
        }
    }
}
