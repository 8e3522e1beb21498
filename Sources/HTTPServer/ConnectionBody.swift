internal import Bytes
internal import HTTPWire
internal import SystemIO
internal import Transport

/// The content of one request.
///
/// It is read from the connection on demand of the handler.
///
/// Invariant for `@unchecked`: accessed only on the loop of its connection; `interrupter` switches to it.
final class ConnectionBody: RequestBody, @unchecked Sendable {
    private enum Framing {
        case length(Int64)
        case chunked(ChunkedDecoder)
        case ended
        case failed(SourceFailure)
    }

    private let channel: Channel
    private let input: InputBuffer
    private let output: Output
    private let pool: BlockingPool
    private let pipes: ReuseCache<SplicePipe>
    private let buffers: ReuseCache<RecordBuffer>
    private let progressTimeout: Nanoseconds
    private let deadline: Nanoseconds
    private let minimumRate: UInt64
    /// Total time spent waiting for content.
    private var waited: Nanoseconds = 0
    private let maximumBytes: Int64

    private var framing: Framing
    /// The client waits for `100 Continue`, which is sent at the first demand for content.
    private var owesContinue: Bool
    private(set) var trailers = HTTPFields()
    /// Content bytes that were passed to the handler.
    private(set) var received: Int64 = 0
    /// Size of the next read; grows while reads fill it.
    private var readSize = 16_384
    /// Number of reads, to yield the loop after some.
    private var reads = 0
    /// Whether much data had arrived at the last check.
    private var isFast = false
    /// Progress of an interruption: bytes that arrived before it are still read, once.
    private var ending = Ending.none

    private enum Ending {
        case none, mayReadOnce, over
    }

    init(
        framing: BodyFraming,
        expectsContinue: Bool,
        channel: Channel,
        input: InputBuffer,
        output: Output,
        server: ServerContext
    ) {
        self.channel = channel
        self.input = input
        self.output = output
        pool = server.pool
        pipes = server.pipes
        buffers = server.buffers
        progressTimeout = server.timeouts.body
        // Most servers have no total timeout and need no clock call.
        deadline = server.timeouts.total == .max ? .max : MonotonicClock.deadline(after: server.timeouts.total)
        minimumRate = UInt64(clamping: server.configuration.minimumBodyRate)
        maximumBytes = server.configuration.maximumBodyBytes ?? .max
        switch framing {
        case .none, .length(0): self.framing = .ended
        case .length(let length) where length > maximumBytes: self.framing = .failed(.tooLarge(limit: maximumBytes))
        case .length(let length): self.framing = .length(length)
        case .chunked: self.framing = .chunked(ChunkedDecoder())
        }
        owesContinue = expectsContinue
        if case .ended = self.framing { owesContinue = false }
    }

    var remaining: Int64? {
        switch framing {
        case .length(let left): left
        case .ended: 0
        case .chunked, .failed: nil
        }
    }

    var isEnded: Bool {
        if case .ended = framing { true } else { false }
    }

    var failure: SourceFailure? {
        if case .failed(let failure) = framing { failure } else { nil }
    }

    /// The client may be waiting for a response before it sends content, so the next bytes may or may not be content.
    var isAwaitingContinue: Bool { owesContinue }

    var supportsTransfer: Bool {
        if case .length = framing { true } else { false }
    }

    var interrupter: SourceInterrupter {
        SourceInterrupter { [weak self, loop = channel.loop] failure in
            loop.execute { [weak self] in self?.interrupt(as: failure) }
        }
    }

    private func interrupt(as failure: SourceFailure) {
        switch framing {
        case .length, .chunked: channel.interruptReading(as: failure)
        case .ended, .failed: break
        }
    }

