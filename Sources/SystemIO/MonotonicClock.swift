internal import Glibc

/// Monotonic time in nanoseconds.
package typealias Nanoseconds = UInt64

package enum MonotonicClock {
    /// Nanoseconds since an arbitrary fixed time.
    package static var now: Nanoseconds {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// `duration` in nanoseconds; `.max` if it is not positive, which means no limit.
    package static func span(_ duration: Duration) -> Nanoseconds {
        guard duration > .zero else { return .max }
        let (seconds, attoseconds) = duration.components
        return adding(UInt64(attoseconds / 1_000_000_000), to: span(seconds: UInt64(seconds)))
    }

    /// `seconds` in nanoseconds; `.max` for more than 584 years.
    package static func span(seconds: UInt64) -> Nanoseconds {
        let (span, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? .max : span
    }

    /// The time `duration` from now; `.max` if `duration` is not positive, which means no limit.
    package static func deadline(after duration: Duration) -> Nanoseconds {
        deadline(after: span(duration), since: now)
    }

    /// The time `span` after `start`.
    package static func deadline(after span: Nanoseconds, since start: Nanoseconds = now) -> Nanoseconds {
        adding(span, to: start)
    }

    private static func adding(_ span: Nanoseconds, to start: Nanoseconds) -> Nanoseconds {
        let (sum, overflow) = start.addingReportingOverflow(span)
        return overflow ? .max : sum
    }
}
