package import Foundation
internal import Synchronization
internal import UploadCore
package import UploadModel

extension InMemoryState {
    package func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID] {
        tables.withLock { tables in
            let over = tables.uploads.values.compactMap { upload in
                upload.expiresAt.map { (upload.id, $0) }
            }
            return over.filter { $0.1 <= now }.sorted { $0.1 < $1.1 }.prefix(limit).map(\.0)
        }
    }

    package func forgetEnded(before date: Date, dead deadDate: Date) async throws(UploadError) {
        tables.withLock { tables in
            tables.uploads = tables.uploads.filter { _, upload in
                guard upload.state == .terminated || upload.state == .expired, let endedAt = upload.endedAt
                else { return true }
                return endedAt >= date
            }
            tables.pulls = tables.pulls.filter { tables.uploads[$0.key] != nil }
            tables.usedGrants = tables.usedGrants.filter { $0.value >= date }
            tables.events.removeAll { event in
                switch event.delivery?.state {
                case nil, .delivered: event.occurredAt < date
                case .dead: event.occurredAt < deadDate
                case .pending: false
                }
            }
        }
    }

    package func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID> {
        tables.withLock { tables in
            Set(ids.filter { tables.uploads[$0]?.state == .open || tables.uploads[$0]?.state == .completed })
        }
    }
}
