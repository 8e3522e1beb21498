internal import Foundation
internal import Synchronization

/// Keys that were looked up less than a second ago, so that one client's requests do not each read the state store.
///
/// Only keys that exist are kept, and no more than `capacity`: guessing at keys fills no memory.
final class KeyCache: Sendable {
    /// Seconds that a key may be used after it was read; so long may a revocation by another process take.
    static let lifetime: TimeInterval = 1

    private struct Entry {
        let key: APIKey
        let readAt: Date

        /// Not for an entry of the future either: then the clock was set back.
        func isFresh(at now: Date) -> Bool {
            (0..<KeyCache.lifetime).contains(now.timeIntervalSince(readAt))
        }
    }

    /// A digest as a key of the cache: evenly distributed already, so eight of its bytes are hash enough.
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

    /// Keeps `key`; `readAt` is a moment before it was read.
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
