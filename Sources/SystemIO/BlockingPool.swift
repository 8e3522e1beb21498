internal import CSystem
internal import Foundation

/// A fixed number of threads for blocking work: disk, database, name look-ups.
///
/// Event loops must not block. Neither the default executor (one thread per core) nor a concurrent dispatch queue
/// (which grows slowly) suits blocking calls. Jobs start in the order in which they were submitted.
///
/// Files can only be read, written and changed by work that runs here: it gets a `BlockingIO`.
package final class BlockingPool: Sendable {
    private let queue: JobQueue
    private let calls: any SystemCalls

    /// - Parameters:
    ///   - threads: Maximum number of calls that block at the same time; at least 1.
    ///   - label: Name of the threads, as in `ps -L`; at most 15 characters.
    ///   - calls: Replaced in tests.
    package init(threads: Int, label: String, calls: any SystemCalls = LinuxCalls()) {
        let queue = JobQueue()
        self.queue = queue
        self.calls = calls
        for _ in 0..<max(1, threads) {
            let thread = Thread {
                csys_note_blocking_thread()
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

    /// Whether jobs wait because all threads are busy.
    package var hasWaiting: Bool { queue.hasWaiting }

    /// Runs `work` on a thread of the pool and returns its result.
    package func run<Success: Sendable>(_ work: @escaping @Sendable () -> Success) async -> Success {
        await withUnsafeContinuation { continuation in
            queue.append { continuation.resume(returning: work()) }
        }
    }

    /// Runs `work`, which can use files, on a thread of the pool and returns its result.
    package func run<Success: Sendable>(_ work: @escaping @Sendable (BlockingIO) -> Success) async -> Success {
        await withUnsafeContinuation { continuation in
            queue.append { [self] in continuation.resume(returning: work(BlockingIO(calls, pool: self))) }
        }
    }

    /// Runs `work` on a thread of the pool; returns its result or throws its error.
    package func run<Success: Sendable, Failure: Error>(
        throwing work: @escaping @Sendable () throws(Failure) -> Success
    ) async throws(Failure) -> Success {
        let result: Result<Success, Failure> = await withUnsafeContinuation { continuation in
            queue.append { continuation.resume(returning: Result(catching: work)) }
        }
        return try result.get()
    }

    /// Runs `work`, which can use files, on a thread of the pool; returns its result or throws its error.
    package func run<Success: Sendable, Failure: Error>(
        throwing work: @escaping @Sendable (BlockingIO) throws(Failure) -> Success
    ) async throws(Failure) -> Success {
        let result: Result<Success, Failure> = await withUnsafeContinuation { continuation in
            queue.append { [self] in
                do throws(Failure) {
                    continuation.resume(returning: .success(try work(BlockingIO(calls, pool: self))))
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
        return try result.get()
    }

    /// Runs `work` on a thread of the pool soon, and does not wait for it; can be called from any thread.
    package func submit(_ work: @escaping @Sendable (BlockingIO) -> Void) {
        queue.append { [self] in work(BlockingIO(calls, pool: self)) }
    }

    /// Closes a descriptor that one of the pool's jobs opened.
    ///
    /// Closing the last descriptor of a file without a name frees its blocks, which can take long. That is left to the
    /// pool, unless a thread that may block is calling. Any other close is fast, and a change of threads is not.
    func close(_ descriptor: Int32) {
        var status = FileStatus()
        if csys_is_blocking_thread() == 0, calls.fstat(descriptor, &status).errno == nil, status.links == 0 {
            queue.append { [calls] in _ = calls.close(descriptor) }
        } else {
            _ = calls.close(descriptor)
        }
    }
}

/// A first-in, first-out queue that any thread can use.
///
/// At most one thread is being woken at a time: when it takes its job and others wait, it wakes the next. So a burst of short jobs
/// needs fewer wake-ups than it has jobs, because threads that are already awake take the rest. Threads are woken after the lock
/// is released; otherwise each would wait for it at once.
///
/// Invariant: the variables are accessed only while `condition` is held.
private final class JobQueue: @unchecked Sendable {
    private let condition = NSCondition()
    private var jobs: [(@Sendable () -> Void)?] = []
    private var head = 0
    private var isClosed = false
    /// Threads that wait for a job.
    private var idleThreads = 0
    /// Whether an idle thread was woken and has not looked for a job yet.
    private var isWaking = false

    var hasWaiting: Bool {
        condition.lock()
        defer { condition.unlock() }
        return head < jobs.count
    }

    func append(_ job: @escaping @Sendable () -> Void) {
        condition.lock()
        jobs.append(job)
        let wakes = needsThread()
        condition.unlock()
        if wakes { condition.signal() }
    }

    /// Waits for the next job and returns it; `nil` when the queue is closed and empty.
    func next() -> (@Sendable () -> Void)? {
        condition.lock()
        while head == jobs.count {
            if isClosed {
                condition.unlock()
                return nil
            }
            idleThreads += 1
            condition.wait()
            idleThreads -= 1
            isWaking = false
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
        let wakes = needsThread()
        condition.unlock()
        if wakes { condition.signal() }
        return job
    }

    /// Whether the caller must wake a thread, after it has released the lock.
    private func needsThread() -> Bool {
        guard head < jobs.count, idleThreads > 0, !isWaking else { return false }
        isWaking = true
        return true
    }

    func close() {
        condition.lock()
        isClosed = true
        condition.broadcast()
        condition.unlock()
    }
}
