package import Foundation
internal import Synchronization
package import UploadCore

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
        tables.withLock { $0.keys.values.first { $0.digest == digest } }
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
}
