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
    /// Measures the work; `nil` if nobody asks.
    let observer: (any BlockingPoolObserver)?
    package let threads: Int

    /// - Parameters:
    ///   - threads: Maximum number of calls that block at the same time; at least 1.
    ///   - label: Name of the threads, as in `ps -L`; at most 15 characters.
    ///   - calls: Replaced in tests.
    ///   - observer: Measures the work.
    package init(
        threads: Int,
        label: String,
        calls: any SystemCalls = LinuxCalls(),
        observer: (any BlockingPoolObserver)? = nil
    ) {
        let queue = JobQueue(observer)
        self.queue = queue
        self.calls = calls
        self.observer = observer
        self.threads = max(1, threads)
        for _ in 0..<max(1, threads) {
            let thread = Thread {
                csys_note_blocking_thread()
                let semaphore = DispatchSemaphore(value: 0)
                while let job = queue.next(semaphore) { job() }
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

    /// Number of threads that run a job.
    package var busy: Int { max(0, threads - queue.asleep) }

    /// Number of jobs that wait for a thread.
    package var waiting: Int { queue.waiting }

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

/// Measures the work of a pool; called on its threads.
package protocol BlockingPoolObserver: Sendable {
    /// A job begins.
    func started(after wait: Nanoseconds)
    /// A file or directory was forced to stable storage, or could not be.
    func synchronized(in time: Nanoseconds, isDone: Bool)
}

/// A first-in, first-out queue that any thread can use.
///
/// At most one thread is being woken at a time: when it takes its job and others wait, it wakes the next. So a burst of short jobs
/// needs fewer wake-ups than it has jobs, because threads that are already awake take the rest. Threads are woken after the lock
/// is released; otherwise each would wait for it at once.
///
/// Each idle thread waits for a semaphore of its own, and the one that fell asleep last is woken first: its stack and caches are
/// warm. A condition variable would not do, because glibc before 2.41 can lose a signal (its bug 25847), and a lost one would be
/// waited for for ever.
///
/// Invariant: the variables are accessed only while `lock` is held.
private final class JobQueue: @unchecked Sendable {
    private let lock = NSLock()
    private var jobs: [Job?] = []
    private var head = 0
    private var isClosed = false
    /// The semaphores of threads that wait for a job and are not being woken.
    private var idle: [DispatchSemaphore] = []
    /// Whether an idle thread was woken and has not looked for a job yet.
    private var isWaking = false
    /// Number of threads that wait for a job.
    private var sleepers = 0
    private let observer: (any BlockingPoolObserver)?

    private struct Job {
        let run: @Sendable () -> Void
        /// When it was appended; 0 if nobody asks.
        let since: Nanoseconds
    }

    init(_ observer: (any BlockingPoolObserver)?) { self.observer = observer }

    var hasWaiting: Bool { lock.withLock { head < jobs.count } }

    var waiting: Int { lock.withLock { jobs.count - head } }

    var asleep: Int { lock.withLock { sleepers } }

    func append(_ job: @escaping @Sendable () -> Void) {
        let job = Job(run: job, since: observer == nil ? 0 : MonotonicClock.now)
        lock.lock()
        jobs.append(job)
        let thread = threadToWake()
        lock.unlock()
        thread?.signal()
    }

    /// Waits for the next job.
    ///
    /// - Parameter semaphore: Belongs to the calling thread.
    /// - Returns: The job; `nil` when the queue is closed and empty.
    func next(_ semaphore: DispatchSemaphore) -> (@Sendable () -> Void)? {
        lock.lock()
        while head == jobs.count {
            if isClosed {
                lock.unlock()
                return nil
            }
            idle.append(semaphore)
            sleepers += 1
            lock.unlock()
            semaphore.wait()
            lock.lock()
            sleepers -= 1
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
        let thread = threadToWake()
        lock.unlock()
        thread?.signal()
        if let observer, let job {
            let now = MonotonicClock.now
            observer.started(after: now > job.since ? now - job.since : 0)
        }
        return job?.run
    }

    /// The semaphore of the thread that the caller must wake, after it has released the lock.
    private func threadToWake() -> DispatchSemaphore? {
        guard head < jobs.count, !isWaking, let thread = idle.popLast() else { return nil }
        isWaking = true
        return thread
    }

    func close() {
        let threads = lock.withLock {
            isClosed = true
            defer { idle = [] }
            return idle
        }
        for thread in threads { thread.signal() }
    }
}
