internal import Bytes

/// What a signing key is good for: one day, one region, one service.
package struct SigV4Scope: Sendable, Hashable {
    /// `YYYYMMDD`, UTC.
    package let day: String
    package let region: String
    package let service: String

    static let terminator = "aws4_request"

    /// The credential scope.
    package var text: String { "\(day)/\(region)/\(service)/\(Self.terminator)" }
}

/// Moments as signatures have them: `YYYYMMDD'T'HHMMSS'Z'`.
enum SigV4Time {
    /// 16 characters; years outside 0000…9999 are set to the nearest of these.
    static func format(_ unixSeconds: Int64) -> String {
        let (days, second) = CivilCalendar.split(min(max(unixSeconds, -62_167_219_200), 253_402_300_799))
        let date = CivilCalendar.date(fromDays: days)
        let day = digits(date.year, 4) + digits(date.month, 2) + digits(date.day, 2)
        return day + "T" + digits(second / 3600, 2) + digits(second / 60 % 60, 2) + digits(second % 60, 2) + "Z"
    }

    /// Unix seconds; `nil` for anything but the form above and a moment that exists.
    static func parse(_ text: some StringProtocol) -> Int64? {
        let bytes = Array(text.utf8)
        guard bytes.count == 16, bytes[8] == UInt8(ascii: "T"), bytes[15] == UInt8(ascii: "Z"),
            let year = number(bytes[0..<4]), let month = number(bytes[4..<6]), let day = number(bytes[6..<8]),
            let hour = number(bytes[9..<11]), let minute = number(bytes[11..<13]), let second = number(bytes[13..<15]),
            hour < 24, minute < 60, second < 60,
            let days = CivilCalendar.days(year: year, month: month, day: day)
        else { return nil }
        return days * 86400 + Int64(hour * 3600 + minute * 60 + second)
    }

    private static func digits(_ number: Int, _ count: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        return digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
    }
}
