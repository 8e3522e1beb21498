import Synchronization
import SystemIO
import Testing

@Suite("Values that were used a moment ago", .timeLimit(.minutes(10)))
struct RecentTableTests {
    /// Says when it is released.
    private final class Value: Sendable {
        let number: Int
        let onRelease: @Sendable (Int) -> Void

        init(_ number: Int, _ onRelease: @escaping @Sendable (Int) -> Void = { _ in }) {
            self.number = number
            self.onRelease = onRelease
        }

        deinit { onRelease(number) }
    }

    private final class Log: Sendable {
        private let numbers = Mutex<[Int]>([])
        var all: [Int] { numbers.withLock { $0 } }
        func note(_ number: Int) { numbers.withLock { $0.append(number) } }
    }

    @Test("a value is taken once")
    func take() {
        let table = RecentTable<String, Int>(RecentLimits(most: 4, age: .seconds(600)))
        #expect(table.take("a") == nil)
        table.put("a", 1)
        table.put("b", 2)
        table.put("a", 3)
        #expect(table.count == 2)
        #expect(table.take("a") == 3)
        #expect(table.take("a") == nil)
        #expect(table.count == 1)
        table.removeAll()
        #expect(table.take("b") == nil)
        table.put("b", 4)
        #expect(table.take("b") == 4)
    }

    @Test("the value that was put longest ago is dropped first, however often others are taken", arguments: [1, 3, 50])
    func most(most: Int) {
        let log = Log()
        let table = RecentTable<Int, Value>(RecentLimits(most: most, age: .seconds(600)))
        for number in 0..<most { table.put(number, Value(number, log.note)) }
        for _ in 0..<500 {
            // The first one is now the newest.
            let value = table.take(0)
            #expect(value?.number == 0)
            if let value { table.put(0, value) }
        }
        #expect(log.all == [])
        for number in most..<2 * most { table.put(number, Value(number, log.note)) }
        #expect(table.count == most)
        #expect(log.all == Array(1..<most) + [0])
        #expect(table.take(0) == nil)
        #expect(table.take(2 * most - 1)?.number == 2 * most - 1)
    }

    @Test("what comes and goes while another value stays takes no more room")
    func churn() {
        let table = RecentTable<Int, Int>(RecentLimits(most: 10, age: .seconds(600)))
        table.put(0, 0)
        for round in 1...10_000 {
            table.put(1, round)
            #expect(table.take(1) == round)
            #expect(table.places <= 70)
        }
        #expect(table.take(0) == 0)
    }

    @Test("a table for none keeps none")
    func none() {
        let table = RecentTable<Int, Int>(.none)
        table.put(1, 1)
        #expect(table.count == 0)
        #expect(table.take(1) == nil)
    }

    @Test("old values are dropped without any call, and new ones after that, too")
    func age() async throws {
        let table = RecentTable<Int, Int>(RecentLimits(most: 10, age: .milliseconds(20)))
        for round in 0..<3 {
            table.put(round, 1)
            table.put(10 + round, 1)
            // Ends: the values become old.
            while table.count > 0 { try await Task.sleep(for: .milliseconds(5)) }
            #expect(table.take(round) == nil)
        }
    }

    @Test("the table ends with its last user, and so do its values")
    func end() async throws {
        let log = Log()
        var table: RecentTable<Int, Value>? = RecentTable(RecentLimits(most: 10, age: .milliseconds(20)))
        table?.put(1, Value(1, log.note))
        table = nil
        // Ends: at the latest when the task that ages the table looks for it.
        while log.all.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        #expect(log.all == [1])
    }
}
