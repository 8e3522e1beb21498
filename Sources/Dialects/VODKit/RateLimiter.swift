package import Foundation
internal import Synchronization

/// Limits how often something happens for each name: a bucket of tokens that fills steadily.
package final class RateLimiter: Sendable {
    private struct Bucket {
        var tokens: Double
        var filledAt: Date
    }

    private static let mostNames = 10_000

    private let perSecond: Double
    private let buckets = Mutex<[String: Bucket]>([:])

    /// - Parameter perSecond: Also how many may come at once.
    package init(perSecond: Int) { self.perSecond = Double(perSecond) }

    package func admits(_ name: String, at now: Date) -> Bool {
        buckets.withLock { buckets in
            // Forgetting all of them admits a few more than it should.
            if buckets.count >= Self.mostNames, buckets[name] == nil { buckets = [:] }
            var bucket = buckets[name] ?? Bucket(tokens: perSecond, filledAt: now)
            // A clock that was set back adds nothing.
            let passed = max(0, now.timeIntervalSince(bucket.filledAt))
            bucket.tokens = min(perSecond, bucket.tokens + passed * perSecond)
            bucket.filledAt = now
            let isAdmitted = bucket.tokens >= 1
            if isAdmitted { bucket.tokens -= 1 }
            buckets[name] = bucket
            return isAdmitted
        }
    }
}
