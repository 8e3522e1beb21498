package import Foundation
internal import Synchronization
package import UploadModel

extension InMemoryState {
    package func insert(_ revocation: Revocation) async throws(UploadError) {
        tables.withLock { tables in
            var revocation = revocation
            if let before = tables.revocations[revocation.subject] {
                revocation.issuedBefore = max(before.issuedBefore, revocation.issuedBefore)
            }
            tables.revocations[revocation.subject] = revocation
        }
    }

    package func revoked(since date: Date) async throws(UploadError) -> Revocations {
        tables.withLock { tables in
            Revocations(
                keys: tables.keys.values.filter { $0.revokedAt.map { $0 >= date } ?? false }.map(\.id),
                bulk: tables.revocations.values.filter { $0.createdAt >= date }
            )
        }
    }
}
