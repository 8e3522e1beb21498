package import Foundation

/// Times in requests.
package enum Timestamp {
    /// A date and time with its offset (RFC 3339 §5.6), to the millisecond; `nil` for anything else.
    package static func parse(_ text: String) -> Date? {
        let pattern = /(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))/
            .asciiOnlyDigits()
        guard let match = text.wholeMatch(of: pattern)?.output else { return nil }
        var components = DateComponents(calendar: calendar, timeZone: .gmt)
        let numbers = [match.1, match.2, match.3, match.4, match.5, match.6].compactMap { Int($0) }
        guard numbers.count == 6, numbers[5] <= 60 else { return nil }
        (components.year, components.month, components.day) = (numbers[0], numbers[1], numbers[2])
        (components.hour, components.minute, components.second) = (numbers[3], numbers[4], min(numbers[5], 59))
        guard components.isValidDate, let date = components.date else { return nil }
        var seconds = numbers[5] == 60 ? 1.0 : 0
        if let digits = match.7, let fraction = Int((digits + "000").prefix(3)) { seconds += Double(fraction) / 1000 }
        if let sign = match.8, let hours = match.9.flatMap({ Int($0) }), let minutes = match.10.flatMap({ Int($0) }) {
            guard hours < 24, minutes < 60 else { return nil }
            seconds -= Double(hours * 3600 + minutes * 60) * (sign == "-" ? -1 : 1)
        }
        return date.addingTimeInterval(seconds)
    }

    private static let calendar = Calendar(identifier: .gregorian)
}
