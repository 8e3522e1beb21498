internal import Dispatch
internal import Glibc
internal import Synchronization
package import SystemIO

/// One thread's share of the connections: a serial dispatch queue that drains one epoll set.
///
/// It is also the executor of the actors and tasks of its connections, so serving a request needs no thread switch.
///
/// Invariant for `@unchecked`: `ready`, `readyHead`, `followUps`, `slots`, `freeSlots` and `watched` are accessed only on the thread
/// that runs `queue`'s block (`isCurrent`); everything else is constant, atomic or protected by its `Mutex`.
package final class EventLoop: SerialExecutor, TaskExecutor, @unchecked Sendable {
    private enum Work {
        case job(UnownedJob)
        case closure(@Sendable () -> Void)
    }

    private struct Inbox {
        var work: [Work] = []
        /// The loop waits in the kernel, or is about to: adding work must wake it.
        var isAsleep = false
        var isClosed = false
        /// Called when the loop has ended.
        var whenEnded: (@Sendable () -> Void)?
    }

    private struct Slot {
        var channel: Channel?
        /// Incremented each time the slot is reused, so that a late event of a previous owner is recognised.
        var generation: UInt32 = 0
    }

    /// How often jobs that made others ready are followed by these before the loop looks at its sockets again.
    private static let passes = 16

    /// Granularity of deadlines, in milliseconds.
    private static let tick: Int32 = 100

    private let queue: DispatchQueue
    /// What the channels of this loop call.
    let calls: any SystemCalls
    private let readiness: any ReadinessSet & Sendable
    private let inbox = Mutex(Inbox())
    /// The thread that runs the loop now, from `pthread_self`; 0 for none.
    private let owner = Atomic<UInt>(0)

    private var ready: [UnownedJob] = []
    private var readyHead = 0
    private var followUps: [@Sendable () -> Bool] = []
    private var slots: [Slot] = []
    private var freeSlots: [Int] = []
    private var watched = 0
    private var lastTick: Nanoseconds = 0

    /// - Parameters:
    ///   - label: Name of the queue, for debuggers.
    ///   - calls: Replaced in tests.
    /// - Throws: If the system has no descriptors left.
    package convenience init(label: String, calls: any SystemCalls = LinuxCalls()) throws(SystemError) {
        self.init(label: label, readiness: try EpollSet(), calls: calls)
    }

    init(label: String, readiness: any ReadinessSet & Sendable, calls: any SystemCalls = LinuxCalls()) {
        self.readiness = readiness
        self.calls = calls
        queue = DispatchQueue(label: label, qos: .userInitiated)
        // A thread of its own: a serial queue's target overcommits, so a waiting loop takes no thread from the shared
        // pool.
        queue.async { [self] in run() }
    }

    /// Ends the loop as soon as it has nothing left to do.
    ///
    /// No work may be submitted afterwards.
    ///
    /// - Parameter whenEnded: Called on the loop's thread after all its other work.
    package func close(whenEnded: @escaping @Sendable () -> Void = {}) {
        inbox.withLock { inbox in
            inbox.isClosed = true
            inbox.whenEnded = whenEnded
        }
        readiness.wake()
    }

    // MARK: Executor

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if isCurrent {
            ready.append(job)
        } else {
            hand(.job(job))
        }
    }

    package func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

    package func asUnownedTaskExecutor() -> UnownedTaskExecutor { UnownedTaskExecutor(ordinary: self) }

    package func checkIsolated() { precondition(isCurrent, "not on this event loop") }

    package func isIsolatingCurrentContext() -> Bool? { isCurrent }

    /// Runs `work` on the loop soon; can be called from any thread.
    package func execute(_ work: @escaping @Sendable () -> Void) {
        hand(.closure(work))
    }

    /// Calls `work` on the loop whenever jobs have run, before it looks at its sockets again; can be called from any
    /// thread.
    ///
    /// - Parameter work: Returns whether there are jobs to run now; it is then called again.
    package func afterJobs(_ work: @escaping @Sendable () -> Bool) {
        execute { self.followUps.append(work) }
    }

    /// Whether the caller runs on this loop.
    package var isCurrent: Bool { owner.load(ordering: .relaxed) == UInt(pthread_self()) }

    private func hand(_ work: Work) {
        let mustWake = inbox.withLock { inbox in
            inbox.work.append(work)
            defer { inbox.isAsleep = false }
            return inbox.isAsleep
        }
        if mustWake { readiness.wake() }
    }

    // MARK: The loop

    private func run() {
        owner.store(UInt(pthread_self()), ordering: .relaxed)
        lastTick = MonotonicClock.now
        while true {
            takeInbox()
            // A request takes many jobs, one after the other: looking at the sockets after each would cost as much.
            for _ in 0..<Self.passes {
                runReady()
                for followUp in followUps {
                    while followUp() { runReady() }
                }
                if ready.isEmpty { break }
            }
            let mayWait = inbox.withLock { inbox in
                guard ready.count == readyHead, inbox.work.isEmpty else { return false }
                inbox.isAsleep = true
                return true
            }
            if mayWait, watched == 0, inbox.withLock({ $0.isClosed }) { break }
            readiness.wait(milliseconds: mayWait ? (watched > 0 ? Self.tick : -1) : 0) { token, readiness in
                deliver(token, readiness)
            }
            if mayWait { inbox.withLock { $0.isAsleep = false } }
            if watched > 0 { expireWaits() }
        }
        owner.store(0, ordering: .relaxed)
        inbox.withLock { $0.whenEnded }?()
    }

    private func takeInbox() {
        let work = inbox.withLock { inbox in
            defer { if !inbox.work.isEmpty { inbox.work = [] } }
            return inbox.work
        }
        for item in work {
            switch item {
            case .job(let job): ready.append(job)
            case .closure(let closure): closure()
            }
        }
    }

    /// Runs the jobs that are ready now.
    ///
    /// Jobs that become ready meanwhile run in the next pass.
    private func runReady() {
        let end = ready.count
        while readyHead < end {
            let job = ready[readyHead]
            readyHead += 1
            job.runSynchronously(
                isolatedTo: asUnownedSerialExecutor(),
                taskExecutor: asUnownedTaskExecutor()
            )
        }
        if readyHead == ready.count {
            ready.removeAll(keepingCapacity: true)
            readyHead = 0
        } else if readyHead > 1024 {
            ready.removeFirst(readyHead)
            readyHead = 0
        }
    }

    private func deliver(_ token: UInt64, _ readiness: Readiness) {
        let index = Int(token & 0xFFFF_FFFF)
        guard index < slots.count, slots[index].generation == UInt32(token >> 32), let channel = slots[index].channel
        else { return }
        if readiness.contains(.hungUp) { channel.hungUp() }
        if readiness.contains(.readable) { channel.becameReadable() }
        if readiness.contains(.writable) { channel.becameWritable() }
    }

    private func expireWaits() {
        let now = MonotonicClock.now
        guard now &- lastTick >= UInt64(Self.tick) * 1_000_000 else { return }
        lastTick = now
        for slot in slots {
            if let channel = slot.channel { channel.expireWaits(now: now) }
        }
    }

    // MARK: Channels

    /// Starts to report events of the channel's descriptor to it.
    ///
    /// Must be called on the loop.
    ///
    /// - Returns: A token that identifies the channel for `unwatch` and `mute`.
    func watch(_ channel: Channel) throws(SystemError) -> UInt64 {
        let index: Int
        if let free = freeSlots.popLast() {
            index = free
        } else {
            index = slots.count
            slots.append(Slot())
        }
        slots[index].generation &+= 1
        slots[index].channel = channel
        watched += 1
        let token = UInt64(slots[index].generation) << 32 | UInt64(index)
        do throws(SystemError) {
            try readiness.add(channel.descriptor, token: token)
        } catch {
            forget(slot: index)
            throw error
        }
        return token
    }

    /// Undoes `watch`; must be called before the descriptor is closed.
    ///
    /// Must be called on the loop.
    func unwatch(_ channel: Channel, token: UInt64) {
        readiness.remove(channel.descriptor)
        forget(slot: Int(token & 0xFFFF_FFFF))
    }

    /// Suspends or resumes the events of a channel's descriptor; can be called from any thread.
    func mute(_ descriptor: Int32, token: UInt64, _ isMute: Bool) {
        readiness.mute(descriptor, token: token, isMute)
    }

    private func forget(slot: Int) {
        slots[slot].channel = nil
        freeSlots.append(slot)
        watched -= 1
    }
}

/// The event loops of a process, one per core.
///
/// Connections are assigned to them in turn.
package final class EventLoopGroup: Sendable {
    package let loops: [EventLoop]
    private let turn = Atomic<Int>(0)

    /// - Parameters:
    ///   - count: Number of loops; at least 1.
    ///   - calls: Replaced in tests.
    /// - Throws: If the system has no descriptors left.
    package convenience init(count: Int, calls: any SystemCalls = LinuxCalls()) throws(SystemError) {
        var loops: [EventLoop] = []
        for index in 0..<max(1, count) { loops.append(try EventLoop(label: "sluice.loop.\(index)", calls: calls)) }
        self.init(loops)
    }

    init(_ loops: [EventLoop]) { self.loops = loops }

    package func next() -> EventLoop {
        loops[turn.wrappingAdd(1, ordering: .relaxed).oldValue % loops.count]
    }

    /// Ends the loops; returns when they have ended and nothing that was submitted to them runs any more.
    ///
    /// Must not be called on one of them.
    package func close() async {
        for loop in loops {
            await withUnsafeContinuation { continuation in
                loop.close { continuation.resume() }
            }
        }
    }
}
