package import CoreMetrics
internal import Synchronization

/// Histograms of durations of one name for two labels whose values are known only when something is measured; each is
/// made when it is first used.
///
/// Later uses cost one look-up. The number of values must be bounded: no client may choose them.
package final class TimerTable: Sendable {
    private struct Key: Hashable {
        var first: String
        var second: String
    }

    private let timers = Mutex<[Key: Timer]>([:])
    private let make: @Sendable (String, String) -> Timer

    init(_ make: @escaping @Sendable (String, String) -> Timer) { self.make = make }

    /// The histogram for the values of both labels.
    package subscript(first: String, second: String) -> Timer {
        let key = Key(first: first, second: second)
        return timers.withLock { timers in
            if let timer = timers[key] { return timer }
            let timer = make(first, second)
            timers[key] = timer
            return timer
        }
    }
}
