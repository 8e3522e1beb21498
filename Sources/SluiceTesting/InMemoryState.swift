package import Foundation
internal import Synchronization
package import UploadCore

/// A state store that forgets everything with the process.
package final class InMemoryState: StateStore {
    private struct Tables {
        var uploads: [UploadID: Upload] = [:]
        var media: [UploadID: Media] = [:]
        /// Expiry by id.
        var usedGrants: [String: Date] = [:]
        var keys: [String: APIKey] = [:]
    }

    private let tables = Mutex(Tables())

    package init() {}

    package func insert(_ upload: Upload, consuming grant: Grant?) async throws(UploadError) {
        let isFirst = tables.withLock { tables in
            if let grant {
                if tables.usedGrants[grant.id] != nil { return false }
                tables.usedGrants[grant.id] = grant.expiresAt
            }
            tables.uploads[upload.id] = upload
            return true
        }
        if !isFirst { throw UploadError(.grantUsed, "This credential admits one upload, and it was used.") }
    }

    package func upload(_ id: UploadID) async throws(UploadError) -> Upload? {
        tables.withLock { $0.uploads[id] }
    }

    package func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload] {
        tables.withLock { tables in
            let matching = tables.uploads.values.filter { upload in
                (query.state == nil || upload.state == query.state)
                    && (query.subject == nil || upload.subject == query.subject)
                    && query.before.map { upload.id.text < $0.text } ?? true
            }
            return Array(matching.sorted { $0.id.text > $1.id.text }.prefix(query.limit))
        }
    }

    package func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload] {
        tables.withLock { tables in tables.uploads.filter { ids.contains($0.key) } }
    }

    package func openFinals(of part: UploadID) async throws(UploadError) -> [UploadID] {
        tables.withLock { tables in
            tables.uploads.values.filter { $0.state == .open && $0.concatenation?.parts?.contains(part) == true }
                .map(\.id).sorted { $0.text < $1.text }
        }
    }

    package func complete(_ completed: Upload, as media: Media?) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            guard var upload = tables.uploads[completed.id], upload.state == .open else { return false }
            upload.state = .completed
            upload.length = completed.length
            upload.offset = completed.length ?? 0
            upload.updatedAt = completed.updatedAt
            upload.endedAt = completed.endedAt
            upload.expiresAt = completed.expiresAt
            tables.uploads[upload.id] = upload
            tables.media[upload.id] = media
            return true
        }
    }

    package func end(_ id: UploadID, as state: Upload.State, at now: Date) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            guard var upload = tables.uploads[id], upload.state == .open || upload.state == .completed
            else { return false }
            upload.state = state
            upload.offset = 0
            upload.updatedAt = now
            upload.endedAt = now
            upload.expiresAt = nil
            tables.uploads[id] = upload
            tables.media[id] = nil
            return true
        }
    }

    package func setLength(of id: UploadID, to length: Int64, updatedAt: Date) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            guard let upload = tables.uploads[id], upload.state == .open, upload.length == nil else { return false }
            tables.uploads[id]?.length = length
            tables.uploads[id]?.updatedAt = updatedAt
            return true
        }
    }

    package func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError) {
        tables.withLock { tables in
            guard tables.uploads[id]?.state == .open else { return }
            tables.uploads[id]?.expiresAt = date
            tables.uploads[id]?.updatedAt = updatedAt
        }
    }

    package func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID] {
        tables.withLock { tables in
            let over = tables.uploads.values.compactMap { upload in
                upload.expiresAt.map { (upload.id, $0) }
            }
            return over.filter { $0.1 <= now }.sorted { $0.1 < $1.1 }.prefix(limit).map(\.0)
        }
    }

    package func forgetEnded(before date: Date) async throws(UploadError) {
        tables.withLock { tables in
            tables.uploads = tables.uploads.filter { _, upload in
                guard upload.state == .terminated || upload.state == .expired, let endedAt = upload.endedAt
                else { return true }
                return endedAt >= date
            }
            tables.usedGrants = tables.usedGrants.filter { $0.value >= date }
        }
    }

    package func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID> {
        tables.withLock { tables in
            Set(ids.filter { tables.uploads[$0]?.state == .open || tables.uploads[$0]?.state == .completed })
        }
    }

    package func media(_ id: UploadID) async throws(UploadError) -> Media? {
        tables.withLock { $0.media[id] }
    }

    package func insert(_ key: APIKey) async throws(UploadError) {
        let isNew = tables.withLock { tables in
            let isTaken = tables.keys.values.contains { $0.id == key.id || $0.digest == key.digest }
            if !isTaken { tables.keys[key.id] = key }
            return !isTaken
        }
        if !isNew { throw UploadError(.invalidRequest, "There is a key with this id or secret already.") }
    }

    package func key(digest: [UInt8]) async throws(UploadError) -> APIKey? {
        tables.withLock { $0.keys.values.first { $0.digest == digest } }
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

    package func check() async throws(UploadError) {}
}
