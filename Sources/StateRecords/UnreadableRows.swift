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
    /// - Returns: Seconds for which it is put off: 2, 4, 8 … up to an hour; an hour for a row beside too many others.
    package func pause(_ table: String, _ key: String) -> TimeInterval {
        counters[table].increment()
        return attempts.withLock { attempts in
            let name = Name(table: table, key: key)
            guard attempts.count < Self.most || attempts[name] != nil else { return Self.longestPause }
            let count = attempts[name, default: 0] + 1
            attempts[name] = count
            return min(TimeInterval(1 << min(count, 20)), Self.longestPause)
        }
    }
}
