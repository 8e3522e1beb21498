import Foundation
import SystemIO
import Synchronization
import Testing

@Suite("Blocking pool", .timeLimit(.minutes(10)))
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

    /// Counts what happened; a lost wake-up makes a wait for it fail, where a task would wait for ever.
    private final class Signals: Sendable {
        private let semaphore = DispatchSemaphore(value: 0)

        func signal() { semaphore.signal() }

        /// - Returns: Whether there were `count` signals; `false` after a minute without one.
        func came(_ count: Int = 1) -> Bool {
            (0..<count).allSatisfy { _ in semaphore.wait(timeout: .now() + 60) == .success }
        }

        /// Like `came(_:)`, but no task's thread waits.
        func all(_ count: Int) async -> Bool {
            await withCheckedContinuation { continuation in
                Thread.detachNewThread { continuation.resume(returning: self.came(count)) }
            }
        }
    }

    @Test("as many jobs run at the same time as there are threads, in bursts and one by one")
    func parallel() async throws {
        let pool = BlockingPool(threads: 8, label: "test-pool")
        for round in 0..<300 {
            let (barrier, ended) = (Barrier(8), Signals())
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        pool.submit { _ in
                            barrier.wait()
                            ended.signal()
                        }
                    }
                    // Threads then fall asleep in between.
                    if round % 3 == 0 { await Task.yield() }
                }
            }
            try #require(await ended.all(8))
        }
    }

    @Test("no job is forgotten while threads fall asleep and wake", arguments: [1, 2, 7])
    func manyCallers(threads: Int) async {
        let pool = BlockingPool(threads: threads, label: "test-pool")
        let served = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    await withCheckedContinuation { continuation in
                        Thread.detachNewThread {
                            let done = Signals()
                            let isServed = (0..<2000).allSatisfy { _ in
                                pool.submit { _ in done.signal() }
                                return done.came()
                            }
                            continuation.resume(returning: isServed)
                        }
                    }
                }
            }
            return await group.allSatisfy { $0 }
        }
        #expect(served)
    }

    @Test("jobs start in the order in which they were submitted")
    func order() async throws {
        let pool = BlockingPool(threads: 1, label: "test-pool")
        let started = Mutex<[Int]>([])
        let ended = Signals()
        for number in 0..<3000 { pool.submit { _ in started.withLock { $0.append(number) } } }
        pool.submit { _ in ended.signal() }
        try #require(await ended.all(1))
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
