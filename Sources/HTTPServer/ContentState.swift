internal import Bytes
internal import HTTPWire
internal import SystemIO
internal import Transport

/// The content of one request as a value: its framing, limits and deadlines, and no system call, clock or task.
///
/// `ConnectionBody` performs what the methods return and reports the results.
struct ContentState {
    struct Limits {
        var maximumBytes = Int64.max
        /// Maximum time without a byte.
        var progress = Nanoseconds.max
        /// When the whole content must have arrived.
        var deadline = Nanoseconds.max
        /// `ServerConfiguration.minimumBodyRate` in bytes per second, where 0 means none.
        var minimumRate: UInt64 = 0
    }

    private enum Framing: Equatable {
        /// Bytes that are still to come.
        case length(Int64)
        case chunked
        case ended
        case failed(SourceFailure)
    }

    private var limits: Limits
    private var framing: Framing
    private var decoder = ChunkedDecoder()
    private var owesContinue: Bool
    private(set) var trailers = HTTPFields()
    /// Content bytes that were passed to the handler.
    private(set) var received: Int64 = 0

    /// Size of the next read; grows while reads fill it.
    private var readSize = 16_384
    /// Reads of the socket, to let other connections run after some.
    private var reads = 0
    /// Whether much data had arrived at the last transfer.
    private(set) var isFast = false

    /// Total time spent waiting for content.
    private var waited: Nanoseconds = 0
    private var wait = Wait()
    /// Progress of an interruption: bytes that arrived before it are still read, once.
    private var ending = Ending.none

    private enum Ending {
        case none, mayReadOnce, over
    }

    private struct Wait {
        var start: Nanoseconds = 0
        var end: Nanoseconds = 0
        /// Waits for many bytes rather than for one.
        var collects = false
    }

    init(_ content: BodyFraming, expectsContinue: Bool, limits: Limits) {
        self.limits = limits
        switch content {
        case .none, .length(0): framing = .ended
        case .length(let length) where length > limits.maximumBytes:
            framing = .failed(.tooLarge(limit: limits.maximumBytes))
        case .length(let length): framing = .length(length)
        case .chunked: framing = .chunked
        }
        owesContinue = expectsContinue
    }

    var remaining: Int64? {
        switch framing {
        case .length(let left): left
        case .ended: 0
        case .chunked, .failed: nil
        }
    }

    var isEnded: Bool { framing == .ended }

    /// More bytes may arrive.
    var isOpen: Bool {
        switch framing {
        case .length, .chunked: true
        case .ended, .failed: false
        }
    }

    var hasLength: Bool { if case .length = framing { true } else { false } }

    var failure: SourceFailure? { if case .failed(let failure) = framing { failure } else { nil } }

    /// The client may be waiting for a response before it sends content, so the next bytes may or may not be content.
    var isAwaitingContinue: Bool { owesContinue && !isEnded }

    /// Whether the client waits although no content can follow, so that nothing is gained by a refusal without a 100.
    var waitsForNothing: Bool { owesContinue && isEnded }

    /// Whether to send `100 Continue` now: once, at the first demand for content.
    mutating func takeContinue() -> Bool {
        defer { owesContinue = false }
        return owesContinue
    }

    /// Nothing more can be read.
    mutating func fail(_ failure: SourceFailure) { framing = .failed(failure) }

    // MARK: Piece by piece

    enum Demand: Equatable {
        /// Take at least one and at most this many bytes from the buffer or, if it is empty, from the socket; call `took`.
        case piece(Int)
        /// Pass the buffer to `decode`.
        case decode
        case end
        case fail(SourceFailure)
    }

    func demand(maximum: Int) -> Demand {
        switch framing {
        case .length(let left): .piece(Int(min(Int64(maximum), left)))
        case .chunked where decoder.remainingInChunk > 0:
            .piece(Int(min(Int64(maximum), decoder.remainingInChunk)))
        case .chunked: .decode
        case .ended: .end
        case .failed(let failure): .fail(failure)
        }
    }

