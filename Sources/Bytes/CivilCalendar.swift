/// The Gregorian calendar in UTC, without leap seconds; days are counted from 1970-01-01.
package enum CivilCalendar {
    /// The day of a time in Unix seconds, and the second of that day, 0…86399.
    package static func split(_ unixSeconds: Int64) -> (days: Int64, second: Int) {
        let days = floorDivide(unixSeconds, 86400)
        return (days, Int(unixSeconds - days * 86400))
    }

    /// The day number of a date; `nil` if the month has no such day.
    ///
    /// - Parameters:
    ///   - year: Any. Years before 1582 use the Gregorian calendar, too (proleptic).
    ///   - month: 1…12.
    ///   - day: From 1.
    /// - Returns: Days since 1970-01-01.
    package static func days(year: Int, month: Int, day: Int) -> Int64? {
        guard (1...12).contains(month) else { return nil }
        let isLeap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0
        let lengths = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        guard day >= 1, day <= lengths[month - 1] else { return nil }
        // Years counted from March have the leap day last.
        let shifted = Int64(month <= 2 ? year - 1 : year)
        let era = floorDivide(shifted, 400)
        let yearOfEra = shifted - era * 400
        let dayOfYear = Int64((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1)
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    package static func date(fromDays days: Int64) -> (year: Int, month: Int, day: Int) {
        let shifted = days + 719_468
        let era = floorDivide(shifted, 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = Int(shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9)
        return (
            year: Int(yearOfEra + era * 400) + (month <= 2 ? 1 : 0),
            month: month,
            day: Int(dayOfYear - (153 * shiftedMonth + 2) / 5) + 1
        )
    }

    private static func floorDivide(_ number: Int64, _ divisor: Int64) -> Int64 {
        number >= 0 ? number / divisor : (number - divisor + 1) / divisor
    }
}
