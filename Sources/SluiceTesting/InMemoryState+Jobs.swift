package import Foundation
internal import Synchronization
package import UploadModel

extension InMemoryState {
    package func claimJob(at job: PeriodicJob, every interval: TimeInterval) async throws(UploadError) -> Bool {
        let now = clock.now
        return tables.withLock { tables in
            if let last = tables.turns[job], now.timeIntervalSince(last) < interval { return false }
            tables.turns[job] = now
            return true
        }
    }

    package func check() async throws(UploadError) {}
}
