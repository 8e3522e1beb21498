internal import Glibc

/// A system call that failed.
package struct SystemError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The name of the call, such as `bind`.
    package let call: String
    package let errno: Int32

    package init(_ call: String, errno: Int32) {
        self.call = call
        self.errno = errno
    }

    package var description: String { "\(call): \(reason)" }

    /// The text of `errno`, such as `Too many open files`.
    package var reason: String { String(cString: strerror(errno)) }

    /// Repeats the call while a signal interrupts it; throws for any other negative result.
    @discardableResult
    package static func check<Result: SignedInteger>(
        _ call: String,
        _ body: () -> Result
    ) throws(SystemError) -> Result {
        while true {
            let result = body()
            if result >= 0 { return result }
            let code = Glibc.errno
            if code != EINTR { throw SystemError(call, errno: code) }
        }
    }
}

/// The result of a call on a non-blocking descriptor.
package enum IOResult: Equatable, Sendable {
    /// Moved this many bytes, at least 1.
    case moved(Int)
    /// Nothing to read, or no room to write: wait for readiness.
    case wouldBlockReading
    case wouldBlockWriting
    /// The peer will send nothing more.
    case ended
    case failed(errno: Int32)
}

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
