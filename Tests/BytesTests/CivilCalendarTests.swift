import Bytes
import Foundation
import Testing

@Suite("Calendar", .timeLimit(.minutes(10)))
struct CivilCalendarTests {
    @Test("days match Foundation's calendar in both directions")
    func days() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        // After 1582, where Foundation's calendar is Gregorian.
        for days in stride(from: Int64(-140_000), through: 2_000_000, by: 997) {
            let date = CivilCalendar.date(fromDays: days)
            let parts = calendar.dateComponents(
                [.year, .month, .day],
                from: Date(timeIntervalSince1970: Double(days) * 86400)
            )
            #expect(date.year == parts.year && date.month == parts.month && date.day == parts.day)
            #expect(CivilCalendar.days(year: date.year, month: date.month, day: date.day) == days)
        }
    }

    @Test(
        "days that do not exist are refused",
        arguments: [(2023, 2, 29), (1900, 2, 29), (2024, 4, 31), (2024, 13, 1), (2024, 0, 1), (2024, 1, 0)]
    )
    func noDays(_ year: Int, _ month: Int, _ day: Int) {
        #expect(CivilCalendar.days(year: year, month: month, day: day) == nil)
    }

    @Test("times before 1970 belong to the right day")
    func moments() {
        #expect(CivilCalendar.split(-1) == (-1, 86399))
        #expect(CivilCalendar.split(86400) == (1, 0))
    }
}
