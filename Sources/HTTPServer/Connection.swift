internal import Bytes
internal import Glibc
internal import HTTPWire
internal import SystemIO
internal import Transport

/// One connection on its loop: performs what its `ConnectionState` says, one action after the other.
actor Connection {
    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let server: ServerContext
    private let accepted: Listener.Accepted
    private let tlsContext: TLSContext?
    private let input = InputBuffer()
    private var state: ConnectionState
    private var channel: Channel?
    private var output: Output?
    /// The content of the current request, or of the last one if its rest is discarded.
    private var body: ConnectionBody?
    /// Watches the peer during a streamed response.
    private var watch: PeerWatch?
    /// Called when the connection has ended.
    private var hasEnded: (@Sendable () -> Void)?

    init(_ accepted: Listener.Accepted, loop: EventLoop, tls: TLSContext?, server: ServerContext) {
        self.accepted = accepted
        self.loop = loop
        self.server = server
        tlsContext = tls
        state = ConnectionState(limits: server.connectionLimits, head: server.configuration.head)
    }

    // MARK: Life

    /// Serves the connection until it ends, in tasks on its loop.
    ///
    /// Call it once, from any thread.
    nonisolated func start(whenEnded: @escaping @Sendable () -> Void) {
        Task(executorPreference: loop) { await self.begin(whenEnded) }
    }

    private func begin(_ whenEnded: @escaping @Sendable () -> Void) async {
        hasEnded = whenEnded
        server.observer.connectionOpened()
        guard let channel = open() else { return end() }
        self.channel = channel
        output = Output(channel: channel, pool: server.pool, timeout: server.timeouts.write)
        await perform(state.open(isEncrypted: channel.tls != nil, now: MonotonicClock.now))
    }

    private func open() -> Channel? {
        let session: TLSSession?
        do {
            session = try tlsContext.map { try TLSSession($0, descriptor: accepted.descriptor) }
        } catch {
            report(.protocol, "\(error)")
            close(accepted.descriptor)
            return nil
        }
        // On failure it closes the descriptor itself.
        return try? Channel(descriptor: accepted.descriptor, loop: loop, tls: session)
    }

    private func report(_ kind: HandshakeFailure.Kind, _ detail: String?) {
        server.observer.handshakeFailed(HandshakeFailure(kind: kind, detail: detail, peerAddress: accepted.peer.host))
    }

    private func end() {
        channel?.close()
        channel = nil
        server.observer.connectionClosed()
        hasEnded?()
        hasEnded = nil
    }

    /// The server stops: an idle connection ends now, a busy one after its response; an endless response ends now.
    func drain() {
        watch?.stop()
        if state.stop() { channel?.interruptReading(as: .shuttingDown) }
    }

    /// The grace time is over: the rest of a request's content is cut off.
    func cutOff() {
        body?.interrupter.interrupt(as: .shuttingDown)
    }

    /// Ends the connection at once.
    func abort() {
        channel?.close()
    }

    // MARK: Actions

    /// Performs actions until the connection ends or is parked.
    ///
    /// An idle connection has no task: the memory of a task's calls is several times larger than everything else of the
    /// connection. The next request starts a new task.
    private func perform(_ first: ConnectionState.Action) async {
        guard let channel, let output else { return end() }
        var action = first
        while true {
            switch action {
            case .shakeHands: action = shakeHands(channel)
            case .parse:
                body = nil
                action = input.withSpan { state.received($0, now: MonotonicClock.now) }
            case .fill(let room):
                let result = channel.mayBeReadable ? input.fill(from: channel, room: room) : .wouldBlockReading
                action = state.filled(result, now: MonotonicClock.now)
            case .waitReadable(let end):
                input.releaseIfEmpty()
                action = state.waited(await channel.readability(until: end), now: MonotonicClock.now)
            case .waitWritable(let end):
                action = state.waited(await channel.writability(until: end), now: MonotonicClock.now)
            case .park(let end):
                if park(channel, until: end) { return server.parked() }
                action = state.waited(.success(()), now: MonotonicClock.now)
            case .takeTurns:
                if !input.isEmpty || channel.mayBeReadable { await loop.yield() }
                action = .parse
            case .serve(let head):
                input.consume(head.consumed)
                action = await serve(head, channel, output)
            case .drainContent(let limit):
                action = state.drained(isWhole: await body?.drain(limit: limit) ?? true)
            case .refuse(let refusal): action = state.refused(isSent: await refuse(refusal, output))
            case .shutDownWriting:
                channel.shutDownWriting()
                action = state.lingers(now: MonotonicClock.now)
            case .discard: action = state.discarded(channel.discard(), now: MonotonicClock.now)
            case .takeTurnsLingering:
                await loop.yield()
                action = state.lingers(now: MonotonicClock.now)
            case .failHandshake(let kind, let detail):
                report(kind, detail)
                return end()
            case .end: return end()
            }
        }
    }

    private func shakeHands(_ channel: Channel) -> ConnectionState.Action {
        guard let session = channel.tls else { return .end }
        let result = session.handshake()
        switch result {
        // The first request may have arrived in the same packet.
        case .moved: channel.noteUnreadData()
        case .wouldBlockReading: channel.willReadOnOtherThread()
        case .wouldBlockWriting: channel.willWriteOnOtherThread()
        case .ended, .failed: break
        }
        return state.shookHands(result, detail: session.failureReason, now: MonotonicClock.now)
    }

    /// - Returns: `false` if there is nothing to wait for.
    private func park(_ channel: Channel, until end: Nanoseconds) -> Bool {
        channel.park(until: end) { [self] result in
            Task(executorPreference: loop) { await self.unpark(result) }
        }
    }

    private func unpark(_ result: Result<Void, Channel.WaitFailure>) async {
        await perform(state.waited(result, now: MonotonicClock.now))
    }

    // MARK: One request

    private func serve(_ parsed: ParsedHead, _ channel: Channel, _ output: Output) async -> ConnectionState.Action {
        let started = MonotonicClock.now
        let id = server.nextRequestID()
        let body = ConnectionBody(parsed, channel: channel, input: input, output: output, server: server)
        self.body = body
        let response = await response(to: parsed, body, id, channel, output)
        // An interrupted body leaves the channel interrupted. The rest of the body must still be discarded.
        channel.clearInterruption()
        let keepsAlive = state.willRespond(
            isLast: !parsed.keepsAlive || response.closesConnection,
            endsByClosing: PreparedResponse.endsByClosing(response, to: parsed.head),
            body.facts
        )
        let before = output.sent
        let isWhole = await send(
            PreparedResponse(response, to: parsed.head, date: server.currentDate, keepsAlive: keepsAlive),
            output,
            channel
        )
        server.observer.requestFinished(
            RequestSummary(
                id: id,
                method: parsed.head.method,
                status: response.status,
                trace: response.trace,
                bytesReceived: body.received,
                bytesSent: output.sent - before,
                duration: .nanoseconds(MonotonicClock.now - started),
                peerAddress: accepted.peer.host,
                isBroken: !isWhole,
                refusal: nil
            )
        )
        return state.responded(isWhole: isWhole, contentIsEnded: body.isEnded)
    }

    private func response(
        to parsed: ParsedHead,
        _ body: ConnectionBody,
        _ id: String,
        _ channel: Channel,
        _ output: Output
    ) async -> Response {
        if case .tooLarge(let limit) = body.failure {
            return ServerErrors.response(413, detail: "the content exceeds \(limit) bytes", requestID: id)
        }
        let isModern = parsed.head.version == .http1_1
        return await server.handler.respond(
            to: Request(
                head: parsed.head,
                body: body,
                id: id,
                peerAddress: accepted.peer.host,
                peerPort: Int(accepted.peer.port),
                isEncrypted: channel.tls != nil,
                inform: { head throws(SinkFailure) in
                    if isModern { try await output.write(ResponseHeadWriter.bytes(head)) }
                }
            )
        )
    }

    /// Refuses a head that could not be read.
    ///
    /// - Returns: Whether the error was sent completely.
    private func refuse(_ refusal: ConnectionState.Refusal, _ output: Output) async -> Bool {
        let id = server.nextRequestID()
        let response = ServerErrors.response(refusal.status, detail: refusal.reason, requestID: id)
        let isSent: Void? = try? await output.write(PreparedResponse.refusal(response, date: server.currentDate))
        server.observer.requestFinished(
            RequestSummary(
                id: id,
                method: nil,
                status: response.status,
                trace: response.trace,
                bytesReceived: 0,
                bytesSent: output.sent,
                duration: .zero,
                peerAddress: accepted.peer.host,
                isBroken: isSent == nil,
                refusal: refusal.reason
            )
        )
        return isSent != nil
    }

    // MARK: Sending

    /// - Returns: Whether the response was sent completely.
    private func send(_ response: PreparedResponse, _ output: Output, _ channel: Channel) async -> Bool {
        // Nearly every response fits into one write; an asynchronous call would only add cost.
        let count = response.rest == nil ? output.writeAtOnce(response.start) : 0
        if count == response.start.count { return true }
        do {
            try await output.write(response.start, from: count, more: response.rest != nil)
            try await sendRest(of: response, output, channel)
            return true
        } catch {
            return false
        }
    }

    private func sendRest(of response: PreparedResponse, _ output: Output, _ channel: Channel) async throws {
        switch response.rest {
        case nil, .empty: return
        case .bytes(let bytes): try await output.write(bytes)
        case .file(let region): try await output.send(region)
        case .stream(let length, let produce):
            let watch = PeerWatch(channel: channel, input: input, isStopping: state.isStopping)
            self.watch = watch
            defer {
                watch.end()
                self.watch = nil
            }
            let sink = ContentSink(output: output, length: length, isChunked: response.isChunked, watch: watch)
            let trailers = try await produce(sink)
            if let left = sink.remaining, left > 0 { throw SinkFailure.lengthMismatch }
            if response.isChunked { try await output.write(ChunkedEncoder.terminator(trailers: trailers)) }
        }
    }
}
