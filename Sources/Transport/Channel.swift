package import Bytes
internal import CSystem
internal import Glibc
package import Synchronization

/// One connected socket on one event loop, plain or with TLS.
///
/// The calls that move bytes never block; `waitReadable` and `waitWritable` suspend until it is worth trying again.
///
/// Invariant for `@unchecked`: everything is touched only on `loop`, but for constants, `isCut`, which is atomic, and
/// `token`, which is set in `init` only.
package final class Channel: @unchecked Sendable {
    /// Why a wait ended without readiness.
    package enum WaitFailure: Error, Equatable, Sendable {
        case timedOut
        /// Ended by `cutReading`.
        case cut(SourceFailure)
        case closed
    }

    /// Who is told when reading or writing is worth trying.
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

    package let descriptor: Int32
    package let loop: EventLoop
    package let tls: TLSSession?
    /// Set as soon as reading is to stop; for work on other threads, which can not be woken.
    package let isCut = Atomic<Bool>(false)

    /// What names this channel to `loop`.
    private var token: UInt64?
    private var readWaiter: Waiter?
    private var writeWaiter: Waiter?
    private var readDeadline = Nanoseconds.max
    private var writeDeadline = Nanoseconds.max
    /// There may be something to read: cleared when a read found nothing, set by the kernel's event.
    private var mayRead = true
    private var mayWrite = true
    /// The peer has ended its side, which the kernel tells only once.
    private var isHungUp = false
    private var cutFailure: SourceFailure?
    private var isClosed = false
    /// A thread of a pool uses the socket: `close` leaves its last step to `lend`.
    private var isLent = false

    /// Takes over `descriptor`, a connected non-blocking socket.
    ///
    /// On `loop`.
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
    /// Waiting calls end with `.closed`.
    package func close() {
        assert(loop.isCurrent, "a channel is used on its loop")
        guard !isClosed else { return }
        isClosed = true
        if let token { loop.unwatch(self, token: token) }
        if isLent {
            // Ends what the thread does; the number of the descriptor must not be given to another connection meanwhile.
            shutdown(descriptor, Int32(SHUT_RDWR))
        } else {
            release()
        }
        resumeReader(.failure(.closed))
        resumeWriter(.failure(.closed))
    }

    private func release() {
        tls?.shutDown()
        Glibc.close(descriptor)
    }

    /// Has a thread of `pool` use the socket, and its TLS session if it has one, while nothing else does.
    ///
    /// On the loop.
    package func lend<Success: Sendable>(
        to pool: BlockingPool,
        _ work: @escaping @Sendable (Channel) -> Success
    ) async -> Success {
        assert(loop.isCurrent && !isLent, "a channel is lent by its loop, to one at a time")
        isLent = true
        let result = await pool.run { work(self) }
        isLent = false
        if isClosed { release() }
        return result
    }

    /// Tells the peer that nothing more will be sent; reading goes on.
    package func shutDownWriting() {
        tls?.shutDown()
        shutdown(descriptor, Int32(SHUT_WR))
    }

    // MARK: Moving bytes

    /// Reads what is there, at most `buffer.count` (at least 1) bytes.
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        let result = tls.map { $0.read(into: buffer) } ?? receive(into: buffer)
        // A short read emptied the socket: the next readiness is told by an event.
        switch result {
        case .moved(let count): mayRead = isHungUp || count == buffer.count || tls?.hasPending == true
        case .wouldBlockReading: mayRead = isHungUp
        case .wouldBlockWriting: mayWrite = false
        case .ended, .failed: mayRead = true
        }
        return result
    }

    /// Reads some bytes and throws them away.
    ///
    /// The buffer is on the stack; inlined into an asynchronous caller it would be in the memory of the task, for as long as
    /// the connection lives.
    @inline(never)
    package func discard() -> IOResult {
        withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 16) { read(into: $0) }
    }

    /// Writes what there is room for; `more` says that further bytes follow at once.
    package func write(_ buffer: UnsafeRawBufferPointer, more: Bool = false) -> IOResult {
        let result = tls.map { $0.write(buffer) } ?? transmit(buffer, more: more)
        switch result {
        case .wouldBlockReading: mayRead = isHungUp
        case .wouldBlockWriting: mayWrite = false
        case .moved, .ended, .failed: mayWrite = true
        }
        return result
    }

    private func receive(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return .moved(count) }
            if count == 0 { return .ended }
            let code = errno
            if code == EINTR { continue }
            return code == EAGAIN || code == EWOULDBLOCK ? .wouldBlockReading : .failed(errno: code)
        }
    }

    private func transmit(_ buffer: UnsafeRawBufferPointer, more: Bool) -> IOResult {
        let flags = Int32(MSG_NOSIGNAL) | (more ? Int32(MSG_MORE) : 0)
        while true {
            let count = send(descriptor, buffer.baseAddress, buffer.count, flags)
            if count >= 0 { return .moved(count) }
            let code = errno
            if code == EINTR { continue }
            return code == EAGAIN || code == EWOULDBLOCK ? .wouldBlockWriting : .failed(errno: code)
        }
    }

    /// Says that a call on another thread is about to read the socket; what it finds empty is told by `waitReadable`.
    package func willReadElsewhere() { mayRead = isHungUp }

    /// Says that a call on another thread stopped reading before the socket was empty.
    package func mayHaveMore() { mayRead = true }

    package func willWriteElsewhere() { mayWrite = false }

    /// Whether the kernel has told of something to read (or an end) that no read has taken yet.
    package var hasNewsToRead: Bool { mayRead }

    // MARK: Waiting

    /// Suspends until a read is worth trying.
    ///
    /// - Parameter deadline: Latest moment; kept with a tolerance of a tenth of a second.
    /// - Throws: `.timedOut`, `.cut` after `cutReading`, `.closed`.
    package func waitReadable(until deadline: Nanoseconds) async throws(WaitFailure) {
        assert(loop.isCurrent, "a channel is used on its loop")
        if let ready = readReadiness() { return try ready.get() }
        let result: Result<Void, WaitFailure> = await withUnsafeContinuation { continuation in
            // Again: between the look above and this one the task may have been queued behind an event.
            if let ready = readReadiness() { return continuation.resume(returning: ready) }
            readDeadline = deadline
            readWaiter = .task(continuation)
        }
        try result.get()
    }

    /// The same as `waitReadable` without a task that waits, for connections that may be idle for long.
    ///
    /// - Parameters:
    ///   - deadline: As for `waitReadable`.
    ///   - callback: Called once, on the loop, with what `waitReadable` would have returned or thrown.
    /// - Returns: Whether the call will come; `false` if there is nothing to wait for.
    package func park(until deadline: Nanoseconds, _ callback: @escaping (Result<Void, WaitFailure>) -> Void) -> Bool {
        assert(loop.isCurrent, "a channel is used on its loop")
        guard readReadiness() == nil else { return false }
        readDeadline = deadline
        readWaiter = .callback(callback)
        return true
    }

    /// Undoes `park`: its call will not come.
    package func unpark() {
        guard case .callback? = readWaiter else { return }
        readWaiter = nil
        readDeadline = .max
    }

    /// Suspends until a write is worth trying.
    ///
    /// - Parameter deadline: As for `waitReadable`.
    /// - Throws: `.timedOut`, `.closed`.
    package func waitWritable(until deadline: Nanoseconds) async throws(WaitFailure) {
        assert(loop.isCurrent, "a channel is used on its loop")
        if let ready = writeReadiness() { return try ready.get() }
        let result: Result<Void, WaitFailure> = await withUnsafeContinuation { continuation in
            if let ready = writeReadiness() { return continuation.resume(returning: ready) }
            writeDeadline = deadline
            writeWaiter = .task(continuation)
        }
        try result.get()
    }

    /// What a wait for reading would end with at once; `nil` if it has to wait.
    private func readReadiness() -> Result<Void, WaitFailure>? {
        if let cutFailure { return .failure(.cut(cutFailure)) }
        if isClosed { return .failure(.closed) }
        return mayRead ? .success(()) : nil
    }

    private func writeReadiness() -> Result<Void, WaitFailure>? {
        if isClosed { return .failure(.closed) }
        return mayWrite ? .success(()) : nil
    }

    /// Ends the present wait for reading and all later ones.
    ///
    /// On the loop.
    package func cutReading(as failure: SourceFailure) {
        cutFailure = failure
        isCut.store(true, ordering: .relaxed)
        resumeReader(.failure(.cut(failure)))
    }

    /// Makes reads wait for bytes, at most so many milliseconds, and spares the loop the events meanwhile; 0 ends that.
    ///
    /// For the thread to which this is lent, which must end it. Then the channel is told what it is ready for.
    package func setPatience(_ milliseconds: Int32) {
        guard let token else { return }
        if milliseconds > 0 { loop.mute(descriptor, token: token, true) }
        // Where that fails, reads do not wait.
        _ = csys_block(descriptor, milliseconds)
        if milliseconds == 0 { loop.mute(descriptor, token: token, false) }
    }

    /// What `cutReading` said.
    package var cut: SourceFailure? { cutFailure }

    /// Bytes that have come and were not read; under TLS not more than about so many.
    package var readableCount: Int { isClosed ? 0 : lentReadableCount }

    /// The same, for the thread to which this is lent.
    package var lentReadableCount: Int {
        Int(max(0, csys_bytes_readable(descriptor))) + (tls?.bufferedCount ?? 0)
    }

    /// Asks the kernel to wake nobody before so many bytes have come, or the end (SO_RCVLOWAT, socket(7)).
    package func setReceiveMark(_ bytes: Int32) {
        guard bytes != receiveMark, csys_receive_low_water(descriptor, bytes) == 0 else { return }
        receiveMark = bytes
    }

    /// See `setReceiveMark`; 1 at first.
    package private(set) var receiveMark: Int32 = 1

    /// Undoes `cutReading`, for what is read after the one that was cut.
    package func allowReading() {
        cutFailure = nil
        isCut.store(false, ordering: .relaxed)
    }

    func hungUp() { isHungUp = true }

    func becameReadable() {
        // Also with a waiter: until a read has found nothing, every wait must end at once.
        mayRead = true
        resumeReader(.success(()))
    }

    func becameWritable() {
        mayWrite = true
        resumeWriter(.success(()))
    }

    func expireWaits(now: Nanoseconds) {
        if readDeadline <= now { resumeReader(.failure(.timedOut)) }
        if writeDeadline <= now { resumeWriter(.failure(.timedOut)) }
    }

    private func resumeReader(_ result: Result<Void, WaitFailure>) {
        guard let waiter = readWaiter else { return }
        readWaiter = nil
        readDeadline = .max
        waiter.resume(returning: result)
    }

    private func resumeWriter(_ result: Result<Void, WaitFailure>) {
        guard let waiter = writeWaiter else { return }
        writeWaiter = nil
        writeDeadline = .max
        waiter.resume(returning: result)
    }
}
