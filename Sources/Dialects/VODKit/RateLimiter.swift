internal import Bytes
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
    /// What one user gets of it.
    private let perUser: Double
    private let buckets = Mutex<[String: Bucket]>([:])
    private let users = Mutex<[String: Bucket]>([:])

    /// - Parameter perSecond: Also how many may come at once. One user gets a quarter of it, rounded up.
    package init(perSecond: Int) {
        self.perSecond = Double(perSecond)
        perUser = (Double(perSecond) / 4).rounded(.up)
    }

    /// Whether it may happen for a name, and for one of its users.
    package func admits(_ name: String, of user: String?, at now: Date) -> Bool {
        if let user {
            let name = "\(name) \(Hexadecimal.encode(Array(user.utf8)))"
            // First, so that a user who is refused takes nothing from others.
            guard users.withLock({ Self.takes(name, perUser, &$0, at: now) }) else { return false }
        }
        return admits(name, at: now)
    }

    package func admits(_ name: String, at now: Date) -> Bool {
        buckets.withLock { Self.takes(name, perSecond, &$0, at: now) }
    }

    private static func takes(
        _ name: String,
        _ perSecond: Double,
        _ buckets: inout [String: Bucket],
        at now: Date
    ) -> Bool {
        // Forgetting all of them admits a few more than it should.
        if buckets.count >= mostNames, buckets[name] == nil { buckets = [:] }
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
