internal import Foundation
internal import Synchronization

/// Limits calls of each token in a minute (protocol notes §3.5).
final class VimeoRates: Sendable {
    /// What the fields `X-RateLimit-…` tell.
    struct Standing: Equatable {
        var limit: Int
        /// Calls left in this minute, after this one.
        var remaining: Int
        var resetsAt: Date
        var isAllowed: Bool
    }

    private struct Contents {
        var minute: Int64 = 0
        var counts: [String: Int] = [:]
    }

    private static let mostNames = 100_000

    private let limit: Int
    private let contents = Mutex(Contents())

    init(perMinute limit: Int) { self.limit = limit }

    /// Counts a call.
    func call(by name: String, at now: Date) -> Standing {
        let minute = Int64((now.timeIntervalSince1970 / 60).rounded(.down))
        let count = contents.withLock { contents in
            if contents.minute != minute || contents.counts.count >= Self.mostNames {
                contents = Contents(minute: minute)
            }
            contents.counts[name, default: 0] += 1
            return contents.counts[name] ?? 1
        }
        return Standing(
            limit: limit,
            remaining: max(0, limit - count),
            resetsAt: Date(timeIntervalSince1970: Double(minute + 1) * 60),
            isAllowed: count <= limit
        )
    }
}
