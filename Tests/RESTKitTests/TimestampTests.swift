import Foundation
import Testing

@testable import RESTKit

@Suite("Times in requests", .timeLimit(.minutes(10)))
struct TimestampTests {
    @Test(
        "a time of RFC 3339 is read with its offset, to the millisecond",
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("2025-06-15T15:06:40Z", 1_750_000_000),
            ("2025-06-15t17:06:40+02:00", 1_750_000_000), ("2025-06-15T12:36:40.5-02:30", 1_750_000_000.5),
            ("2025-06-15T15:06:40.123456789z", 1_750_000_000.123), ("2016-12-31T23:59:60Z", 1_483_228_800),
            ("2024-02-29T00:00:00Z", 1_709_164_800),
        ] as [(String, TimeInterval)]
    )
    func read(text: String, seconds: TimeInterval) throws {
        let date = try #require(Timestamp.parse(text))
        #expect(abs(date.timeIntervalSince1970 - seconds) < 0.0001)
    }

    @Test(
        "text that is not a time is refused",
        arguments: [
            "", "now", "1750000000", "2025-06-15", "2025-06-15T15:06:40", "2025-06-15 15:06:40Z",
            "2025-02-29T00:00:00Z",
            "2025-13-01T00:00:00Z", "2025-06-15T24:00:00Z", "2025-06-15T15:60:00Z", "2025-06-15T15:06:61Z",
            "2025-06-15T15:06:40.Z", "2025-06-15T15:06:40+2:00", "2025-06-15T15:06:40+24:00", "٢٠٢٥-06-15T15:06:40Z",
            "2025-06-15T15:06:40Z ", "+025-06-15T15:06:40Z",
        ]
    )
    func refuse(text: String) { #expect(Timestamp.parse(text) == nil) }
}
