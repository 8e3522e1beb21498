internal import Foundation
internal import Synchronization

/// Caches keys for one second, so that not every request of a client reads the state store.
///
/// Only existing keys are kept, at most `capacity` of them: guessing keys does not fill the memory.
final class KeyCache: Sendable {
    /// Seconds that a cached key is used; also the maximum delay of a revocation by another process.
    static let lifetime: TimeInterval = 1

    private struct Entry {
        let key: APIKey
        let readAt: Date

        /// `false` also for an entry from the future: the clock was set back.
        func isFresh(at now: Date) -> Bool {
            (0..<KeyCache.lifetime).contains(now.timeIntervalSince(readAt))
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
    private let entries = Mutex<[Fingerprint: Entry]>([:])

    init(capacity: Int = 1024) {
        self.capacity = capacity
    }

    var count: Int { entries.withLock { $0.count } }

    func key(digest: [UInt8], at now: Date) -> APIKey? {
        entries.withLock { entries in
            guard let entry = entries[Fingerprint(digest: digest)], entry.isFresh(at: now) else { return nil }
            return entry.key
        }
    }

    /// Caches `key`; `readAt` is a time before it was read.
    func insert(_ key: APIKey, readAt: Date) {
        entries.withLock { entries in
            if entries.count >= capacity, entries[Fingerprint(digest: key.digest)] == nil {
                entries = entries.filter { $0.value.isFresh(at: readAt) }
                if entries.count >= capacity { entries.removeAll(keepingCapacity: true) }
            }
            entries[Fingerprint(digest: key.digest)] = Entry(key: key, readAt: readAt)
        }
    }
}
