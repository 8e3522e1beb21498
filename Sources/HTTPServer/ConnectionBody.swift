internal import Bytes
internal import HTTPWire
internal import SystemIO
internal import Transport

/// The content of one request, read from the connection on demand of the handler: performs what its `ContentState` says.
///
/// Invariant for `@unchecked`: accessed only on the loop of its connection; `interrupter` switches to it.
final class ConnectionBody: RequestBody, @unchecked Sendable {
    private let channel: Channel
    private let input: InputBuffer
    private let output: Output
    private let pool: BlockingPool
    private let pipes: ReuseCache<SplicePipe>
    private let buffers: ReuseCache<RecordBuffer>
    private var state: ContentState
    private var reservation = BlockReservation()

    init(_ head: ParsedHead, channel: Channel, input: InputBuffer, output: Output, server: ServerContext) {
        self.channel = channel
        self.input = input
        self.output = output
        pool = server.pool
        pipes = server.pipes
        buffers = server.buffers
        state = ContentState(
            head.framing,
            expectsContinue: head.expectsContinue,
            limits: ContentState.Limits(
                maximumBytes: server.configuration.maximumBodyBytes ?? .max,
                progress: server.timeouts.body,
                // Most servers have no total timeout and need no clock call.
                deadline: server.timeouts.total == .max ? .max : MonotonicClock.deadline(after: server.timeouts.total),
                minimumRate: UInt64(clamping: server.configuration.minimumBodyRate)
            )
        )
    }

    var remaining: Int64? { state.remaining }

    var trailers: HTTPFields { state.trailers }

    /// Content bytes that were passed to the handler.
    var received: Int64 { state.received }

    var isEnded: Bool { state.isEnded }

    var failure: SourceFailure? { state.failure }

    var supportsTransfer: Bool { state.hasLength }

    /// For `ConnectionState`.
    var facts: ConnectionState.Content {
        ConnectionState.Content(
            isEnded: state.isEnded,
            hasFailed: state.failure != nil,
            isAwaitingContinue: state.isAwaitingContinue,
            remaining: state.remaining
        )
    }

    var interrupter: SourceInterrupter {
        SourceInterrupter { [weak self, loop = channel.loop] failure in
            loop.execute { [weak self] in self?.interrupt(as: failure) }
        }
    }

    private func interrupt(as failure: SourceFailure) {
        if state.isOpen { channel.interruptReading(as: failure) }
    }

