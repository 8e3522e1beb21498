package import Foundation

extension Date {
    /// Whole seconds since 1970, rounded down; of a date that 64 bits can not hold, the nearest that they can.
    package var unixSeconds: Int64 {
        let seconds = timeIntervalSince1970.rounded(.down)
        return Int64(exactly: seconds) ?? (seconds > 0 ? .max : .min)
    }

    /// Whole milliseconds since 1970, rounded down; of a date that 64 bits can not hold, the nearest that they can.
    package var unixMilliseconds: Int64 {
        // Half a microsecond: a date made from milliseconds must give the same milliseconds back.
        let milliseconds = (timeIntervalSince1970 * 1000 + 0.0005).rounded(.down)
        return Int64(exactly: milliseconds) ?? (milliseconds > 0 ? .max : .min)
    }
}
