import Foundation
import SystemIO
import Synchronization
import Testing

@Suite("Blocking pool")
struct BlockingPoolTests {
    /// Lets jobs go on when as many have arrived as are expected.
    private final class Barrier: Sendable {
        private let missing: Mutex<Int>
        private let all = DispatchSemaphore(value: 0)

        init(_ count: Int) { missing = Mutex(count) }

        func wait() {
            let isLast = missing.withLock { missing in
                missing -= 1
                return missing == 0
            }
            if !isLast { all.wait() }
            // Each lets the next one go on.
            all.signal()
        }
    }

    private final class Counter: Sendable {
        private let contents = Mutex(0)

        var count: Int { contents.withLock { $0 } }

        func add() { contents.withLock { $0 += 1 } }
    }

    @Test("as many jobs run at the same time as there are threads, in bursts and one by one", .timeLimit(.minutes(2)))
    func parallel() async {
        let pool = BlockingPool(threads: 8, label: "test-pool")
        for round in 0..<300 {
            let barrier = Barrier(8)
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask { await pool.run { barrier.wait() } }
                    // Threads then fall asleep in between.
                    if round % 3 == 0 { await Task.yield() }
                }
            }
        }
    }

    @Test("no job is forgotten while threads fall asleep and wake", .timeLimit(.minutes(2)), arguments: [1, 2, 7])
    func manyCallers(threads: Int) async {
        let pool = BlockingPool(threads: threads, label: "test-pool")
        let done = Counter()
        await withTaskGroup(of: Void.self) { group in
            for caller in 0..<8 {
                group.addTask {
                    for number in 0..<2000 {
                        await pool.run { done.add() }
                        if number % 16 == caller { await Task.yield() }
                    }
                }
            }
        }
        #expect(done.count == 16_000)
    }

    @Test("jobs start in the order in which they were submitted")
    func order() async {
        let pool = BlockingPool(threads: 1, label: "test-pool")
        let started = Mutex<[Int]>([])
        for number in 0..<3000 { pool.submit { _ in started.withLock { $0.append(number) } } }
        await pool.run {}
        #expect(started.withLock { $0 } == Array(0..<3000))
    }

    @Test("jobs wait only if all threads are busy")
    func waiting() async {
        let pool = BlockingPool(threads: 2, label: "test-pool")
        let (begun, gate) = (Barrier(3), DispatchSemaphore(value: 0))
        for _ in 0..<2 {
            pool.submit { _ in
                begun.wait()
                gate.wait()
            }
        }
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                begun.wait()
                continuation.resume()
            }
        }
        #expect(!pool.hasWaiting)
        async let last: Void = pool.run {}
        while !pool.hasWaiting { await Task.yield() }
        for _ in 0..<2 { gate.signal() }
        await last
        #expect(!pool.hasWaiting)
    }
}
