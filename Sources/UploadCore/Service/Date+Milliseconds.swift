internal import Foundation

extension Date {
    /// This time without the part of a millisecond, as a state store keeps it.
    var wholeMilliseconds: Date {
        // Half a microsecond: a date made from milliseconds must stay what it is.
        Date(timeIntervalSince1970: (timeIntervalSince1970 * 1000 + 0.0005).rounded(.down) / 1000)
    }
}
