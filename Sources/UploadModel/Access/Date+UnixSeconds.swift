package import Foundation

extension Date {
    /// Whole seconds since 1970, rounded down; clamped to the range of 64 bits.
    package var unixSeconds: Int64 {
        let seconds = timeIntervalSince1970.rounded(.down)
        return Int64(exactly: seconds) ?? (seconds > 0 ? .max : .min)
    }

    /// Whole milliseconds since 1970, rounded down; clamped to the range of 64 bits.
    package var unixMilliseconds: Int64 {
        // Half a microsecond ensures that a date made from milliseconds returns the same milliseconds.
        let milliseconds = (timeIntervalSince1970 * 1000 + 0.0005).rounded(.down)
        return Int64(exactly: milliseconds) ?? (milliseconds > 0 ? .max : .min)
    }
}
