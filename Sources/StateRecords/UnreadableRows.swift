internal import CoreMetrics
package import Foundation
package import MetricsKit
internal import Synchronization

/// Rows of work that cannot be read: each is put off ever longer, so that it keeps no others from being claimed.
///
/// Kept in memory, by each node: after a restart all are tried at once.
package final class UnreadableRows: Sendable {
    private struct Name: Hashable {
        let table: String
        let key: String
    }

    private static let longestPause: TimeInterval = 3600
    /// Of rows that are remembered.
    private static let most = 10_000

    private let attempts = Mutex<[Name: Int]>([:])
    private let counters: CounterTable

    package init(_ metrics: MetricsRegistry) {
        counters = metrics.counters(
            "sluice_state_unreadable_rows_total",
            "Events and pulls that were due and could not be read; each is tried again within an hour.",
            by: "table"
        )
    }

    /// Counts a row that could not be read.
    ///
    /// - Returns: Seconds for which it is put off: 2, 4, 8 … up to an hour.
    package func pause(_ table: String, _ key: String) -> TimeInterval {
        counters[table].increment()
        return attempts.withLock { attempts in
            if attempts.count >= Self.most { attempts = [:] }
            let count = attempts[Name(table: table, key: key), default: 0] + 1
            attempts[Name(table: table, key: key)] = count
            return min(TimeInterval(1 << min(count, 20)), Self.longestPause)
        }
    }
}
