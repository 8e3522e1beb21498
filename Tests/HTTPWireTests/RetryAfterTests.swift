import HTTPWire
import Testing

@Suite("Retry-After", .timeLimit(.minutes(10)))
struct RetryAfterTests {
    @Test("seconds and dates are read, as finite numbers that are not negative")
    func forms() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        let expected: [(String?, Double?)] = [
            (nil, nil), ("", nil), ("0", 0), ("120", 120), ("99999999999999999999", 4_294_967_295), (date, 37),
            ("Sun, 06 Nov 1994 08:48:37 GMT", 0), ("-1", nil), ("+5", nil), ("1.5", nil), ("1e3", nil), ("0x1p3", nil),
            ("nan", nil), ("inf", nil), ("-inf", nil), ("infinity", nil), (" 5", nil), ("soon", nil),
        ]
        for (field, seconds) in expected {
            #expect(RetryAfter.seconds(field, at: 784_111_740) == seconds, "\(field ?? "none")")
        }
    }
}