    mutating func took(_ count: Int) throws(SourceFailure) {
        received += Int64(count)
        switch framing {
        case .length(let left): advance(left: left - Int64(count))
        case .chunked:
            decoder.tookData(count)
            if received > limits.maximumBytes { throw .tooLarge(limit: limits.maximumBytes) }
        case .ended, .failed: break
        }
    }

    private mutating func advance(left: Int64) { framing = left == 0 ? .ended : .length(left) }

    /// Decodes the framing of chunks.
    ///
    /// - Parameter buffer: All bytes that were received and not used.
    /// - Returns: How many of them were framing, and whether more are needed in the buffer.
    /// - Throws: `.malformed`.
    mutating func decode(_ buffer: Span<UInt8>) throws(SourceFailure) -> (consumed: Int, mustFill: Bool) {
        let step: ChunkedDecoder.Step
        do throws(ChunkedDecoder.Failure) {
            step = try decoder.next(buffer)
        } catch {
            throw .malformed(error.reason)
        }
        switch step {
        case .needMore(let consumed): return (consumed, decoder.remainingInChunk == 0)
        case .data(let skip, _): return (skip, false)
        case .end(let consumed, let trailers):
            self.trailers = trailers
            framing = .ended
            return (consumed, false)
        }
    }

    // MARK: Reading the socket

    /// Maximum bytes of one read.
    static let largestRead = 262_144

    /// The size of the next read into a piece of at most `maximum` bytes.
    func sizeOfRead(maximum: Int) -> Int { min(maximum, readSize) }

    /// Counts a read.
    ///
    /// - Returns: Whether other connections of the loop should run first.
    mutating func beginRead() -> Bool {
        reads += 1
        return reads.isMultiple(of: 8)
    }

    /// - Parameter count: Bytes of a read, which grows while it is filled.
    mutating func didRead(_ count: Int) {
        if count == readSize, readSize < Self.largestRead { readSize *= 2 }
    }

    /// Ends the content at its deadline, and after an interruption once the bytes that had arrived before it are read.
    ///
    /// - Parameters:
    ///   - interruption: Why the socket was interrupted, if it was.
    ///   - arrived: Bytes that arrived and were not read.
    ///   - now: The time.
    /// - Returns: Whether bytes must be read now although no event may report them.
    /// - Throws: `.timedOut`, or the interruption.
    mutating func checkEnd(
        interruption: SourceFailure?,
        arrived: @autoclosure () -> Int,
        now: @autoclosure () -> Nanoseconds
    ) throws(SourceFailure) -> Bool {
        // The wait alone is not enough: a byte now and then would end it before the deadline.
        if limits.deadline != .max, now() >= limits.deadline { throw .timedOut }
        guard let interruption else { return false }
        if ending == .over || (ending == .none && arrived() == 0) { throw interruption }
        ending = .over
        return true
    }

    // MARK: Waiting

    enum WaitAction: Equatable {
        /// Wait until the socket is readable and report to `didWait`.
        ///
        /// - Parameter collecting: At best until many bytes have arrived (`lowWaterMark`).
        case wait(until: Nanoseconds, collecting: Bool)
        case proceed
        case fail(SourceFailure)
    }

    /// Bytes to collect before a fast connection is read again.
    static let lowWaterMark: Int32 = 131_072
    /// Remaining bytes required for that.
    static let minimumRemainingToCollect: Int64 = 1 << 20
    /// How long bytes are collected.
    static let collectingTime: Nanoseconds = 20_000_000

    /// Content that has not arrived by then fails.
    mutating func endWaits(at deadline: Nanoseconds) { limits.deadline = min(limits.deadline, deadline) }

