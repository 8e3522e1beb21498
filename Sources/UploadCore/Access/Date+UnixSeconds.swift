package import Foundation

extension Date {
    /// Whole seconds since 1970, rounded down; of a date that 64 bits can not hold, the nearest that they can.
    package var unixSeconds: Int64 {
        let seconds = timeIntervalSince1970.rounded(.down)
        return Int64(exactly: seconds) ?? (seconds > 0 ? .max : .min)
    }
}
