import Testing
import UploadCore
import UploadModel

@Suite("Tables of clients and their rates", .timeLimit(.minutes(10)))
struct RateTableTests {
    private static let second: UInt64 = 1_000_000_000
    private static let start: UInt64 = 1_000 * second

    @Test("a full bucket gives its burst, then one token in each interval")
    func bucket() {
        let table = RateTable<Int>(perSecond: 10, burst: 3)
        for _ in 0..<3 { #expect(table.take(1, at: Self.start) == nil) }
        #expect(table.take(1, at: Self.start) == Self.second / 10)
        // A refused request costs nothing.
        #expect(table.take(1, at: Self.start + 1) == Self.second / 10 - 1)
        #expect(table.take(1, at: Self.start + Self.second / 10) == nil)
        #expect(table.take(1, at: Self.start + Self.second / 10) != nil)
        #expect(table.take(2, at: Self.start) == nil)
    }

    @Test("a bucket never holds more than its burst")
    func refill() {
        let table = RateTable<Int>(perSecond: 10, burst: 3)
        for _ in 0..<3 { _ = table.take(1, at: Self.start) }
        let later = Self.start + 3600 * Self.second
        for _ in 0..<3 { #expect(table.take(1, at: later) == nil) }
        #expect(table.take(1, at: later) != nil)
    }

    @Test("charges are paid for by waiting, in the order of the calls")
    func charges() {
        let table = RateTable<Int>(perSecond: 1000, burst: 1000)
        #expect(table.charge(1, 1000, at: Self.start) == 0)
        #expect(table.charge(1, 500, at: Self.start) == Self.second / 2)
        #expect(table.charge(1, 500, at: Self.start) == Self.second)
        #expect(table.charge(2, 500, at: Self.start) == 0)
        #expect(table.charge(1, 0, at: Self.start + Self.second) == 0)
        // Rates that are no divisor of a second's nanoseconds are exact.
        let fast = RateTable<Int>(perSecond: 3_000_000_000, burst: 3_000_000_000)
        #expect(fast.charge(1, 6_000_000_000, at: Self.start) == Self.second)
    }

    @Test("a flood of clients does not grow the table without end")
    func flood() {
        let table = RateTable<Int>(perSecond: 1, burst: 1, generation: 1000)
        for client in 0..<1_000_000 { #expect(table.take(client, at: Self.start) == nil) }
        #expect(table.count <= 2000)
        // The latest are known.
        #expect(table.take(999_999, at: Self.start) != nil)
    }

    @Test("who goes on is not forgotten among clients that come once")
    func kept() {
        let table = RateTable<Int>(perSecond: 1, burst: 1, generation: 10)
        var now = Self.start
        #expect(table.take(-1, at: now) == nil)
        for client in 0..<1000 {
            _ = table.take(client, at: now)
            if client % 5 == 4 {
                #expect(table.take(-1, at: now) != nil)
                now += Self.second
                #expect(table.take(-1, at: now) == nil)
            }
        }
    }

    @Test("only running work counts")
    func running() {
        let table = RunningTable<Int>(maximum: 2)
        #expect(table.begin(1))
        #expect(table.begin(1))
        #expect(!table.begin(1))
        #expect(table.begin(2))
        table.end(1)
        #expect(table.begin(1))
        for client in [1, 1, 2] { table.end(client) }
        #expect(table.count == 0)
    }
}
