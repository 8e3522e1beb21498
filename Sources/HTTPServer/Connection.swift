internal import Bytes
internal import Glibc
internal import HTTPWire
internal import SystemIO
internal import Transport

/// One connection: reads requests and sends their responses in order, on its loop.
actor Connection {
    private enum Phase {
        /// Between requests, or after the last response: can be closed at once when the server stops.
        case idle
        case busy
    }

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let server: ServerContext
    private let accepted: Listener.Accepted
    private let tlsContext: TLSContext?
    private let input = InputBuffer()
    private var parser: RequestHeadParser
    private var channel: Channel?
    private var output: Output?
    private var body: ConnectionBody?
    /// Watches the peer during a streamed response.
    private var watch: PeerWatch?
    private var phase = Phase.busy
    private var isDraining = false
    /// Called when the connection has ended.
    private var hasEnded: (@Sendable () -> Void)?

    init(_ accepted: Listener.Accepted, loop: EventLoop, tls: TLSContext?, server: ServerContext) {
        self.accepted = accepted
        self.loop = loop
        self.server = server
        tlsContext = tls
        parser = RequestHeadParser(limits: server.configuration.head)
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
        if let channel = await open() {
            output = Output(channel: channel, pool: server.pool, timeout: server.timeouts.write)
            await serve()
        } else {
            end()
        }
    }

    private func open() async -> Channel? {
        let session: TLSSession?
        do {
            session = try tlsContext.map { try TLSSession($0, descriptor: accepted.descriptor) }
        } catch {
            handshakeFailed(.protocol, "\(error)")
            close(accepted.descriptor)
            return nil
        }
        // On failure it closes the descriptor itself.
        guard let channel = try? Channel(descriptor: accepted.descriptor, loop: loop, tls: session) else { return nil }
        self.channel = channel
        if let session, await !shakeHands(session, channel) { return nil }
        return channel
    }

    /// Serves requests until the connection ends or is idle for a moment.
    ///
    /// An idle connection has no task: the memory of a task's calls is several times larger than everything else of the
    /// connection. The next request starts a new task.
    private func serve() async {
        guard let channel, let output else { return end() }
        var served = 0
        while !isDraining || !input.isEmpty {
            switch await serveRequest(channel, output) {
            case .another: break
            case .end: return end()
            case .idle:
                let deadline = MonotonicClock.deadline(after: server.timeouts.idle)
                let isParked = channel.park(until: deadline) { [self] result in
                    Task(executorPreference: loop) { await self.unpark(result) }
                }
                if isParked { return server.parked() }
            }
            served += 1
            // A pipelining client could otherwise keep the loop busy for ever.
            if served.isMultiple(of: 32), !input.isEmpty || channel.mayBeReadable { await loop.yield() }
        }
        end()
    }

    private func unpark(_ result: Result<Void, Channel.WaitFailure>) async {
        switch result {
        case .success: await serve()
        case .failure: end()
        }
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
        isDraining = true
        watch?.stop()
        if phase == .idle { channel?.interruptReading(as: .shuttingDown) }
    }

    /// The grace time is over: the rest of a request's content is cut off.
    func cutOff() {
        body?.interrupter.interrupt(as: .shuttingDown)
    }

    /// Ends the connection at once.
    func abort() {
        channel?.close()
    }

    private func shakeHands(_ session: TLSSession, _ channel: Channel) async -> Bool {
        let deadline = MonotonicClock.deadline(after: server.timeouts.head)
        while MonotonicClock.now < deadline {
            do throws(Channel.WaitFailure) {
                switch session.handshake() {
                case .moved:
                    // The first request may have arrived in the same packet.
                    channel.noteUnreadData()
                    return true
                case .wouldBlockReading:
                    channel.willReadOnOtherThread()
                    try await channel.waitReadable(until: deadline)
                case .wouldBlockWriting:
                    channel.willWriteOnOtherThread()
                    try await channel.waitWritable(until: deadline)
                case .ended: return handshakeFailed(.closed, nil)
                case .failed:
                    return handshakeFailed(session.failureReason == nil ? .closed : .protocol, session.failureReason)
                }
            } catch {
                switch error {
                case .timedOut: return handshakeFailed(.timedOut, nil)
                // The server is stopping.
                case .interrupted, .closed: return false
                }
            }
        }
        return handshakeFailed(.timedOut, nil)
    }

    @discardableResult
    private func handshakeFailed(_ kind: HandshakeFailure.Kind, _ detail: String?) -> Bool {
        server.observer.handshakeFailed(HandshakeFailure(kind: kind, detail: detail, peerAddress: accepted.peer.host))
        return false
    }

    // MARK: One request

    private enum Next {
        case another
        /// No request arrived for a moment.
        case idle
        case end
    }

    /// - Returns: What the connection does next.
    private func serveRequest(_ channel: Channel, _ output: Output) async -> Next {
        let parsed: ParsedHead
        do throws(HeadRefusal) {
            switch try await readHead(channel) {
            case .head(let head): parsed = head
            case .idle: return .idle
            case .end: return .end
            }
        } catch {
            await refuse(error, channel, output)
            return .end
        }
        phase = .busy
        defer { phase = .idle }
        let started = MonotonicClock.now
        let id = server.nextRequestID()
        let body = ConnectionBody(
            framing: parsed.framing,
            expectsContinue: parsed.expectsContinue,
            channel: channel,
            input: input,
            output: output,
            server: server
        )
        self.body = body
        defer { self.body = nil }
        let isModern = parsed.head.version == .http1_1
        let request = Request(
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
        var response: Response
        if case .tooLarge(let limit) = body.failure {
            response = ServerErrors.response(413, detail: "the content exceeds \(limit) bytes", requestID: id)
        } else {
            response = await server.handler.respond(to: request)
        }
        // An interrupted body leaves the channel interrupted. The rest of the body must still be discarded.
        channel.clearInterruption()
        var fate = self.fate(of: parsed, response, body)
        let before = output.sent
        var isBroken = false
        let prepared = self.prepared(response, to: parsed, keepsAlive: fate == .keep)
        if prepared.endsByClosing, fate == .keep { fate = body.isEnded ? .close : .linger }
        // Nearly every response fits into one write; an asynchronous call would only add cost.
        let count = prepared.rest == nil ? output.writeAtOnce(prepared.start) : 0
        if count < prepared.start.count {
            do {
                try await send(prepared, from: count, output, channel)
            } catch {
                isBroken = true
            }
        }
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
                isBroken: isBroken,
                refusal: nil
            )
        )
        if isBroken { return .end }
        switch fate {
        case .keep:
            if body.isEnded { return .another }
            return await body.drain(limit: server.configuration.drainBytes) ? .another : .end
        case .close: return .end
        case .linger:
            await linger(channel)
            return .end
        }
    }

    private enum Fate {
        case keep
        case close
        /// The client still sends content that is not needed: closing now would lose the response.
        case linger
    }

    private func fate(of parsed: ParsedHead, _ response: Response, _ body: ConnectionBody) -> Fate {
        if body.isEnded { return parsed.keepsAlive && !response.closesConnection && !isDraining ? .keep : .close }
        if body.failure != nil || body.isAwaitingContinue || response.closesConnection || !parsed.keepsAlive
            || isDraining
        {
            return .linger
        }
        guard let remaining = body.remaining, remaining <= server.configuration.drainBytes else { return .linger }
        return .keep
    }

    // MARK: Reading a head

    private struct HeadRefusal: Error {
        var status: Status
        var reason: String
    }

    private static let lateHead = HeadRefusal(status: 408, reason: "the head of the request did not arrive in time")

    private enum Arrival {
        case head(ParsedHead)
        case idle
        case end
    }

    /// How long a connection waits for a request before it counts as idle.
    private static let waitTimeout: Nanoseconds = 200_000_000

    /// Reads the next head, if it starts to arrive within a moment.
    private func readHead(_ channel: Channel) async throws(HeadRefusal) -> Arrival {
        phase = .idle
        var headDeadline: Nanoseconds?
        while true {
            if !input.isEmpty {
                do throws(HeadFailure) {
                    if let head = try input.withSpan({ span throws(HeadFailure) in try parser.parse(span) }) {
                        input.consume(head.consumed)
                        return .head(head)
                    }
                } catch {
                    throw HeadRefusal(status: error.status, reason: error.reason)
                }
                // The wait alone is not enough: a byte now and then would end it before the deadline.
                if let headDeadline, MonotonicClock.now >= headDeadline { throw Self.lateHead }
                if headDeadline == nil {
                    phase = .busy
                    headDeadline = MonotonicClock.deadline(after: server.timeouts.head)
                }
            } else if isDraining {
                return .end
            }
            do throws(Channel.WaitFailure) {
                if !channel.mayBeReadable {
                    input.releaseIfEmpty()
                    try await channel.waitReadable(until: headDeadline ?? MonotonicClock.now + Self.waitTimeout)
                }
                switch input.fill(from: channel, room: input.isEmpty ? 4096 : 16_384) {
                case .moved: break
                case .wouldBlockReading: continue
                case .wouldBlockWriting:
                    try await channel.waitWritable(until: MonotonicClock.deadline(after: server.timeouts.write))
                case .ended, .failed: return .end
                }
            } catch {
                guard error == .timedOut else { return .end }
                if headDeadline != nil { throw Self.lateHead }
                return .idle
            }
        }
    }

    /// Refuses a head that could not be read.
    ///
    /// The connection ends, because the start of the next head is unknown.
    private func refuse(_ refusal: HeadRefusal, _ channel: Channel, _ output: Output) async {
        let id = server.nextRequestID()
        let response = ServerErrors.response(refusal.status, detail: refusal.reason, requestID: id)
        let isSent: Void? = try? await write(
            FramedResponseHead.bytes(
                ResponseHead(response.status, response.fields),
                date: server.currentDate,
                framing: .length(Int64(response.contentBytes.count)),
                keepsAlive: false,
                isOld: false,
                content: response.contentBytes
            ),
            output
        )
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
        if isSent != nil { await linger(channel) }
    }

    private func write(_ bytes: [UInt8], _ output: Output) async throws(SinkFailure) {
        try await output.write(bytes)
    }

    // MARK: Answering

    /// A response in the form in which it is sent.
    private struct PreparedResponse {
        /// The head, and short content.
        var start: [UInt8]
        /// Content that is not in `start`.
        var rest: Response.Content?
        var isChunked: Bool
        /// Only the end of the connection marks the end of the content (RFC 9112 §6.3).
        var endsByClosing: Bool
    }

    private func prepared(_ response: Response, to parsed: ParsedHead, keepsAlive: Bool) -> PreparedResponse {
        let isBare = parsed.head.method == .head || response.status.forbidsContent
        var framing: FramedResponseHead.Framing
        var short: [UInt8] = []
        var rest: Response.Content? = response.content
        switch response.content {
        case .empty:
            framing = isBare ? .none : .length(0)
            rest = nil
        case .bytes(let bytes):
            framing = .length(Int64(bytes.count))
            if bytes.count <= Self.shortContent { (short, rest) = (bytes, nil) }
        case .file(let region): framing = .length(region.length)
        case .stream(let length?, _): framing = .length(length)
        case .stream(nil, _): framing = parsed.head.version == .http1_1 ? .chunked : .untilClose
        }
        if response.status.forbidsContent { framing = .none }
        let start = FramedResponseHead.bytes(
            ResponseHead(response.status, response.fields),
            date: server.currentDate,
            framing: framing,
            keepsAlive: keepsAlive && framing != .untilClose,
            isOld: parsed.head.version == .http1_0,
            content: isBare ? [] : short
        )
        return PreparedResponse(
            start: start,
            rest: isBare ? nil : rest,
            isChunked: framing == .chunked,
            endsByClosing: framing == .untilClose
        )
    }

    /// Content up to this size in bytes is sent together with its head.
    private static let shortContent = 65_536

    /// Sends the rest of a response, after `count` bytes of its `start`.
    private func send(_ response: PreparedResponse, from count: Int, _ output: Output, _ channel: Channel) async throws
    {
        try await output.write(response.start, from: count, more: response.rest != nil)
        switch response.rest {
        case nil, .empty: return
        case .bytes(let bytes): try await output.write(bytes)
        case .file(let region): try await output.send(region)
        case .stream(let length, let produce):
            let watch = PeerWatch(channel: channel, input: input, isStopping: isDraining)
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

    /// Gives the peer time to read the response before the connection is closed (RFC 9112 §9.6).
    private func linger(_ channel: Channel) async {
        channel.shutDownWriting()
        phase = .idle
        let end = MonotonicClock.deadline(after: server.configuration.lingerTimeout)
        while MonotonicClock.now < end, !isDraining {
            switch channel.discard() {
            case .moved:
                await loop.yield()
                continue
            case .wouldBlockReading: break
            case .wouldBlockWriting, .ended, .failed: return
            }
            do throws(Channel.WaitFailure) {
                try await channel.waitReadable(
                    until: min(end, MonotonicClock.deadline(after: server.configuration.lingerIdleTimeout))
                )
            } catch {
                return
            }
        }
    }
}

extension Response {
    /// The content of a response, if it is in memory.
    fileprivate var contentBytes: [UInt8] {
        if case .bytes(let bytes) = content { bytes } else { [] }
    }
}
