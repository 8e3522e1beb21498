package import Foundation
internal import Synchronization
package import UploadModel

extension InMemoryState {
    package func insert(_ key: APIKey) async throws(UploadError) {
        let isNew = tables.withLock { tables in
            let isTaken = tables.keys.values.contains { $0.id == key.id || $0.digest == key.digest }
            if !isTaken { tables.keys[key.id] = key }
            return !isTaken
        }
        if !isNew { throw UploadError(.invalidRequest, "A key with this id or secret already exists.") }
    }

    package func key(digest: [UInt8]) async throws(UploadError) -> APIKey? {
        tables.withLock { tables in
            tables.keys.values.first { $0.digest == digest }
                ?? tables.keys.values.first { $0.previous?.digest == digest }
        }
    }

    package func key(id: String) async throws(UploadError) -> APIKey? {
        tables.withLock { $0.keys[id] }
    }

    package func keys() async throws(UploadError) -> [APIKey] {
        tables.withLock { $0.keys.values.sorted { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) } }
    }

    package func revokeKey(_ id: String, at now: Date) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            guard let key = tables.keys[id], key.revokedAt == nil else { return false }
            tables.keys[id]?.revokedAt = now
            return true
        }
    }

    package func rotateKey(
        _ id: String,
        to digest: [UInt8],
        overlapEnd: Date?,
        at now: Date
    ) async throws(UploadError) -> APIKey? {
        tables.withLock { tables in
            guard var key = tables.keys[id], key.isUsable(at: now), !key.isPreset else { return nil }
            key.previous = overlapEnd.map { APIKey.PreviousSecret(digest: key.digest, validUntil: $0) }
            key.digest = digest
            tables.keys[id] = key
            return key
        }
    }

    package func recordUses(_ uses: [String: Date]) async throws(UploadError) {
        tables.withLock { tables in
            for (id, date) in uses {
                guard let key = tables.keys[id], key.lastUsedAt.map({ $0 < date }) ?? true else { continue }
                tables.keys[id]?.lastUsedAt = date
            }
        }
    }
}
