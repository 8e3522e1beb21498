package import Foundation

extension Date {
    /// This time rounded down to whole milliseconds, as a state store keeps it.
    package var wholeMilliseconds: Date {
        // Half a microsecond keeps a date that was made from milliseconds unchanged.
        Date(timeIntervalSince1970: (timeIntervalSince1970 * 1000 + 0.0005).rounded(.down) / 1000)
    }
}
