import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Progress meter", .timeLimit(.minutes(10)))
struct ProgressMeterTests {
    private let start = ContinuousClock.now

    /// Adds one sample per second, starting after the first second.
    private func meter(_ bytes: [Int64], every step: Duration = .seconds(1)) -> ProgressMeter {
        var meter = ProgressMeter(offset: 0, at: start)
        var offset: Int64 = 0
        for (index, count) in bytes.enumerated() {
            offset += count
            meter.see(offset, at: start + step * (index + 1))
        }
        return meter
    }

    @Test("a constant rate is reported from the second sample on, however often it is sampled")
    func even() {
        #expect(meter([]).bytesPerSecond == 0)
        for looks in 1...20 {
            #expect(abs(meter(Array(repeating: 1000, count: looks)).bytesPerSecond - 1000) <= 1)
            let often = meter(Array(repeating: 100, count: looks), every: .milliseconds(100))
            #expect(abs(often.bytesPerSecond - 1000) <= 1)
        }
    }

    @Test("a burst has little weight, and a change shows within seconds")
    func smooth() {
        var bytes = Array(repeating: Int64(1000), count: 10)
        let burst = meter(bytes + [4000]).bytesPerSecond
        #expect(burst > 1000 && burst < 2000)
        bytes += Array(repeating: 3000, count: 10)
        #expect(meter(bytes).bytesPerSecond > 2900)
    }

    @Test("a stalled upload has no rate, and starts again")
    func standstill() {
        let quiet = Array(repeating: Int64(0), count: 5)
        #expect(meter([1000] + quiet.dropLast()).bytesPerSecond > 0)
        let still = meter([1000] + quiet)
        #expect(still.bytesPerSecond == 0)
        #expect(still.secondsLeft(until: 5000) == nil)
        #expect(meter([1000] + quiet + [500]).bytesPerSecond == 500)
    }

    @Test("removed bytes do not affect the rate, nor does a sample at the same time")
    func takenBack() {
        var meter = meter([1000, 1000])
        meter.see(500, at: start + .seconds(3))
        #expect(meter.offset == 500)
        #expect(abs(meter.bytesPerSecond - 1000) <= 1)
        meter.see(900, at: start + .seconds(3))
        #expect(meter.offset == 500)
        meter.see(1500, at: start + .seconds(4))
        #expect(abs(meter.bytesPerSecond - 1000) <= 1)
    }

    @Test(
        "the seconds left are rounded up",
        arguments: [(1000, 0), (1001, 1), (2000, 1), (2001, 2), (500, 0), (11_000, 10)] as [(Int64, Int64)]
    )
    func left(length: Int64, seconds: Int64) {
        var meter = ProgressMeter(offset: 0, at: start)
        meter.see(1000, at: start + .seconds(1))
        #expect(meter.bytesPerSecond == 1000)
        #expect(meter.secondsLeft(until: length) == seconds)
    }
}
