#if canImport(Glibc)
internal import Glibc
#endif

/// A histogram of durations whose observations can name their traces.
///
/// The same value as that of a `Timer` with its name and labels.
package struct DurationHistogram: Sendable {
    private let value: HistogramValue

    init(_ value: HistogramValue) { self.value = value }

    /// Measuring is two atomic additions, without a trace.
    ///
    /// - Parameters:
    ///   - duration: The observation.
    ///   - trace: Its trace, if that is sampled.
    package func record(_ duration: Duration, in trace: @autoclosure () -> ExemplarTrace? = nil) {
        let (seconds, attoseconds) = duration.components
        let value = Double(seconds) + Double(attoseconds) / 1e18
        if let trace = trace() {
            self.value.record(value, in: Exemplar(trace: trace, value: value, time: Self.now))
        } else {
            self.value.record(value)
        }
    }

    private static var now: Double {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec / 1_000_000) / 1000
    }
}
