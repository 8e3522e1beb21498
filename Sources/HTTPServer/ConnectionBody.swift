internal import Bytes
internal import Glibc
internal import HTTPWire
internal import Transport

/// The content of one request, read from its connection when its handler asks for it.
///
/// Invariant for `@unchecked`: touched only on the loop of its connection; `interrupter` hops there.
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
    /// How long the content was waited for.
    private var waited: Nanoseconds = 0
    private let maximumBytes: Int64

    private var framing: Framing
    /// The client waits for `100 Continue`, which goes out when the content is first asked for.
    private var owesContinue: Bool
    private(set) var trailers = HTTPFields()
    /// Content bytes that were handed out.
    private(set) var received: Int64 = 0
    /// Size of the next read: grows while reads come back full.
    private var readSize = 16_384
    /// How many reads there were, to give way after some.
    private var reads = 0
    /// The connection brought much when it was last asked.
    private var isFast = false
    /// How far the end after an interruption has come: what had come before it is still read, once.
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
        progressTimeout = server.spans.body
        // Most have no limit, and need no look at the clock.
        deadline = server.spans.total == .max ? .max : MonotonicClock.deadline(after: server.spans.total)
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

    /// The client may be waiting for an answer before it sends content, so what comes next may be content or not.
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
        case .length, .chunked: channel.cutReading(as: failure)
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

    /// Content bytes, from the buffer if it has any, else straight from the socket.
    private func read(_ maximum: Int) async throws(SourceFailure) -> [UInt8] {
        if !input.isEmpty { return input.take(maximum) }
        reads += 1
        if reads.isMultiple(of: 8), channel.hasNewsToRead { await channel.loop.giveWay() }
        while true {
            try endIfOver()
            if !channel.hasNewsToRead { try await waitReadable() }
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

    /// Reads more into the buffer.
    private func fill() async throws(SourceFailure) {
        // What fills the buffer is taken apart on the loop, perhaps byte by byte.
        if channel.hasNewsToRead { await channel.loop.giveWay() }
        while true {
            try endIfOver()
            if !channel.hasNewsToRead { try await waitReadable() }
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

    /// Waits as long as deadlines and the least rate allow.
    private func waitReadable() async throws(SourceFailure) {
        let start = MonotonicClock.now
        guard waited < patience else { throw .timedOut }
        // There may be thousands of slow ones, with nothing in their buffers.
        input.releaseIfEmpty()
        defer { waited += MonotonicClock.now - start }
        let end = MonotonicClock.deadline(after: patience - waited, since: start)
        try await waitReadable(until: min(waitDeadline, end))
    }

    /// How long all waits may take together for the bytes that have come.
    private var patience: Nanoseconds {
        guard minimumRate > 0, progressTimeout != .max else { return .max }
        let earned = MonotonicClock.span(seconds: UInt64(received) / minimumRate)
        return MonotonicClock.deadline(after: progressTimeout, since: earned)
    }

    private func waitReadable(until end: Nanoseconds) async throws(SourceFailure) {
        // Where much comes and much is still to come, being woken for every packet costs more than anything else.
        if readSize == Self.largestRead, let remaining, remaining > Self.markedBytes {
            channel.setReceiveMark(Self.receiveMark)
        }
        defer { channel.setReceiveMark(1) }
        do throws(Channel.WaitFailure) {
            if channel.receiveMark > 1 {
                do throws(Channel.WaitFailure) {
                    return try await channel.waitReadable(until: MonotonicClock.deadline(after: .milliseconds(20)))
                } catch {
                    guard error == .timedOut else { throw error }
                    // It has become slow: take what there is, however little.
                    readSize = Self.largestRead / 2
                    channel.setReceiveMark(1)
                    if channel.readableCount > 0 { return }
                }
            }
            try await channel.waitReadable(until: end)
        } catch {
            if case .cut = error, ending == .none, channel.readableCount > 0 {
                ending = .mayReadOnce
                return
            }
            throw sourceFailure(error)
        }
    }

    /// Bytes of one read at the most.
    private static let largestRead = 262_144
    /// Bytes that are gathered before a fast connection is read again.
    private static let receiveMark: Int32 = 131_072
    /// Bytes that must still be to come for that.
    private static let markedBytes: Int64 = 1 << 20

    /// Ends the content after an interruption, as soon as what had come by then was read, and when its time is over.
    private func endIfOver() throws(SourceFailure) {
        // Asked here as well as by the wait, which a byte now and then ends before its time.
        if deadline != .max, MonotonicClock.now >= deadline { throw .timedOut }
        guard let cut = channel.cut else { return }
        if ending == .over || (ending == .none && channel.readableCount == 0) { throw cut }
        ending = .over
        channel.mayHaveMore()
    }

    private var waitDeadline: Nanoseconds { min(deadline, MonotonicClock.deadline(after: progressTimeout)) }

    private func sourceFailure(_ failure: Channel.WaitFailure) -> SourceFailure {
        switch failure {
        case .timedOut: .timedOut
        case .cut(let reason): reason
        case .closed: .disconnected
        }
    }

    // MARK: Within the kernel

    func transfer(to descriptor: Int32, at offset: Int64, limit: Int64) async -> TransferOutcome {
        var moved: Int64 = 0
        do throws(SourceFailure) {
            try await sendContinue()
            while moved < limit {
                guard case .length(let left) = framing else { break }
                let goal = min(limit - moved, left)
                let (count, fileError) =
                    input.isEmpty
                    ? try await moveStretch(to: descriptor, at: offset + moved, limit: goal)
                    : await writeBuffered(to: descriptor, at: offset + moved, limit: goal)
                moved += count
                received += count
                advance(left: left - count)
                if fileError != 0 {
                    // Bytes may have been taken from the socket that are not in the file: nothing more can be read.
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

    /// Writes what came together with the head.
    private func writeBuffered(to descriptor: Int32, at offset: Int64, limit: Int64) async -> (Int64, Int32) {
        let bytes = input.take(Int(min(limit, Int64(input.count))))
        return await pool.run { () -> (Int64, Int32) in
            var written = 0
            while written < bytes.count {
                let count = bytes.withUnsafeBytes { buffer in
                    pwrite(
                        descriptor,
                        buffer.baseAddress.map { $0 + written },
                        bytes.count - written,
                        Int(offset) + written
                    )
                }
                if count > 0 {
                    written += count
                } else if count < 0, errno == EINTR {
                    continue
                } else {
                    return (Int64(written), count == 0 ? EIO : errno)
                }
            }
            return (Int64(written), 0)
        }
    }

    /// One stay of the socket's bytes on a thread that may block on the file.
    private func moveStretch(
        to descriptor: Int32,
        at offset: Int64,
        limit: Int64
    ) async throws(SourceFailure) -> (Int64, Int32) {
        try endIfOver()
        if !channel.hasNewsToRead { try await waitReadable() }
        let stretch = Stretch(
            channel: channel,
            file: descriptor,
            offset: offset,
            limit: limit,
            isFast: isFast
        )
        let moved: Int64
        let end: Stretch.End
        if let session = channel.tls {
            guard let buffer = buffers.take() ?? RecordBuffer() else {
                return try await copy(to: descriptor, at: offset, limit: limit)
            }
            (moved, end) = await move(stretch) { RecordMeans(buffer, $0, session) }
            buffers.giveBack(buffer)
        } else {
            guard let pipe = pipes.take() ?? SplicePipe() else {
                return try await copy(to: descriptor, at: offset, limit: limit)
            }
            (moved, end) = await move(stretch) { PipeMeans(pipe: pipe, channel: $0) }
            // What is left in it could not be written.
            if pipe.isClean { pipes.giveBack(pipe) }
        }
        isFast = moved >= Stretch.fastBytes
        switch end {
        case .limitReached: channel.mayHaveMore()
        case .fileFailed(let code): return (moved, code)
        // Whatever was moved must be counted before a failure to wait can be thrown.
        case .wouldBlock: if moved == 0 { try await waitReadable() }
        case .wouldBlockWriting:
            if moved > 0 { channel.mayHaveMore() } else { try await wait(after: .wouldBlockWriting) }
        case .ended, .socketFailed:
            if moved == 0 { throw .disconnected }
            channel.mayHaveMore()
        }
        return (moved, 0)
    }

    private func move(
        _ stretch: Stretch,
        by means: @escaping @Sendable (Channel) -> some BulkMeans
    ) async -> (moved: Int64, end: Stretch.End) {
        channel.willReadElsewhere()
        return await channel.lend(to: pool) { [pool] channel in
            stretch.move(by: means(channel), mustHurry: { pool.hasWaiting })
        }
    }

    /// Through memory, when the system has no pipe to give.
    private func copy(
        to descriptor: Int32,
        at offset: Int64,
        limit: Int64
    ) async throws(SourceFailure) -> (Int64, Int32) {
        try await fill()
        return await writeBuffered(to: descriptor, at: offset, limit: limit)
    }

    // MARK: After the answer

    /// Reads and throws away what is left, if it is at most `limit` bytes.
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
