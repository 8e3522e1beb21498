import Synchronization
import SystemIO
import Testing
import UploadCore
import UploadModel

@Suite("What requests owe for their bytes", .timeLimit(.minutes(10)))
struct RequestMeterTests {
    private static let second: UInt64 = 1_000_000_000

    private static func limits<Client>(
        _ kind: RateRefusal.Client,
        bytesPerSecond: Int64 = 0
    ) -> ClientLimits<Client> {
        var rates = ClientRates()
        rates.bytesPerSecond = bytesPerSecond
        return ClientLimits(kind, rates)
    }

    private struct Rates {
        var addresses: ClientLimits<Int> = limits(.address)
        var keys: ClientLimits<String> = limits(.key)
        var subjects: ClientLimits<SubjectName> = limits(.subject)

        func meter(isStopping: @escaping @Sendable () -> Bool = { false }) -> RequestMeter {
            RequestMeter(
                keys: keys,
                subjects: subjects,
                pacer: addresses.pacer(of: 1),
                bringsContent: true,
                isStopping: isStopping
            )
        }
    }

    private static func identify(_ meter: RequestMeter, key: String?, subject: String?) throws {
        try RequestMeter.$current.withValue(meter) { try RequestMeter.identify(key: key, subject: subject) }
    }

    @Test(
        "small contents, one after the other and at once, keep to the rate and one second's burst",
        arguments: [1, 8]
    )
    func smallContents(connections: Int) async throws {
        let rates = Rates(subjects: Self.limits(.subject, bytesPerSecond: 10_000))
        let begin = MonotonicClock.now
        try await withThrowingTaskGroup { group in
            for _ in 0..<connections {
                group.addTask {
                    for _ in 0..<(240 / connections) {
                        let meter = rates.meter()
                        try Self.identify(meter, key: "k", subject: "anna")
                        _ = await meter.turn()
                        meter.took(100)
                        await meter.settle()
                        meter.end()
                    }
                }
            }
            try await group.waitForAll()
        }
        // 24,000 bytes, of which one second's come at once.
        #expect(MonotonicClock.now - begin >= Self.second * 14 / 10 - 1_000_000)
    }

    @Test("a request without content counts from when it waits for somebody else, until it ends")
    func held() throws {
        var rates = ClientRates()
        rates.uploads = 1
        let (keys, subjects) = (ClientLimits<String>(.key, rates), ClientLimits<SubjectName>(.subject, rates))
        func meter(bringsContent: Bool = false) throws -> RequestMeter {
            let meter = RequestMeter(keys: keys, subjects: subjects, pacer: nil, bringsContent: bringsContent)
            try Self.identify(meter, key: nil, subject: "anna")
            return meter
        }
        func hold(_ meter: RequestMeter) throws {
            try RequestMeter.$current.withValue(meter) { try RequestMeter.hold() }
        }
        let (first, second) = (try meter(), try meter())
        try hold(first)
        try hold(first)
        #expect(throws: UploadError.self) { try hold(second) }
        #expect(throws: UploadError.self) { _ = try meter(bringsContent: true) }
        second.end()
        #expect(throws: UploadError.self) { try hold(try meter()) }
        first.end()
        let third = try meter(bringsContent: true)
        try hold(third)
        #expect(throws: UploadError.self) { try hold(try meter()) }
        third.end()
        try hold(try meter())
        try RequestMeter.hold()
    }

    @Test("who comes to a rate that owes waits before the first byte")
    func debt() throws {
        let rates = Rates(addresses: Self.limits(.address, bytesPerSecond: 1000))
        let first = rates.meter()
        #expect(!first.delays(100))
        first.took(100_000)
        #expect(first.delays(1))
        #expect(rates.meter().delays(1))
        // A content above one slice waits too.
        #expect(Rates(addresses: Self.limits(.address, bytesPerSecond: 1000)).meter().delays(1025))
        #expect(!Rates().meter().delays(.max))
    }

    @Test("bytes that are taken before the client is known count for it")
    func unknown() throws {
        let rates = Rates(
            keys: Self.limits(.key, bytesPerSecond: 1_000_000),
            subjects: Self.limits(.subject, bytesPerSecond: 16_000)
        )
        let meter = rates.meter()
        // The smallest rate that may apply.
        #expect(meter.slice == 2000)
        meter.took(2000)
        try Self.identify(meter, key: "k", subject: nil)
        #expect(meter.slice == 125_000)
        meter.took(18_000)
        #expect(!meter.delays(1))
        try Self.identify(meter, key: "k", subject: "anna")
        #expect(meter.slice == 2000)
        #expect(meter.delays(1))
    }

    @Test("of a rate that owes more than a second, less is taken at once")
    func crowded() throws {
        let rates = Rates(addresses: Self.limits(.address, bytesPerSecond: 800_000))
        let meter = rates.meter()
        #expect(meter.slice == 100_000)
        meter.took(3_000_000)
        #expect(meter.slice == 6250)
        #expect(rates.meter().slice == 6250)
        // Never less than 1 KiB.
        let slow = Rates(addresses: Self.limits(.address, bytesPerSecond: 1000)).meter()
        slow.took(10_000)
        #expect(slow.slice == 1024)
    }

    @Test("no wait outlives a shutdown, and none before content an interruption")
    func ends() async {
        let rates = Rates(addresses: Self.limits(.address, bytesPerSecond: 1))
        let stopping = rates.meter { true }
        stopping.took(100_000)
        #expect(await stopping.turn() > 0)
        await stopping.settle()
        let interrupted = rates.meter()
        interrupted.interrupt()
        #expect(await interrupted.turn() > 0)
    }

    @Test("small pieces have as much of a shared rate as large ones: no wait before the turn is used up")
    func pieces() async {
        let waits = Mutex(0)
        let rates = Rates(addresses: Self.limits(.address, bytesPerSecond: 1000))
        let meter = rates.meter {
            waits.withLock { $0 += 1 }
            return true
        }
        #expect(await meter.turn() == 1024)
        rates.meter().took(100_000)
        for left in stride(from: Int64(1023), to: 0, by: -1) {
            meter.took(1)
            #expect(await meter.turn() == left)
        }
        #expect(waits.withLock { $0 } == 0)
        meter.took(1)
        #expect(await meter.turn() == 1024)
        #expect(waits.withLock { $0 } == 1)
    }

    @Test("who is known in the middle of a turn owes for it before the next byte")
    func knownLater() async throws {
        let waits = Mutex(0)
        let rates = Rates(
            addresses: Self.limits(.address, bytesPerSecond: 1_000_000),
            subjects: Self.limits(.subject, bytesPerSecond: 8000)
        )
        let other = rates.meter()
        try Self.identify(other, key: "k", subject: "anna")
        other.took(100_000)
        let meter = rates.meter {
            waits.withLock { $0 += 1 }
            return true
        }
        #expect(await meter.turn() == 1024)
        meter.took(1)
        try Self.identify(meter, key: "k", subject: "anna")
        _ = await meter.turn()
        #expect(waits.withLock { $0 } == 1)
    }

    @Test("without a rate nothing is counted")
    func unlimited() async throws {
        let meter = Rates().meter()
        #expect(!meter.isPaced)
        #expect(meter.slice == .max)
        meter.took(1 << 40)
        await meter.settle()
    }
}
