internal import Synchronization
package import SystemIO

/// Limits log lines of one kind to one per interval, and counts those it suppresses.
package final class LogBrake: Sendable {
    private struct State {
        var next: Nanoseconds = 0
        var withheld: UInt64 = 0
    }

    private let state = Mutex(State())
    private let span: Nanoseconds

    /// - Parameter interval: Minimum time between two lines.
    package init(interval: Duration = .seconds(1)) { span = MonotonicClock.span(interval) }

    /// - Parameter now: Monotonic nanoseconds.
    /// - Returns: Lines suppressed since the last one that passed; `nil` if this one is suppressed too.
    package func pass(at now: Nanoseconds = MonotonicClock.now) -> UInt64? {
        state.withLock { state in
            guard now >= state.next else {
                state.withheld += 1
                return nil
            }
            state.next = MonotonicClock.deadline(after: span, since: now)
            defer { state.withheld = 0 }
            return state.withheld
        }
    }
}
