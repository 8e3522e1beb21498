internal import Bytes

/// HTTP dates (RFC 9110 §5.6.7) as Unix seconds.
package enum HTTPDate {
    /// IMF-fixdate, such as `Sun, 06 Nov 1994 08:49:37 GMT`; years are clamped to 0000…9999.
    package static func format(_ unixSeconds: Int64) -> String {
        let seconds = min(max(unixSeconds, -62_167_219_200), 253_402_300_799)
        let (days, second) = CivilCalendar.split(seconds)
        let date = CivilCalendar.date(fromDays: days)
        // 1970-01-01 was a Thursday.
        let weekday = Int((days % 7 + 11) % 7)
        var output: [UInt8] = []
        output.reserveCapacity(29)
        output.append(contentsOf: weekdays[weekday].utf8.prefix(3))
        output.append(contentsOf: ", ".utf8)
        append(date.day, digits: 2, to: &output)
        output.append(UInt8(ascii: " "))
        output.append(contentsOf: months[date.month - 1].utf8)
        output.append(UInt8(ascii: " "))
        append(date.year, digits: 4, to: &output)
        output.append(UInt8(ascii: " "))
        append(second / 3600, digits: 2, to: &output)
        output.append(UInt8(ascii: ":"))
        append(second / 60 % 60, digits: 2, to: &output)
        output.append(UInt8(ascii: ":"))
        append(second % 60, digits: 2, to: &output)
        output.append(contentsOf: " GMT".utf8)
        return String(decoding: output, as: UTF8.self)
    }

    /// Parses IMF-fixdate, the RFC 850 format and the asctime format; `nil` for anything else.
    ///
    /// Two-digit years from 70 mean the 20th century, smaller ones the 21st. The name of the weekday must be valid, but
    /// it is not compared with the date.
    package static func parse(_ text: some StringProtocol) -> Int64? {
        var scanner = Scanner(rest: Array(text.utf8)[...])
        guard let weekday = scanner.letters() else { return nil }
        if scanner.accept(",") {
            guard scanner.accept(" ") else { return nil }
            if let name = weekdays.first(where: { $0.utf8.prefix(3).elementsEqual(weekday.utf8) }), name.utf8.count > 3
            {
                return fixdate(&scanner)
            }
            return weekdays.contains(weekday) ? rfc850(&scanner) : nil
        }
        guard weekdays.contains(where: { $0.utf8.prefix(3).elementsEqual(weekday.utf8) }), scanner.accept(" ") else {
            return nil
        }
        return asctime(&scanner)
    }

    /// As `parse`, but also with another zone than GMT, as dates in mail have it: `-0000`, `+0800`, `UT`, `UTC` (RFC 5322
    /// §3.3).
    ///
    /// For dates that clients sign: `date -R` and botocore write such.
    package static func parseZoned(_ text: String) -> Int64? {
        if let date = parse(text) { return date }
        guard let space = text.utf8.lastIndex(of: UInt8(ascii: " ")) else { return nil }
        guard let offset = offset(Array(text.utf8[space...].dropFirst())) else { return nil }
        return parse(text[..<space] + " GMT").map { $0 - offset }
    }

    /// The seconds by which a zone is ahead of GMT.
    private static func offset(_ zone: [UInt8]) -> Int64? {
        if zone == Array("UT".utf8) || zone == Array("UTC".utf8) { return 0 }
        var scanner = Scanner(rest: zone[...])
        let isAhead = scanner.accept("+")
        guard isAhead || scanner.accept("-"), let hours = scanner.digits(2), let minutes = scanner.digits(2),
            scanner.isAtEnd, hours < 24, minutes < 60
        else { return nil }
        return Int64(isAhead ? 1 : -1) * Int64(hours * 3600 + minutes * 60)
    }

    // MARK: The three forms

    private static func fixdate(_ scanner: inout Scanner) -> Int64? {
        guard let day = scanner.digits(2), scanner.accept(" "), let month = scanner.month(), scanner.accept(" "),
            let year = scanner.digits(4), scanner.accept(" "), let time = scanner.time(), scanner.accept(" "),
            scanner.accept("GMT"), scanner.isAtEnd
        else { return nil }
        return seconds(year: year, month: month, day: day, time: time)
    }

    private static func rfc850(_ scanner: inout Scanner) -> Int64? {
        guard let day = scanner.digits(2), scanner.accept("-"), let month = scanner.month(), scanner.accept("-"),
            let year = scanner.digits(2), scanner.accept(" "), let time = scanner.time(), scanner.accept(" "),
            scanner.accept("GMT"), scanner.isAtEnd
        else { return nil }
        return seconds(year: year < 70 ? 2000 + year : 1900 + year, month: month, day: day, time: time)
    }

    private static func asctime(_ scanner: inout Scanner) -> Int64? {
        guard let month = scanner.month(), scanner.accept(" "),
            let day = scanner.accept(" ") ? scanner.digits(1) : scanner.digits(2), scanner.accept(" "),
            let time = scanner.time(), scanner.accept(" "), let year = scanner.digits(4), scanner.isAtEnd
        else { return nil }
        return seconds(year: year, month: month, day: day, time: time)
    }

    private struct Scanner {
        var rest: ArraySlice<UInt8>

        var isAtEnd: Bool { rest.isEmpty }

        mutating func accept(_ text: String) -> Bool {
            guard rest.starts(with: text.utf8) else { return false }
            rest.removeFirst(text.utf8.count)
            return true
        }

        mutating func letters() -> String? {
            let letters = rest.prefix { $0 | 0x20 >= UInt8(ascii: "a") && $0 | 0x20 <= UInt8(ascii: "z") }
            guard !letters.isEmpty else { return nil }
            rest.removeFirst(letters.count)
            return String(decoding: letters, as: UTF8.self)
        }

        mutating func digits(_ count: Int) -> Int? {
            let digits = rest.prefix(count)
            guard digits.count == count, digits.allSatisfy(HTTPCharacters.isDigit) else { return nil }
            rest.removeFirst(count)
            return digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        }

        /// 1…12.
        mutating func month() -> Int? {
            guard let name = letters(), let index = months.firstIndex(of: name) else { return nil }
            return index + 1
        }

        /// Seconds since midnight; a leap second counts as the first of the next minute.
        mutating func time() -> Int? {
            guard let hour = digits(2), accept(":"), let minute = digits(2), accept(":"), let second = digits(2),
                hour < 24, minute < 60, second <= 60
            else { return nil }
            return hour * 3600 + minute * 60 + second
        }
    }

    // MARK: Calendar

    private static let weekdays = [
        "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
    ]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static func append(_ number: Int, digits: Int, to output: inout [UInt8]) {
        var divisor = 1
        for _ in 1..<digits { divisor *= 10 }
        while divisor > 0 {
            output.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
    }

    private static func seconds(year: Int, month: Int, day: Int, time: Int) -> Int64? {
        CivilCalendar.days(year: year, month: month, day: day).map { $0 * 86400 + Int64(time) }
    }
}
