import SluiceTesting
import Foundation
import HTTPWire
import Testing

@Suite("Dates", .timeLimit(.minutes(10)))
struct HTTPDateTests {
    @Test(
        "a date is written as IMF-fixdate (RFC 9110 §5.6.7)",
        arguments: [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"), (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"), (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (2_147_483_648, "Tue, 19 Jan 2038 03:14:08 GMT"), (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (Int64.max, "Fri, 31 Dec 9999 23:59:59 GMT"), (Int64.min, "Sat, 01 Jan 0000 00:00:00 GMT"),
        ] as [(Int64, String)]
    )
    func writes(seconds: Int64, text: String) {
        #expect(HTTPDate.format(seconds) == text)
    }

    @Test(
        "the three formats are parsed (RFC 9110 §5.6.7)",
        arguments: [
            "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        ]
    )
    func readsTheThreeForms(text: String) {
        #expect(HTTPDate.parse(text) == 784_111_777)
    }

    @Test("variants of the formats are parsed")
    func readsDetails() {
        #expect(HTTPDate.parse("Wed Nov 16 08:49:37 1994") == 784_975_777)
        #expect(HTTPDate.parse("Tuesday, 19-Jan-38 03:14:08 GMT") == 2_147_483_648)
        #expect(HTTPDate.parse("Sat, 31 Dec 2016 23:59:60 GMT") == 1_483_228_800)
    }

    @Test(
        "anything else is refused",
        arguments: [
            "", "Sun", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 GMT ",
            "sun, 06 nov 1994 08:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Wed, 29 Feb 2023 08:49:37 GMT",
            "Mon, 29 Feb 2100 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 06 Nox 1994 08:49:37 GMT", "Son, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06 Nov 1994 08:49:37 GMT", "Sun, 06-Nov-94 08:49:37 GMT", "784111777",
            "1994-11-06T08:49:37Z", "Sun Nov 6 08:49:37 1994", "Sun Nov 06 08:49:37 1994 ",
            "Sun, -6 Nov 1994 08:49:37 GMT",
        ]
    )
    func refuses(text: String) {
        #expect(HTTPDate.parse(text) == nil)
    }

    @Test(
        "dates that clients sign may have the zones of mail (RFC 5322 §3.3)",
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Sun, 06 Nov 1994 08:49:37 -0000", 784_111_777),
            ("Sun, 06 Nov 1994 08:49:37 +0000", 784_111_777), ("Sun, 06 Nov 1994 08:49:37 UTC", 784_111_777),
            ("Sun, 06 Nov 1994 16:49:37 +0800", 784_111_777), ("Sun, 06 Nov 1994 05:19:37 -0330", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777), ("Sun, 06 Nov 1994 08:49:37 +000", nil),
            ("Sun, 06 Nov 1994 08:49:37 0000", nil), ("Sun, 06 Nov 1994 08:49:37 +2400", nil),
            ("Sun, 06 Nov 1994 08:49:37 +0060", nil), ("Sun, 06 Nov 1994 08:49:37 EST", nil),
            ("Sun, 06 Nov 1994 08:49:37 +00000", nil), ("Sun, 06 Nov 1994 08:49:37 ", nil), ("", nil), (" +0000", nil),
        ] as [(String, Int64?)]
    )
    func zones(text: String, seconds: Int64?) {
        #expect(HTTPDate.parseZoned(text) == seconds)
    }

    @Test("formatted dates parse to the same time and agree with Foundation's calendar")
    func roundTrip() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(secondsFromGMT: 0))
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<2000 {
            let seconds = Int64.random(in: -10_000_000_000...20_000_000_000, using: &generator)
            let text = HTTPDate.format(seconds)
            #expect(HTTPDate.parse(text) == seconds, "seed \(seed)")
            guard seconds > 0 else { continue }
            let parts = calendar.dateComponents(
                [.year, .month, .day, .hour, .weekday],
                from: Date(timeIntervalSince1970: Double(seconds))
            )
            let weekday = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][try #require(parts.weekday) - 1]
            #expect(text.hasPrefix(weekday), "seed \(seed): \(seconds)")
            #expect(Int(text.dropFirst(5).prefix(2)) == parts.day, "seed \(seed): \(seconds)")
            #expect(Int(text.dropFirst(12).prefix(4)) == parts.year, "seed \(seed): \(seconds)")
            #expect(Int(text.dropFirst(17).prefix(2)) == parts.hour, "seed \(seed): \(seconds)")
        }
    }
}
