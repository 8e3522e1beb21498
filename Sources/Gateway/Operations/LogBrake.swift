internal import Synchronization
internal import Transport

/// Lets one line of a kind into the log in a while, and counts the others.
final class LogBrake: Sendable {
    private struct State {
        var next: Nanoseconds = 0
        var withheld: UInt64 = 0
    }

    private let state = Mutex(State())
    private let span: Nanoseconds

    /// - Parameter interval: The least time between two lines.
    init(interval: Duration = .seconds(1)) { span = MonotonicClock.span(interval) }

    /// - Parameter now: Monotonic nanoseconds.
    /// - Returns: How many lines were withheld since the last that passed; `nil` if this one is withheld, too.
    func pass(at now: Nanoseconds = MonotonicClock.now) -> UInt64? {
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