    // MARK: Piece by piece

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        do throws(SourceFailure) {
            if state.isAwaitingContinue { try await sendContinue() }
            while true {
                switch state.demand(maximum: maximum) {
                case .end: return nil
                case .fail(let failure): throw failure
                case .piece(let size):
                    let piece = input.isEmpty ? try await read(size) : input.take(size)
                    try state.took(piece.count)
                    return piece
                case .decode:
                    let (consumed, mustFill) = try input.withSpan { span throws(SourceFailure) in
                        try state.decode(span)
                    }
                    input.consume(consumed)
                    if mustFill { try await fill() }
                }
            }
        } catch {
            state.fail(error)
            throw error
        }
    }

    func arrives(_ count: Int) async -> Bool {
        if count == 0 { return true }
        guard state.hasLength, !state.isAwaitingContinue else { return false }
        // Whatever happens here, the next read tries.
        defer { channel.noteUnreadData() }
        if input.count + channel.readableCount >= count { return true }
        defer { channel.setReceiveLowWaterMark(1) }
        channel.willReadOnOtherThread()
        channel.setReceiveLowWaterMark(Int32(clamping: count - input.count))
        // Again: bytes that arrived before this are not reported.
        if input.count + channel.readableCount < count {
            _ = await channel.readability(until: MonotonicClock.now + Self.moment)
        }
        return input.count + channel.readableCount >= count
    }

    /// Nanoseconds; clients send a small content at once, though often not in the segment with the head.
    private static let moment: Nanoseconds = 50_000_000

    /// Sends `100 Continue` if no content follows it; if that fails, so does the response.
    func continueToNothing() async {
        if state.waitsForNothing { try? await sendContinue() }
    }

    private func sendContinue() async throws(SourceFailure) {
        guard state.takeContinue() else { return }
        do throws(SinkFailure) {
            try await output.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8))
        } catch {
            throw .disconnected
        }
    }

    /// Returns content bytes from the socket; the buffer is empty.
    private func read(_ maximum: Int) async throws(SourceFailure) -> [UInt8] {
        if state.beginRead(), channel.mayBeReadable { await channel.loop.yield() }
        while true {
            try await becomeReadable()
            let size = state.sizeOfRead(maximum: maximum)
            var result = IOResult.ended
            let piece = [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
                result = channel.read(
                    into: UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[..<size])
                )
                if case .moved(let moved) = result { count = moved }
            }
            if case .moved(let count) = result {
                state.didRead(count)
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
            try await becomeReadable()
            let result = input.fill(from: channel, room: 16_384)
            if case .moved = result { return }
            try await wait(after: result)
        }
    }

    // MARK: Waiting

    /// Waits until a read is worth trying.
    private func becomeReadable() async throws(SourceFailure) {
        let mustRead = try state.checkEnd(
            interruption: channel.interruption,
            arrived: channel.readableCount,
            now: MonotonicClock.now
        )
        if mustRead { channel.noteUnreadData() }
        if !channel.mayBeReadable { try await waitReadable() }
    }

    private func wait(after result: IOResult) async throws(SourceFailure) {
        if result == .wouldBlockReading { return try await waitReadable() }
        do throws(Channel.WaitFailure) {
            try await channel.wait(after: result, until: state.waitEnd(since: MonotonicClock.now))
        } catch {
            throw SourceFailure(error)
        }
    }

    /// Waits as long as the deadlines and the minimum rate allow.
    private func waitReadable() async throws(SourceFailure) {
        // There can be thousands of slow connections; their empty buffers must not hold memory.
        input.releaseIfEmpty()
        defer { channel.setReceiveLowWaterMark(1) }
        var action = state.willWait(now: MonotonicClock.now)
        while true {
            switch action {
            case .proceed: return
            case .fail(let failure): throw failure
            case .wait(let end, let collecting):
                channel.setReceiveLowWaterMark(collecting ? ContentState.lowWaterMark : 1)
                let result = await channel.readability(until: end)
                action = state.didWait(result, arrived: channel.readableCount, now: MonotonicClock.now)
            }
        }
    }

    // MARK: Within the kernel

    func transfer(to file: OpenFile, at offset: Int64, limit: Int64, on pool: BlockingPool) async -> TransferOutcome {
        let start = state.received
        var moved: Int64 { state.received - start }
        do throws(SourceFailure) {
            try await sendContinue()
            while let goal = state.transferable(limit: limit - moved) {
                let code =
                    input.isEmpty
                    ? try await move(to: file, at: offset + moved, limit: goal)
                    : await writeBuffered(to: file, at: offset + moved, limit: goal)
                if code != 0 { return TransferOutcome(moved: moved, end: .fileFailed(errno: code)) }
            }
        } catch {
            state.fail(error)
            return TransferOutcome(moved: moved, end: .sourceFailed(error))
        }
        if let failure { return TransferOutcome(moved: moved, end: .sourceFailed(failure)) }
        return TransferOutcome(moved: moved, end: isEnded ? .endOfSource : .limitReached)
    }

    /// Moves bytes from the socket on a thread that may block on the file, until it would block.
    ///
    /// - Returns: `errno` if the file failed, otherwise 0.
    private func move(to file: OpenFile, at offset: Int64, limit: Int64) async throws(SourceFailure) -> Int32 {
        try await becomeReadable()
        let transfer = SocketTransfer(
            channel: channel,
            file: file,
            offset: offset,
            limit: limit,
            isFast: state.isFast,
            reservation: reservation
        )
        guard let outcome = await moved(by: transfer) else {
            // The system has no pipe left: through memory.
            try await fill()
            return await writeBuffered(to: file, at: offset, limit: limit)
        }
        reservation = outcome.reservation
        switch state.transferred(outcome.moved, outcome.end) {
        case .proceed: break
        case .proceedUnreported: channel.noteUnreadData()
        case .waitReadable: try await waitReadable()
        case .waitWritable: try await wait(after: .wouldBlockWriting)
        case .fail(let failure): throw failure
        case .failFile(let code): return code
        }
        return 0
    }

    /// - Returns: `nil` if the system has no pipe or no memory left.
    private func moved(by transfer: SocketTransfer) async -> SocketTransfer.Outcome? {
        if let session = channel.tls {
            guard let buffer = buffers.take() ?? RecordBuffer() else { return nil }
            defer { buffers.put(buffer) }
            return await move(transfer) { RecordReader(buffer, $0, session) }
        }
        guard let pipe = pipes.take() ?? SplicePipe() else { return nil }
        // A pipe with bytes that could not be written must not be reused.
        defer { if pipe.isClean { pipes.put(pipe) } }
        return await move(transfer) { PipeReader(pipe: pipe, channel: $0) }
    }

    private func move(
        _ transfer: SocketTransfer,
        by makeReader: @escaping @Sendable (Channel) -> some SocketReader
    ) async -> SocketTransfer.Outcome {
        channel.willReadOnOtherThread()
        return await channel.lend(to: pool) { [pool] channel, io in
            transfer.move(by: makeReader(channel), io, mustHurry: { pool.hasWaiting })
        }
    }

    /// Writes bytes that arrived together with the head.
    ///
    /// - Returns: `errno` if the file failed, otherwise 0.
    private func writeBuffered(to file: OpenFile, at offset: Int64, limit: Int64) async -> Int32 {
        let bytes = input.take(Int(min(limit, Int64(input.count))))
        let (count, code) = await pool.run { io -> (Int64, Int32) in
            let (written, failure) = io.write(bytes, to: file, at: offset)
            return (Int64(written), failure?.errno ?? 0)
        }
        state.wrote(count)
        if code != 0 { state.fail(.disconnected) }
        return code
    }

    // MARK: Before the response

    /// Reads and discards the rest of the content, which is then at its end or has failed.
    func drain(until end: Nanoseconds) async {
        state.endWaits(at: end)
        while (try? await next(maximum: 65_536)) != nil {}
    }
}
