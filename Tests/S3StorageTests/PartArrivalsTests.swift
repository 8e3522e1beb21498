import Bytes
import Synchronization
import Testing
import UploadModel

@testable import S3Storage

@Suite("Requests that hold memory for the rest of their part", .timeLimit(.minutes(10)))
struct PartArrivalsTests {
    private final class Source: ByteSource, Sendable {
        let ends = Mutex<[SourceFailure]>([])

        var remaining: Int64? { nil }
        var interrupter: SourceInterrupter {
            SourceInterrupter { failure in self.ends.withLock { $0.append(failure) } }
        }
        func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? { nil }

        var isEnded: Bool { ends.withLock { $0 == [.timedOut] } }
    }

    private let arrivals = PartArrivals()
    private let start = ContinuousClock.now

    private func after(_ seconds: Double) -> ContinuousClock.Instant { start + .seconds(seconds) }

    private func begin(_ source: Source) -> PartArrivals.Arrival {
        let arrival = arrivals.begin(source)
        arrival.wait(at: start)
        return arrival
    }

    private func add(_ count: Int, to arrival: PartArrivals.Arrival, _ seconds: Double) {
        arrival.add(count, at: after(seconds))
        arrival.wait(at: after(seconds))
    }

    @Test("the one that is slowest by the rate of its last seconds is ended, with a pause between two")
    func slowest() {
        let (fast, silent, dripping) = (Source(), Source(), Source())
        let (one, two, three) = (begin(fast), begin(silent), begin(dripping))
        for arrival in [two, three] { add(5_000_000, to: arrival, 1) }
        for second in 1...30 {
            add(400_000, to: one, Double(second))
            if second % 10 == 0 { one.closePart() }
            add(60, to: three, Double(second))
        }
        #expect(arrivals.endSlowest(at: after(30)))
        #expect(dripping.isEnded && !silent.isEnded)
        for second in 31...36 { add(400_000, to: one, Double(second)) }
        #expect(!arrivals.endSlowest(at: after(30.9)))
        // By now it has sent nothing for a whole window.
        #expect(arrivals.endSlowest(at: after(36)))
        #expect(silent.isEnded)
        #expect(!arrivals.endSlowest(at: after(38)))
        #expect(!fast.isEnded)
        arrivals.end(two)
        arrivals.end(three)
        for second in 37...95 { add(400_000, to: one, Double(second)) }
        #expect(arrivals.endSlowest(at: after(96)))
        #expect(fast.isEnded)
    }

    @Test("a user with more than a share gives way to others sooner")
    func share() {
        let arrivals = PartArrivals(share: 9_000_000)
        let sources = (0..<2).map { _ in Source() }
        let (eve, bob) = (SubjectName("eve"), SubjectName("bob"))
        let held = StorageUser.$current.withValue(eve) { sources.map { arrivals.begin($0) } }
        for arrival in held {
            arrival.wait(at: start)
            add(5_000_000, to: arrival, 1)
        }
        // Half a minute at this rate.
        for second in 2...14 { for arrival in held { add(300_000, to: arrival, Double(second)) } }
        #expect(StorageUser.$current.withValue(eve) { !arrivals.endSlowest(at: after(14)) })
        #expect(StorageUser.$current.withValue(bob) { arrivals.endSlowest(at: after(14)) })
        // What is left is less than a share.
        #expect(StorageUser.$current.withValue(bob) { !arrivals.endSlowest(at: after(16)) })
        #expect(sources.count { $0.isEnded } == 1)
    }

    @Test("nothing is ended that holds nothing, has just begun, waits for the gateway or is over")
    func others() {
        let (idle, new, closed, over, busy) = (Source(), Source(), Source(), Source(), Source())
        _ = begin(idle)
        add(5_000_000, to: begin(new), 1)
        #expect(!arrivals.endSlowest(at: after(9)))
        let waiting = begin(closed)
        add(5_000_000, to: waiting, 1)
        waiting.closePart()
        let ended = begin(over)
        add(5_000_000, to: ended, 1)
        arrivals.end(ended)
        // There is no room for what it has sent.
        let working = begin(busy)
        working.add(5_000_000, at: after(1))
        #expect(arrivals.endSlowest(at: after(61)))
        #expect(new.isEnded)
        #expect(!arrivals.endSlowest(at: after(1000)))
        for source in [idle, closed, over, busy] { #expect(source.ends.withLock { $0.isEmpty }) }
        // The next part of the same request, and what goes on after a long wait for the gateway.
        working.wait(at: after(1000))
        add(1000, to: waiting, 1001)
        #expect(!arrivals.endSlowest(at: after(1003)))
        #expect(arrivals.endSlowest(at: after(1400)))
        #expect(closed.isEnded != busy.isEnded)
        #expect(arrivals.endSlowest(at: after(1402)))
        #expect(closed.isEnded && busy.isEnded)
    }
}
