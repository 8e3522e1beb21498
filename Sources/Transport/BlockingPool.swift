internal import CSystem
internal import Foundation

/// A fixed number of threads for work that blocks: disk, database, name look-ups.
///
/// Event loops must not block, and neither the default executor (one thread a core) nor a concurrent dispatch queue
/// (which grows slowly) is made for blocking calls. Jobs start in the order in which they were handed over.
package final class BlockingPool: Sendable {
    private let queue: JobQueue

    /// - Parameters:
    ///   - threads: How many calls may block at the same time; at least 1.
    ///   - label: Name of the threads, as `ps -L` shows it; at most 15 characters.
    package init(threads: Int, label: String) {
        let queue = JobQueue()
        self.queue = queue
        for _ in 0..<max(1, threads) {
            let thread = Thread {
                while let job = queue.next() { job() }
            }
            thread.name = String(label.prefix(15))
            thread.stackSize = 512 * 1024
            thread.start()
        }
    }

    deinit {
        queue.close()
    }

    /// Whether work waits because all threads are busy.
    package var hasWaiting: Bool { queue.hasWaiting }

    /// Runs `work` on one of the threads and returns what it returns.
    package func run<Success: Sendable>(_ work: @escaping @Sendable () -> Success) async -> Success {
        await withUnsafeContinuation { continuation in
            queue.append { continuation.resume(returning: work()) }
        }
    }

    /// Runs `work` on one of the threads, and returns or throws what it returns or throws.
    package func run<Success: Sendable, Failure: Error>(
        throwing work: @escaping @Sendable () throws(Failure) -> Success
    ) async throws(Failure) -> Success {
        let result: Result<Success, Failure> = await withUnsafeContinuation { continuation in
            queue.append {
                do throws(Failure) {
                    continuation.resume(returning: .success(try work()))
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
        return try result.get()
    }
}

/// First in, first out between any threads.
///
/// Invariant: `jobs`, `head` and `isClosed` are touched only while `condition` is held.
private final class JobQueue: @unchecked Sendable {
    private let condition = NSCondition()
    private var jobs: [(@Sendable () -> Void)?] = []
    private var head = 0
    private var isClosed = false

    var hasWaiting: Bool {
        condition.lock()
        defer { condition.unlock() }
        return head < jobs.count
    }

    func append(_ job: @escaping @Sendable () -> Void) {
        condition.lock()
        jobs.append(job)
        condition.signal()
        condition.unlock()
    }

    /// The next job, waited for; `nil` when the queue is closed and empty.
    func next() -> (@Sendable () -> Void)? {
        condition.lock()
        defer { condition.unlock() }
        while head == jobs.count {
            if isClosed { return nil }
            condition.wait()
        }
        let job = jobs[head]
        jobs[head] = nil
        head += 1
        if head == jobs.count {
            jobs.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 1024, head * 2 >= jobs.count {
            jobs.removeFirst(head)
            head = 0
        }
        return job
    }

    func close() {
        condition.lock()
        isClosed = true
        condition.broadcast()
        condition.unlock()
    }
}
