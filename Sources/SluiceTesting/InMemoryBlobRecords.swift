internal import Synchronization
internal import UploadCore
package import UploadModel

/// Records of blobs in memory.
package final class InMemoryBlobRecords: BlobRecords {
    private struct Entry {
        var record: BlobRecord
        var parts: [Int: BlobPart] = [:]
    }

    private let entries = Mutex<[UploadID: Entry]>([:])

    package init() {}

    package func insert(_ record: BlobRecord) async throws(UploadError) {
        let isNew = entries.withLock { entries in
            guard entries[record.id] == nil else { return false }
            var first = record
            first.version = 1
            entries[record.id] = Entry(record: first)
            return true
        }
        guard isNew else { throw UploadError(.storageFailure, "There is a blob with this id already.") }
    }

    package func blob(_ id: UploadID) async throws(UploadError) -> BlobRecord? {
        entries.withLock { $0[id]?.record }
    }

    package func blobs(_ ids: [UploadID]) async throws(UploadError) -> [BlobRecord] {
        entries.withLock { entries in Set(ids).compactMap { entries[$0]?.record } }
    }

    package func parts(of id: UploadID) async throws(UploadError) -> [BlobPart] {
        let parts = entries.withLock { $0[id]?.parts } ?? [:]
        return parts.values.sorted { $0.number < $1.number }
    }

    package func update(
        _ record: BlobRecord,
        adding parts: [BlobPart],
        droppingFrom first: Int?
    ) async throws(UploadError) -> Int64 {
        let version: Int64? = entries.withLock { entries in
            guard var entry = entries[record.id], entry.record.version == record.version else { return nil }
            entry.record = record
            entry.record.version += 1
            if let first { entry.parts = entry.parts.filter { $0.key < first } }
            for part in parts { entry.parts[part.number] = part }
            entries[record.id] = entry
            return entry.record.version
        }
        guard let version else { throw BlobRecord.wasChanged }
        return version
    }

    package func forgetBlob(_ id: UploadID) async throws(UploadError) {
        entries.withLock { $0[id] = nil }
    }

    package func blobs(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID] {
        ids(limit: limit) { record in after.map { record.id.text > $0.text } ?? true }
    }

    package func completingBlobs(limit: Int) async throws(UploadError) -> [UploadID] {
        ids(limit: limit) { $0.state == .completing }
    }

    private func ids(limit: Int, where isWanted: (BlobRecord) -> Bool) -> [UploadID] {
        let found = entries.withLock { entries in entries.values.map(\.record).filter(isWanted) }
        return Array(found.map(\.id).sorted { $0.text < $1.text }.prefix(limit))
    }
}
