internal import Bytes

/// Times in the formats of signatures.
package enum SigningTime {
    /// `YYYYMMDD'T'HHMMSS'Z'`, 16 characters; years are clamped to 0000…9999.
    static func format(_ unixSeconds: Int64) -> String {
        let (day, time) = parts(unixSeconds)
        return day.joined() + "T" + time.joined() + "Z"
    }

    /// `YYYY-MM-DD'T'HH:MM:SS'Z'`, 20 characters; years are clamped to 0000…9999.
    static func formatExtended(_ unixSeconds: Int64) -> String {
        let (day, time) = parts(unixSeconds)
        return day.joined(separator: "-") + "T" + time.joined(separator: ":") + "Z"
    }

    /// `YYYY-MM-DD`.
    static func day(_ unixSeconds: Int64) -> String { parts(unixSeconds).day.joined(separator: "-") }

    /// Parses `YYYYMMDD'T'HHMMSS'Z'` into Unix seconds; `nil` for anything else or a time that does not exist.
    package static func parse(_ text: some StringProtocol) -> Int64? {
        let bytes = Array(text.utf8)
        guard bytes.count == 16, bytes[8] == UInt8(ascii: "T"), bytes[15] == UInt8(ascii: "Z") else { return nil }
        return moment(Array(bytes[0..<8] + bytes[9..<15]))
    }

    /// Parses `YYYY-MM-DD'T'HH:MM:SS[.fraction]'Z'` into Unix seconds; `nil` for anything else or a time that does not
    /// exist.
    ///
    /// The fraction, up to nine digits, is ignored.
    static func parseExtended(_ text: some StringProtocol) -> Int64? {
        var bytes = Array(text.utf8)
        guard (20...30).contains(bytes.count), bytes.removeLast() == UInt8(ascii: "Z") else { return nil }
        if bytes.count > 19 {
            guard bytes[19] == UInt8(ascii: "."), bytes.count > 20, number(bytes[20...]) != nil else { return nil }
        }
        let separators: [(Int, UInt8)] = [
            (4, UInt8(ascii: "-")), (7, UInt8(ascii: "-")), (10, UInt8(ascii: "T")), (13, UInt8(ascii: ":")),
            (16, UInt8(ascii: ":")),
        ]
        guard separators.allSatisfy({ bytes[$0.0] == $0.1 }) else { return nil }
        return moment(bytes[0..<4] + bytes[5..<7] + bytes[8..<10] + bytes[11..<13] + bytes[14..<16] + bytes[17..<19])
    }

    /// Parses 14 digits from the year to the second.
    private static func moment(_ digits: some Collection<UInt8>) -> Int64? {
        let digits = Array(digits)
        guard let year = number(digits[0..<4]), let month = number(digits[4..<6]), let day = number(digits[6..<8]),
            let hour = number(digits[8..<10]), let minute = number(digits[10..<12]),
            let second = number(digits[12..<14]),
            hour < 24, minute < 60, second < 60,
            let days = CivilCalendar.days(year: year, month: month, day: day)
        else { return nil }
        return days * 86400 + Int64(hour * 3600 + minute * 60 + second)
    }

    private static func parts(_ unixSeconds: Int64) -> (day: [String], time: [String]) {
        let (days, second) = CivilCalendar.split(min(max(unixSeconds, -62_167_219_200), 253_402_300_799))
        let date = CivilCalendar.date(fromDays: days)
        return (
            [digits(date.year, 4), digits(date.month, 2), digits(date.day, 2)],
            [digits(second / 3600, 2), digits(second / 60 % 60, 2), digits(second % 60, 2)]
        )
    }

    private static func digits(_ number: Int, _ count: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: Swift.max(0, count - digits.utf8.count)) + digits
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        return digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
    }
}
