package import Bytes
internal import CSystem
internal import Glibc
package import Synchronization
package import SystemIO

/// One connected socket on one event loop, plain or with TLS.
///
/// Calls that move bytes never block; `waitReadable` and `waitWritable` suspend until the next attempt can succeed.
///
/// Invariant for `@unchecked`: everything is accessed only on `loop`, except constants, `isInterrupted`, which is atomic, and
/// `token`, which only `init` sets.
package final class Channel: @unchecked Sendable {
    /// Why a wait ended without readiness.
    package enum WaitFailure: Error, Equatable, Sendable {
        case timedOut
        /// Ended by `interruptReading`.
        case interrupted(SourceFailure)
        case closed
    }

    /// Resumed when reading or writing is worth trying.
    private enum Waiter {
        case task(UnsafeContinuation<Result<Void, WaitFailure>, Never>)
        case callback((Result<Void, WaitFailure>) -> Void)

        func resume(returning result: Result<Void, WaitFailure>) {
            switch self {
            case .task(let continuation): continuation.resume(returning: result)
            case .callback(let callback): callback(result)
            }
        }
    }

    private enum Side { case reading, writing }

    /// One of the two directions of the socket.
    private struct Direction {
        /// A call may succeed: cleared by a call that would block, set by the kernel's event.
        var isReady = true
        var waiter: Waiter?
        var deadline = Nanoseconds.max

        mutating func wait(_ waiter: Waiter, until deadline: Nanoseconds) {
            self.waiter = waiter
            self.deadline = deadline
        }

        mutating func takeWaiter() -> Waiter? {
            defer { waiter = nil }
            deadline = .max
            return waiter
        }
    }

    package let descriptor: Int32
    package let loop: EventLoop
    package let tls: TLSSession?
    /// Set when reading must stop; for work on other threads, which cannot be woken.
    package let isInterrupted = Atomic<Bool>(false)

    /// Identifies this channel to `loop`.
    private var token: UInt64?
    private var reading = Direction()
    private var writing = Direction()
    /// The peer has closed its sending side; the kernel reports this only once.
    private var isHungUp = false
    private var isClosed = false
    /// A thread of a pool uses the socket, so `close` leaves its last step to `lend`.
    private var isLent = false

    /// Takes ownership of `descriptor`, a connected non-blocking socket.
    ///
    /// Must be called on `loop`.
    package init(descriptor: Int32, loop: EventLoop, tls: TLSSession?) throws(SystemError) {
        self.descriptor = descriptor
        self.loop = loop
        self.tls = tls
        do throws(SystemError) {
            token = try loop.watch(self)
        } catch {
            Glibc.close(descriptor)
            isClosed = true
            throw error
        }
    }

    /// Closes the socket.
    ///
    /// Waits end with `.closed`.
    package func close() {
        assert(loop.isCurrent, "a channel is used on its loop")
        guard !isClosed else { return }
        isClosed = true
        if let token { loop.unwatch(self, token: token) }
        if isLent {
            // Ends the thread's work. The descriptor stays open until then: its number must not be reused for another
            // connection.
            shutdown(descriptor, Int32(SHUT_RDWR))
        } else {
            release()
        }
        resume(.reading, .failure(.closed))
        resume(.writing, .failure(.closed))
    }

    private func release() {
        tls?.shutDown()
        Glibc.close(descriptor)
    }

    /// Lets a thread of `pool` use the socket, and its TLS session if it has one, exclusively.
    ///
    /// Must be called on the loop.
    package func lend<Success: Sendable>(
        to pool: BlockingPool,
        _ work: @escaping @Sendable (Channel, BlockingIO) -> Success
    ) async -> Success {
        assert(loop.isCurrent && !isLent, "a channel is lent on its loop, to one borrower at a time")
        isLent = true
        let result = await pool.run { io in work(self, io) }
        isLent = false
        if isClosed { release() }
        return result
    }

    /// Tells the peer that nothing more will be sent; reading continues.
    package func shutDownWriting() {
        tls?.shutDown()
        shutdown(descriptor, Int32(SHUT_WR))
    }

    // MARK: Moving bytes

    /// Reads available bytes, at most `buffer.count` (at least 1).
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        let result = tls.map { $0.read(into: buffer) } ?? receive(into: buffer)
        // A short read emptied the socket: an event will report the next readiness.
        switch result {
        case .moved(let count): reading.isReady = isHungUp || count == buffer.count || tls?.hasPending == true
        case .wouldBlockReading: reading.isReady = isHungUp
        case .wouldBlockWriting: writing.isReady = false
        case .ended, .failed: reading.isReady = true
        }
        return result
    }

    /// Reads a header of the PROXY protocol, and nothing beyond it: TLS reads the socket itself.
    ///
    /// - Returns: `nil` if the connection has ended.
    @inline(never)
    package func readProxyHeader() -> ProxyHeader? {
        withUnsafeTemporaryAllocation(byteCount: ProxyHeader.maximumLength, alignment: 1) { buffer in
            let count = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_PEEK))
            if count < 0, errno == EAGAIN || errno == EINTR {
                reading.isReady = isHungUp || errno == EINTR
                return .incomplete
            }
            guard count > 0 else { return nil }
            let header = ProxyHeader(parsing: Array(buffer.prefix(count)))
            switch header {
            case .complete(let length, _):
                return recv(descriptor, buffer.baseAddress, length, 0) == length ? header : nil
            // The kernel reports the next bytes, but the end of the connection only once.
            case .incomplete where !isHungUp: reading.isReady = false
            case .incomplete: return nil
            case .invalid: break
            }
            return header
        }
    }

    /// Reads some bytes and discards them.
    ///
    /// The buffer is on the stack. If this were inlined into an asynchronous caller, the buffer would be part of the
    /// task's memory for as long as the connection lives.
    @inline(never)
    package func discard() -> IOResult {
        withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 16) { read(into: $0) }
    }

    /// Writes as many bytes as fit; `more` means that further bytes follow at once.
    package func write(_ buffer: UnsafeRawBufferPointer, more: Bool = false) -> IOResult {
        let result = tls.map { $0.write(buffer) } ?? transmit(buffer, more: more)
        switch result {
        case .wouldBlockReading: reading.isReady = isHungUp
        case .wouldBlockWriting: writing.isReady = false
        case .moved, .ended, .failed: writing.isReady = true
        }
        return result
    }

    private func receive(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        IOResult(reading: { loop.calls.recv(descriptor, into: buffer) })
    }

    private func transmit(_ buffer: UnsafeRawBufferPointer, more: Bool) -> IOResult {
        let flags = Int32(MSG_NOSIGNAL) | (more ? Int32(MSG_MORE) : 0)
        return IOResult(writing: { loop.calls.send(descriptor, buffer, flags: flags) })
    }

    /// Notes that another thread is about to read the socket; `waitReadable` reports data that arrive after it is
    /// empty.
    package func willReadOnOtherThread() { reading.isReady = isHungUp }

    /// Notes that another thread stopped reading before the socket was empty.
    package func noteUnreadData() { reading.isReady = true }

    package func willWriteOnOtherThread() { writing.isReady = false }

    /// Whether the kernel has reported data (or an end) that no read has taken yet.
    package var mayBeReadable: Bool { reading.isReady }

    // MARK: Waiting

    /// Suspends until a read is worth trying.
    ///
    /// - Parameter deadline: Kept with a tolerance of a tenth of a second.
    /// - Throws: `.timedOut`, `.interrupted` after `interruptReading`, `.closed`.
    package func waitReadable(until deadline: Nanoseconds) async throws(WaitFailure) {
        try await readability(until: deadline).get()
    }

    /// `waitReadable` for callers that treat each result in its own way.
    @inline(__always)
    package func readability(until deadline: Nanoseconds) async -> Result<Void, WaitFailure> {
        await wait(.reading, until: deadline)
    }

    /// Suspends until a write is worth trying.
    ///
    /// - Parameter deadline: As in `waitReadable`.
    /// - Throws: `.timedOut`, `.closed`.
    package func waitWritable(until deadline: Nanoseconds) async throws(WaitFailure) {
        try await writability(until: deadline).get()
    }

    /// `waitWritable` for callers that treat each result in its own way.
    @inline(__always)
    package func writability(until deadline: Nanoseconds) async -> Result<Void, WaitFailure> {
        await wait(.writing, until: deadline)
    }

    /// Suspends until the call with this result is worth repeating; not at all if it moved bytes.
    ///
    /// - Parameters:
    ///   - result: The result of a read or a write.
    ///   - deadline: As in `waitReadable`.
    /// - Throws: Like the other waits; `.closed` also if the result says that the connection is over.
    package func wait(after result: IOResult, until deadline: Nanoseconds) async throws(WaitFailure) {
        switch result {
        case .moved: return
        case .wouldBlockReading: try await waitReadable(until: deadline)
        case .wouldBlockWriting: try await waitWritable(until: deadline)
        case .ended, .failed: throw .closed
        }
    }

    /// The only wait of a task; inlined, so that no wait needs memory for two calls.
    @inline(__always)
    private func wait(_ side: Side, until deadline: Nanoseconds) async -> Result<Void, WaitFailure> {
        assert(loop.isCurrent, "a channel is used on its loop")
        if let ready = readiness(side) { return ready }
        return await withUnsafeContinuation { continuation in
            // Again: the task may have been queued behind an event since the check above.
            if let ready = readiness(side) { return continuation.resume(returning: ready) }
            self[side].wait(.task(continuation), until: deadline)
        }
    }

    /// Like `waitReadable`, but without a waiting task.
    ///
    /// - Parameters:
    ///   - deadline: As in `waitReadable`.
    ///   - callback: Called once, on the loop, with the result of `waitReadable`, unless that is known at once.
    /// - Returns: The result if there is nothing to wait for; `nil` if `callback` will be called.
    package func whenReadable(
        until deadline: Nanoseconds,
        _ callback: @escaping (Result<Void, WaitFailure>) -> Void
    ) -> Result<Void, WaitFailure>? {
        when(.reading, until: deadline, callback)
    }

    /// Like `waitWritable`, but without a waiting task: see `whenReadable`.
    package func whenWritable(
        until deadline: Nanoseconds,
        _ callback: @escaping (Result<Void, WaitFailure>) -> Void
    ) -> Result<Void, WaitFailure>? {
        when(.writing, until: deadline, callback)
    }

    @inline(__always)
    private func when(
        _ side: Side,
        until deadline: Nanoseconds,
        _ callback: @escaping (Result<Void, WaitFailure>) -> Void
    ) -> Result<Void, WaitFailure>? {
        assert(loop.isCurrent, "a channel is used on its loop")
        if let ready = readiness(side) { return ready }
        self[side].wait(.callback(callback), until: deadline)
        return nil
    }

    /// Undoes `whenReadable`: its callback will not be called.
    package func cancelWhenReadable() {
        guard case .callback? = reading.waiter else { return }
        _ = reading.takeWaiter()
    }

    private subscript(side: Side) -> Direction {
        get { side == .reading ? reading : writing }
        _modify {
            switch side {
            case .reading: yield &reading
            case .writing: yield &writing
            }
        }
    }

    /// The immediate result of a wait; `nil` if it has to wait.
    private func readiness(_ side: Side) -> Result<Void, WaitFailure>? {
        if side == .reading, let interruption { return .failure(.interrupted(interruption)) }
        if isClosed { return .failure(.closed) }
        return self[side].isReady ? .success(()) : nil
    }

    /// Ends the current wait for reading and all later ones.
    ///
    /// Must be called on the loop.
    package func interruptReading(as failure: SourceFailure) {
        interruption = failure
        isInterrupted.store(true, ordering: .relaxed)
        resume(.reading, .failure(.interrupted(failure)))
    }

    /// Makes reads block for at most this many milliseconds, without events for the loop meanwhile; 0 makes them
    /// non-blocking again.
    ///
    /// For the thread that borrowed the channel; it must call this with 0 at the end. The channel then gets pending
    /// events.
    package func setReceiveTimeout(_ milliseconds: Int32) {
        guard let token else { return }
        if milliseconds > 0 { loop.mute(descriptor, token: token, true) }
        // If this fails, reads do not block.
        _ = csys_block(descriptor, milliseconds)
        if milliseconds == 0 { loop.mute(descriptor, token: token, false) }
    }

    /// The failure passed to `interruptReading`.
    package private(set) var interruption: SourceFailure?

    /// Bytes that arrived and were not read; under TLS an approximate upper bound.
    package var readableCount: Int { isClosed ? 0 : lentReadableCount }

    /// The same, for the thread that borrowed the channel.
    package var lentReadableCount: Int {
        Int(max(0, csys_bytes_readable(descriptor))) + (tls?.bufferedCount ?? 0)
    }

    /// Asks the kernel not to report readability before this many bytes or the end arrived (SO_RCVLOWAT, socket(7)).
    package func setReceiveLowWaterMark(_ bytes: Int32) {
        guard bytes != receiveLowWaterMark, csys_receive_low_water(descriptor, bytes) == 0 else { return }
        receiveLowWaterMark = bytes
    }

    /// See `setReceiveLowWaterMark`; initially 1.
    package private(set) var receiveLowWaterMark: Int32 = 1

    /// Undoes `interruptReading`, for reads after the one that was interrupted.
    package func clearInterruption() {
        interruption = nil
        isInterrupted.store(false, ordering: .relaxed)
    }

    func hungUp() { isHungUp = true }

    func becameReadable() {
        // Also if there is a waiter: until a read would block, every wait must end at once.
        reading.isReady = true
        resume(.reading, .success(()))
    }

    func becameWritable() {
        writing.isReady = true
        resume(.writing, .success(()))
    }

    func expireWaits(now: Nanoseconds) {
        if reading.deadline <= now { resume(.reading, .failure(.timedOut)) }
        if writing.deadline <= now { resume(.writing, .failure(.timedOut)) }
    }

    private func resume(_ side: Side, _ result: Result<Void, WaitFailure>) {
        self[side].takeWaiter()?.resume(returning: result)
    }
}