    // MARK: Piece by piece

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        do throws(SourceFailure) {
            try await sendContinue()
            while true {
                switch framing {
                case .ended: return nil
                case .failed(let failure): throw failure
                case .length(let left):
                    let piece = try await read(Int(min(Int64(maximum), left)))
                    advance(left: left - Int64(piece.count))
                    received += Int64(piece.count)
                    return piece
                case .chunked(var decoder):
                    let piece = try await nextChunk(&decoder, maximum: maximum)
                    if let piece {
                        framing = .chunked(decoder)
                        received += Int64(piece.count)
                        if received > maximumBytes { throw .tooLarge(limit: maximumBytes) }
                    } else {
                        framing = .ended
                    }
                    return piece
                }
            }
        } catch {
            framing = .failed(error)
            throw error
        }
    }

    private func nextChunk(
        _ decoder: inout ChunkedDecoder,
        maximum: Int
    ) async throws(SourceFailure) -> [UInt8]? {
        while true {
            if decoder.remainingInChunk > 0 {
                let piece = try await read(Int(min(Int64(maximum), decoder.remainingInChunk)))
                decoder.tookData(piece.count)
                return piece
            }
            let step: ChunkedDecoder.Step
            do throws(ChunkedDecoder.Failure) {
                step = try input.withSpan { span throws(ChunkedDecoder.Failure) in try decoder.next(span) }
            } catch {
                throw .malformed(error.reason)
            }
            switch step {
            case .needMore(let consumed):
                input.consume(consumed)
                if decoder.remainingInChunk == 0 { try await fill() }
            case .data(let skip, _):
                input.consume(skip)
            case .end(let consumed, let trailers):
                input.consume(consumed)
                self.trailers = trailers
                return nil
            }
        }
    }

    private func sendContinue() async throws(SourceFailure) {
        guard owesContinue else { return }
        owesContinue = false
        do throws(SinkFailure) {
            try await output.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8))
        } catch {
            throw .disconnected
        }
    }

    private func advance(left: Int64) {
        framing = left == 0 ? .ended : .length(left)
    }

    /// Returns content bytes from the buffer, or directly from the socket if the buffer is empty.
    private func read(_ maximum: Int) async throws(SourceFailure) -> [UInt8] {
        if !input.isEmpty { return input.take(maximum) }
        reads += 1
        if reads.isMultiple(of: 8), channel.mayBeReadable { await channel.loop.yield() }
        while true {
            try endIfOver()
            if !channel.mayBeReadable { try await waitReadable() }
            let size = min(maximum, readSize)
            var result = IOResult.ended
            let piece = [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
                result = channel.read(
                    into: UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[..<size])
                )
                if case .moved(let moved) = result { count = moved }
            }
            if case .moved(let count) = result {
                if count == readSize, readSize < Self.largestRead { readSize *= 2 }
                return piece
            }
            try await wait(after: result)
        }
    }

    /// Reads more bytes into the buffer.
    private func fill() async throws(SourceFailure) {
        // Decoding what is in the buffer occupies the loop, perhaps byte by byte.
        if channel.mayBeReadable { await channel.loop.yield() }
        while true {
            try endIfOver()
            if !channel.mayBeReadable { try await waitReadable() }
            let result = input.fill(from: channel, room: 16_384)
            if case .moved = result { return }
            try await wait(after: result)
        }
    }

    private func wait(after result: IOResult) async throws(SourceFailure) {
        switch result {
        case .moved: return
        case .wouldBlockReading: try await waitReadable()
        case .wouldBlockWriting:
            do throws(Channel.WaitFailure) {
                try await channel.waitWritable(until: waitDeadline)
            } catch {
                throw sourceFailure(error)
            }
        case .ended, .failed: throw .disconnected
        }
    }

    /// Waits as long as the deadlines and the minimum rate allow.
    private func waitReadable() async throws(SourceFailure) {
        let start = MonotonicClock.now
        guard waited < waitTimeout else { throw .timedOut }
        // There can be thousands of slow connections; their empty buffers must not hold memory.
        input.releaseIfEmpty()
        defer { waited += MonotonicClock.now - start }
        let end = MonotonicClock.deadline(after: waitTimeout - waited, since: start)
        try await waitReadable(until: min(waitDeadline, end))
    }

    /// Maximum total waiting time for the bytes received so far.
    private var waitTimeout: Nanoseconds {
        guard minimumRate > 0, progressTimeout != .max else { return .max }
        let earned = MonotonicClock.span(seconds: UInt64(received) / minimumRate)
        return MonotonicClock.deadline(after: progressTimeout, since: earned)
    }

    private func waitReadable(until end: Nanoseconds) async throws(SourceFailure) {
        // If much data arrives and much is still to come, a wake-up for every packet is the largest cost.
        if readSize == Self.largestRead, let remaining, remaining > Self.minimumRemainingForMark {
            channel.setReceiveLowWaterMark(Self.receiveLowWaterMark)
        }
        defer { channel.setReceiveLowWaterMark(1) }
        do throws(Channel.WaitFailure) {
            if channel.receiveLowWaterMark > 1 {
                do throws(Channel.WaitFailure) {
                    return try await channel.waitReadable(until: MonotonicClock.deadline(after: .milliseconds(20)))
                } catch {
                    guard error == .timedOut else { throw error }
                    // The connection has become slow: take what is there, however little.
                    readSize = Self.largestRead / 2
                    channel.setReceiveLowWaterMark(1)
                    if channel.readableCount > 0 { return }
                }
            }
            try await channel.waitReadable(until: end)
        } catch {
            if case .interrupted = error, ending == .none, channel.readableCount > 0 {
                ending = .mayReadOnce
                return
            }
            throw sourceFailure(error)
        }
    }

    /// Maximum bytes of one read.
    private static let largestRead = 262_144
    /// Bytes to collect before a fast connection is read again.
    private static let receiveLowWaterMark: Int32 = 131_072
    /// Remaining bytes required for that.
    private static let minimumRemainingForMark: Int64 = 1 << 20

    /// Ends the content at its deadline, and after an interruption once the bytes that had arrived before it are read.
    private func endIfOver() throws(SourceFailure) {
        // The wait alone is not enough: a byte now and then would end it before the deadline.
        if deadline != .max, MonotonicClock.now >= deadline { throw .timedOut }
        guard let interruption = channel.interruption else { return }
        if ending == .over || (ending == .none && channel.readableCount == 0) { throw interruption }
        ending = .over
        channel.noteUnreadData()
    }

    private var waitDeadline: Nanoseconds { min(deadline, MonotonicClock.deadline(after: progressTimeout)) }

    private func sourceFailure(_ failure: Channel.WaitFailure) -> SourceFailure {
        switch failure {
        case .timedOut: .timedOut
        case .interrupted(let reason): reason
        case .closed: .disconnected
        }
    }

    // MARK: Within the kernel

    func transfer(to file: OpenFile, at offset: Int64, limit: Int64, on pool: BlockingPool) async -> TransferOutcome {
        var moved: Int64 = 0
        do throws(SourceFailure) {
            try await sendContinue()
            while moved < limit {
                guard case .length(let left) = framing else { break }
                let goal = min(limit - moved, left)
                let (count, fileError) =
                    input.isEmpty
                    ? try await moveTransfer(to: file, at: offset + moved, limit: goal)
                    : await writeBuffered(to: file, at: offset + moved, limit: goal)
                moved += count
                received += count
                advance(left: left - count)
                if fileError != 0 {
                    // Bytes may have been taken from the socket that are not in the file, so nothing more can be read.
                    framing = .failed(.disconnected)
                    return TransferOutcome(moved: moved, end: .fileFailed(errno: fileError))
                }
            }
        } catch {
            framing = .failed(error)
            return TransferOutcome(moved: moved, end: .sourceFailed(error))
        }
        if let failure { return TransferOutcome(moved: moved, end: .sourceFailed(failure)) }
        return TransferOutcome(moved: moved, end: isEnded ? .endOfSource : .limitReached)
    }

    /// Writes bytes that arrived together with the head.
    private func writeBuffered(to file: OpenFile, at offset: Int64, limit: Int64) async -> (Int64, Int32) {
        let bytes = input.take(Int(min(limit, Int64(input.count))))
        return await pool.run { io -> (Int64, Int32) in
            let (written, failure) = io.write(bytes, to: file, at: offset)
            return (Int64(written), failure?.errno ?? 0)
        }
    }

    /// Moves bytes from the socket on a thread that may block on the file, until it would block.
    private func moveTransfer(
        to file: OpenFile,
        at offset: Int64,
        limit: Int64
    ) async throws(SourceFailure) -> (Int64, Int32) {
        try endIfOver()
        if !channel.mayBeReadable { try await waitReadable() }
        let transfer = SocketTransfer(
            channel: channel,
            file: file,
            offset: offset,
            limit: limit,
            isFast: isFast
        )
        let moved: Int64
        let end: SocketTransfer.End
        if let session = channel.tls {
            guard let buffer = buffers.take() ?? RecordBuffer() else {
                return try await copy(to: file, at: offset, limit: limit)
            }
            (moved, end) = await move(transfer) { RecordReader(buffer, $0, session) }
            buffers.put(buffer)
        } else {
            guard let pipe = pipes.take() ?? SplicePipe() else {
                return try await copy(to: file, at: offset, limit: limit)
            }
            (moved, end) = await move(transfer) { PipeReader(pipe: pipe, channel: $0) }
            // A pipe with bytes that could not be written must not be reused.
            if pipe.isClean { pipes.put(pipe) }
        }
        isFast = moved >= SocketTransfer.fastBytes
        switch end {
        case .limitReached: channel.noteUnreadData()
        case .fileFailed(let code): return (moved, code)
        // Moved bytes must be counted before a failed wait can throw.
        case .wouldBlock: if moved == 0 { try await waitReadable() }
        case .wouldBlockWriting:
            if moved > 0 { channel.noteUnreadData() } else { try await wait(after: .wouldBlockWriting) }
        case .ended, .socketFailed:
            if moved == 0 { throw .disconnected }
            channel.noteUnreadData()
        }
        return (moved, 0)
    }

    private func move(
        _ transfer: SocketTransfer,
        by makeReader: @escaping @Sendable (Channel) -> some SocketReader
    ) async -> (moved: Int64, end: SocketTransfer.End) {
        channel.willReadOnOtherThread()
        return await channel.lend(to: pool) { [pool] channel, io in
            transfer.move(by: makeReader(channel), io, mustHurry: { pool.hasWaiting })
        }
    }

    /// Copies through memory, if the system has no pipe left.
    private func copy(
        to file: OpenFile,
        at offset: Int64,
        limit: Int64
    ) async throws(SourceFailure) -> (Int64, Int32) {
        try await fill()
        return await writeBuffered(to: file, at: offset, limit: limit)
    }

    // MARK: After the response

    /// Reads and discards the rest of the content if it has at most `limit` bytes.
    ///
    /// - Returns: Whether the content is at its end, so that the next request can follow.
    func drain(limit: Int64) async -> Bool {
        var left = limit
        while left > 0 {
            do throws(SourceFailure) {
                guard let piece = try await next(maximum: Int(min(left, 65_536))) else { return true }
                left -= Int64(piece.count)
            } catch {
                return false
            }
        }
        return isEnded
    }
}
