import Testing

@testable import Telemetry

@Suite("log lines that clients cause", .timeLimit(.minutes(10)))
struct LogBrakeTests {
    @Test("one line passes per interval, and the next counts the others")
    func brake() {
        let brake = LogBrake(interval: .seconds(1))
        let second: UInt64 = 1_000_000_000
        #expect(brake.pass(at: 5 * second) == 0)
        for _ in 0..<7 { #expect(brake.pass(at: 6 * second - 1) == nil) }
        #expect(brake.pass(at: 6 * second) == 7)
        #expect(brake.pass(at: 7 * second) == 0)
    }
}
