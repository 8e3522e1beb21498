package import Foundation
internal import Synchronization
package import UploadModel

extension InMemoryStorage: MarkedStorage {
    package var keepsOrphans: Bool { true }

    package func setAside(_ orphan: UploadID, at now: Date) async throws(UploadError) {
        try await remove(orphan)
        orphans.withLock { $0[orphan] = now }
    }

    package func removeOrphans(setAsideBefore date: Date) async throws(UploadError) -> Int {
        orphans.withLock { orphans in
            let before = orphans.count
            orphans = orphans.filter { $0.value >= date }
            return before - orphans.count
        }
    }

    package func storedMark() async throws(UploadError) -> StoreMark? { mark.withLock { $0 } }

    package func storeMark(_ mark: StoreMark) async throws(UploadError) { self.mark.withLock { $0 = mark } }

    package func hasBlobs() async throws(UploadError) -> Bool { try await !list(after: nil, limit: 1).isEmpty }

    package func findBlobs(_ body: (FoundBlob) async throws(UploadError) -> Void) async throws(UploadError) {
        for id in try await list(after: nil, limit: .max) {
            guard let size = blobs.withLock({ $0[id]?.count }) else {
                try await body(FoundBlob(id, .pieces, size: 0))
                continue
            }
            try await body(FoundBlob(id, size == 0 ? .open : .whole, size: Int64(size)))
        }
    }

    package func adopt(_ blob: FoundBlob) async throws(UploadError) {}
}
