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
    private let workers: RequestWorkers
    private let accepted: Listener.Accepted
    /// The client; the proxy, if it does not say for whom it connects.
    private var peer: SocketAddress
    private let tlsContext: TLSContext?
    private let input: InputBuffer
    private var state: ConnectionState
    /// What a task does next.
    private var pending: ConnectionState.Action?
    private var channel: Channel?
    private var output: Output?
    /// The content of the current request, or of the last one if its rest is discarded.
    private var body: ConnectionBody?
    /// Called when a wait is over; made once, because every request ends with a wait.
    private var whenWaited: (Result<Void, Channel.WaitFailure>) -> Void = { _ in }
    /// Watches the peer during a streamed response.
    private var watch: PeerWatch?
    /// Asked about a client that a proxy names.
    private var admitsClient: @Sendable (SocketAddress) -> Bool = { _ in true }
    /// Called when the connection has ended.
    private var hasEnded: (@Sendable () -> Void)?

    init(_ accepted: Listener.Accepted, workers: RequestWorkers, tls: TLSContext?, server: ServerContext) {
        self.accepted = accepted
        peer = accepted.peer
        self.workers = workers
        loop = workers.loop
        input = InputBuffer(workers.inputMemory)
        self.server = server
        tlsContext = tls
        state = ConnectionState(limits: server.connectionLimits, head: server.configuration.head)
    }

    // MARK: Life

    /// Serves the connection until it ends, on its loop.
    ///
    /// Call it once, from any thread.
    ///
    /// - Parameters:
    ///   - admits: Asked whether a client that a proxy names may have another connection.
    ///   - whenEnded: Called when the connection has ended.
    nonisolated func start(
        admits: @escaping @Sendable (SocketAddress) -> Bool,
        whenEnded: @escaping @Sendable () -> Void
    ) {
        loop.execute { self.assumeIsolated { $0.begin(admits, whenEnded) } }
    }

    private func begin(
        _ admits: @escaping @Sendable (SocketAddress) -> Bool,
        _ whenEnded: @escaping @Sendable () -> Void
    ) {
        hasEnded = whenEnded
        server.observer.connectionOpened()
        guard let channel = open() else { return end() }
        self.channel = channel
        output = Output(channel: channel, pool: server.pool, timeout: server.timeouts.write)
        whenWaited = { [self] in proceed(state.waited($0, now: MonotonicClock.now)) }
        let proxies = server.configuration.proxyHeaderPeers
        let isProxied = !proxies.isEmpty && proxies.contains(peer.host)
        if isProxied { admitsClient = admits }
        proceed(state.open(isProxied: isProxied, isEncrypted: channel.tls != nil, now: MonotonicClock.now))
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
        server.observer.handshakeFailed(HandshakeFailure(kind: kind, detail: detail, peerAddress: peer.host))
    }

    private func end() {
        guard let hasEnded else { return }
        self.hasEnded = nil
        channel?.close()
        channel = nil
        whenWaited = { _ in }
        server.observer.connectionClosed()
        hasEnded()
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

    /// Lets a task perform an action soon, and those that follow.
    ///
    /// The task reads each request just before it serves it: a client that gets its response early can prepare its next
    /// request meanwhile.
    private func proceed(_ first: ConnectionState.Action) {
        pending = first
        workers.serve(self)
    }

    /// Performs actions until the connection waits for its peer or has ended.
    func performPending() async {
        guard let channel, let output, var action = pending else { return end() }
        pending = nil
        while let next = performAtOnce(action, channel) {
            switch next {
            case .serve(let head): action = await serve(head, channel, output)
            case .refuse(let refusal): action = state.refused(isSent: await refuse(refusal, output))
            default: return
            }
        }
    }

    /// Performs actions that need no asynchronous call.
    ///
    /// - Returns: An action that needs one; `nil` if the connection waits for its peer or has ended.
    private func performAtOnce(_ first: ConnectionState.Action, _ channel: Channel) -> ConnectionState.Action? {
        var action = first
        while true {
            switch action {
            case .serve, .refuse: return action
            case .readProxyHeader: action = readProxyHeader(channel)
            case .shakeHands: action = shakeHands(channel)
            case .parse:
                body = nil
                action = input.withSpan { state.received($0, now: MonotonicClock.now) }
                if case .serve(let head) = action { input.consume(head.consumed) }
            case .fill(let room):
                let result = channel.mayBeReadable ? input.fill(from: channel, room: room) : .wouldBlockReading
                action = state.filled(result, now: MonotonicClock.now)
            case .waitReadable(let end):
                input.releaseIfEmpty()
                guard let known = channel.whenReadable(until: end, whenWaited) else { return nil }
                action = state.waited(known, now: MonotonicClock.now)
            case .waitWritable(let end):
                guard let known = channel.whenWritable(until: end, whenWaited) else { return nil }
                action = state.waited(known, now: MonotonicClock.now)
            case .park(let end):
                server.parked()
                action = .waitReadable(until: end)
            case .takeTurns:
                action = .parse
                if !input.isEmpty || channel.mayBeReadable {
                    yield()
                    return nil
                }
            case .takeTurnsLingering:
                yieldLingering()
                return nil
            case .shutDownWriting:
                channel.shutDownWriting()
                action = state.lingers(now: MonotonicClock.now)
            case .discard: action = state.discarded(channel.discard(), now: MonotonicClock.now)
            case .failHandshake(let kind, let detail):
                report(kind, detail)
                end()
                return nil
            case .end:
                end()
                return nil
            }
        }
    }

    /// Continues with `parse` after everything else on the loop.
    private func yield() {
        loop.execute { self.assumeIsolated { $0.proceed(.parse) } }
    }

    private func yieldLingering() {
        loop.execute { self.assumeIsolated { $0.proceed($0.state.lingers(now: MonotonicClock.now)) } }
    }

    private func readProxyHeader(_ channel: Channel) -> ConnectionState.Action {
        let header = channel.readProxyHeader()
        if case .complete(_, let client?) = header {
            peer = client
            guard admitsClient(client) else { return .end }
        }
        return state.readProxyHeader(header, now: MonotonicClock.now)
    }

    private func shakeHands(_ channel: Channel) -> ConnectionState.Action {
        guard let session = channel.tls else { return .end }
        let result = session.handshake()
        switch result {
        case .moved where session.isValidation: return .end
        // The first request may have arrived in the same packet.
        case .moved: channel.noteUnreadData()
        case .wouldBlockReading: channel.willReadOnOtherThread()
        case .wouldBlockWriting: channel.willWriteOnOtherThread()
        case .ended, .failed: break
        }
        return state.shookHands(result, detail: session.failureReason, now: MonotonicClock.now)
    }

    // MARK: One request

    private func serve(_ parsed: ParsedHead, _ channel: Channel, _ output: Output) async -> ConnectionState.Action {
        let started = MonotonicClock.now
        let id = server.nextRequestID()
        let body = ConnectionBody(parsed, channel: channel, input: input, output: output, server: server)
        self.body = body
        await body.continueToNothing()
        let response: Response
        if case .tooLarge(let limit) = body.failure {
            let reason = "the content exceeds \(limit) bytes"
            response = server.response(to: ServerRefusal(413, reason, requestID: id, head: parsed.head))
        } else {
            response = await server.handler.respond(to: request(parsed, body, id, channel, output))
        }
        // An interrupted body leaves the channel interrupted. The rest of the body must still be discarded.
        channel.clearInterruption()
        let received = body.received
        let isLast = !parsed.keepsAlive || response.closesConnection
        let endsByClosing = PreparedResponse.endsByClosing(response, to: parsed.head)
        if state.drainsContent(isLast: isLast, endsByClosing: endsByClosing, body.facts) {
            await body.drain(until: MonotonicClock.deadline(after: server.timeouts.drain))
            channel.clearInterruption()
        }
        let keepsAlive = state.willRespond(
            isLast: isLast,
            endsByClosing: endsByClosing,
            contentIsEnded: body.isEnded
        )
        let before = output.sent
        let prepared = PreparedResponse(
            response,
            to: parsed.head,
            date: server.currentDate,
            keepsAlive: keepsAlive
        )
        // Nearly every response fits into one write; an asynchronous call would only add cost.
        let count = prepared.rest == nil ? output.writeAtOnce(prepared.start) : 0
        var isWhole = prepared.rest == nil && count == prepared.start.count
        if !isWhole { isWhole = await send(prepared, from: count, output, channel) }
        server.observer.requestFinished(
            RequestSummary(
                id: id,
                method: parsed.head.method,
                status: response.status,
                trace: response.trace,
                bytesReceived: received,
                bytesSent: output.sent - before,
                duration: .nanoseconds(MonotonicClock.now - started),
                peerAddress: peer.host,
                isBroken: !isWhole,
                refusal: nil
            )
        )
        return state.responded(isWhole: isWhole)
    }

    private func request(
        _ parsed: ParsedHead,
        _ body: ConnectionBody,
        _ id: String,
        _ channel: Channel,
        _ output: Output
    ) -> Request {
        let isModern = parsed.head.version == .http1_1
        return Request(
            head: parsed.head,
            body: body,
            id: id,
            peerAddress: peer.host,
            peerPort: Int(peer.port),
            isEncrypted: channel.tls != nil,
            inform: { head throws(SinkFailure) in
                if isModern { try await output.write(ResponseHeadWriter.bytes(head)) }
            }
        )
    }

    /// Refuses a head that could not be read.
    ///
    /// - Returns: Whether the error was sent completely.
    private func refuse(_ refusal: ConnectionState.Refusal, _ output: Output) async -> Bool {
        let id = server.nextRequestID()
        var received: [UInt8] = []
        input.withSpan { for index in 0..<min($0.count, ServerRefusal.receivedLimit) { received.append($0[index]) } }
        let response = server.response(
            to: ServerRefusal(refusal.status, refusal.reason, requestID: id, received: received)
        )
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
                peerAddress: peer.host,
                isBroken: isSent == nil,
                refusal: refusal.reason
            )
        )
        return isSent != nil
    }

    // MARK: Sending

    /// - Returns: Whether the response was sent completely.
    private func send(
        _ response: PreparedResponse,
        from count: Int,
        _ output: Output,
        _ channel: Channel
    ) async -> Bool {
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