    /// When a wait for one more byte, or for room to write, ends.
    func waitEnd(since now: Nanoseconds) -> Nanoseconds {
        min(limits.deadline, MonotonicClock.deadline(after: limits.progress, since: now))
    }

    /// There is nothing to read.
    mutating func willWait(now: Nanoseconds) -> WaitAction {
        let allowance = waitAllowance
        guard waited < allowance else { return .fail(.timedOut) }
        let end = MonotonicClock.deadline(after: allowance - waited, since: now)
        // If much data arrives and much is still to come, a wake-up for every packet is the largest cost.
        let collects = readSize == Self.largestRead && (remaining ?? 0) > Self.minimumRemainingToCollect
        wait = Wait(start: now, end: min(waitEnd(since: now), end), collects: collects)
        return collects
            ? .wait(until: now + Self.collectingTime, collecting: true)
            : .wait(until: wait.end, collecting: false)
    }

    /// The wait is over.
    ///
    /// - Parameters:
    ///   - result: Why.
    ///   - arrived: Bytes that arrived and were not read.
    ///   - now: The time.
    /// - Returns: The next action, which can be another wait.
    mutating func didWait(
        _ result: Result<Void, Channel.WaitFailure>,
        arrived: @autoclosure () -> Int,
        now: Nanoseconds
    ) -> WaitAction {
        if wait.collects, case .failure(.timedOut) = result {
            // The connection has become slow: take what is there, however little.
            readSize = Self.largestRead / 2
            wait.collects = false
            if arrived() == 0 { return .wait(until: wait.end, collecting: false) }
        } else if case .failure(let failure) = result {
            guard case .interrupted = failure, ending == .none, arrived() > 0 else {
                return .fail(SourceFailure(failure))
            }
            ending = .mayReadOnce
        }
        waited += now - wait.start
        return .proceed
    }

    /// Maximum total waiting time for the bytes received so far.
    private var waitAllowance: Nanoseconds {
        guard limits.minimumRate > 0, limits.progress != .max else { return .max }
        let earned = MonotonicClock.span(seconds: UInt64(received) / limits.minimumRate)
        return MonotonicClock.deadline(after: limits.progress, since: earned)
    }

    // MARK: Transfers into a file

    /// The most bytes to transfer, of a wish for `limit`; `nil` if there is nothing to transfer.
    func transferable(limit: Int64) -> Int64? {
        guard limit > 0, case .length(let left) = framing else { return nil }
        return min(limit, left)
    }

    enum TransferAction: Equatable {
        /// Transfer again.
        case proceed
        /// Transfer again, for there may be bytes that no event will report.
        case proceedUnreported
        case waitReadable
        case waitWritable
        case fail(SourceFailure)
        case failFile(errno: Int32)
    }

    /// Bytes of the socket were moved into the file.
    mutating func transferred(_ moved: Int64, _ end: SocketTransfer.End) -> TransferAction {
        isFast = moved >= SocketTransfer.fastBytes
        // First: moved bytes count whatever comes after them.
        wrote(moved)
        switch end {
        case .limitReached: return .proceedUnreported
        case .wouldBlock: return moved == 0 ? .waitReadable : .proceed
        case .wouldBlockWriting: return moved == 0 ? .waitWritable : .proceedUnreported
        case .ended, .socketFailed: return moved == 0 ? .fail(.disconnected) : .proceedUnreported
        case .fileFailed(let code):
            // Bytes may have been taken from the socket that are not in the file, so nothing more can be read.
            fail(.disconnected)
            return .failFile(errno: code)
        }
    }

    /// Bytes of the buffer were written to the file.
    mutating func wrote(_ count: Int64) {
        guard case .length(let left) = framing else { return }
        received += count
        advance(left: left - count)
    }
}

extension SourceFailure {
    init(_ failure: Channel.WaitFailure) {
        self =
            switch failure {
            case .timedOut: .timedOut
            case .interrupted(let reason): reason
            case .closed: .disconnected
            }
    }
}
