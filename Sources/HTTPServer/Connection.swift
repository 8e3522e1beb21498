internal import Bytes
internal import Glibc
internal import HTTPWire
internal import Transport

/// One connection: reads requests, has them answered, one after the other, on its loop.
actor Connection {
    private enum Phase {
        /// Between requests, or after the last answer: may be closed at once when the server stops.
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
    /// Of an answer that is being made while it is sent.
    private var watch: PeerWatch?
    private var phase = Phase.busy
    private var isDraining = false
    /// Told once the connection has ended.
    private var hasEnded: (@Sendable () -> Void)?

    init(_ accepted: Listener.Accepted, loop: EventLoop, tls: TLSContext?, server: ServerContext) {
        self.accepted = accepted
        self.loop = loop
        self.server = server
        tlsContext = tls
        parser = RequestHeadParser(limits: server.configuration.head)
    }

    // MARK: Life

    /// Serves the connection, in tasks of its own on its loop, until it ends; from any thread, once.
    nonisolated func start(whenEnded: @escaping @Sendable () -> Void) {
        Task(executorPreference: loop) { await self.begin(whenEnded) }
    }

    private func begin(_ whenEnded: @escaping @Sendable () -> Void) async {
        hasEnded = whenEnded
        server.observer.connectionOpened()
        if let channel = await open() {
            output = Output(channel: channel, pool: server.pool, timeout: server.spans.write)
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
        // Closes the descriptor itself if it fails.
        guard let channel = try? Channel(descriptor: accepted.descriptor, loop: loop, tls: session) else { return nil }
        self.channel = channel
        if let session, await !shakeHands(session, channel) { return nil }
        return channel
    }

    /// Serves requests until the connection ends or is idle for a moment.
    ///
    /// A connection that waits for long has no task: with the memory of its calls a task is several times larger than
    /// everything else of the connection. The next request brings it a new one.
    private func serve() async {
        guard let channel, let output else { return end() }
        var served = 0
        while !isDraining || !input.isEmpty {
            switch await serveOne(channel, output) {
            case .another: break
            case .end: return end()
            case .idle:
                let deadline = MonotonicClock.deadline(after: server.spans.idle)
                let isParked = channel.park(until: deadline) { [self] result in
                    Task(executorPreference: loop) { await self.unpark(result) }
                }
                if isParked { return server.parked() }
            }
            served += 1
            // Pipelined requests could go on for ever.
            if served.isMultiple(of: 32), !input.isEmpty || channel.hasNewsToRead { await loop.giveWay() }
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

    /// The server stops: an idle connection ends now, a busy one after its answer, of which one without end ends now.
    func drain() {
        isDraining = true
        watch?.stop()
        if phase == .idle { channel?.cutReading(as: .shuttingDown) }
    }

    /// The grace time is over: what still comes of a request's content is cut off.
    func cutOff() {
        body?.interrupter.interrupt(as: .shuttingDown)
    }

    /// Ends it at once.
    func abort() {
        channel?.close()
    }

    private func shakeHands(_ session: TLSSession, _ channel: Channel) async -> Bool {
        let deadline = MonotonicClock.deadline(after: server.spans.head)
        while MonotonicClock.now < deadline {
            do throws(Channel.WaitFailure) {
                switch session.handshake() {
                case .moved:
                    // The first request may have come in the same packet.
                    channel.mayHaveMore()
                    return true
                case .wouldBlockReading:
                    channel.willReadElsewhere()
                    try await channel.waitReadable(until: deadline)
                case .wouldBlockWriting:
                    channel.willWriteElsewhere()
                    try await channel.waitWritable(until: deadline)
                case .ended: return handshakeFailed(.closed, nil)
                case .failed:
                    return handshakeFailed(session.failureReason == nil ? .closed : .protocol, session.failureReason)
                }
            } catch {
                switch error {
                case .timedOut: return handshakeFailed(.timedOut, nil)
                // The server is stopping.
                case .cut, .closed: return false
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
        /// No request came for a moment.
        case idle
        case end
    }

    /// - Returns: How the connection goes on.
    private func serveOne(_ channel: Channel, _ output: Output) async -> Next {
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
            response = ServerErrors.response(413, detail: "the content is limited to \(limit) bytes", requestID: id)
        } else {
            response = await server.handler.respond(to: request)
        }
        // A body that was interrupted leaves the channel cut; the rest of it must still be thrown away.
        channel.allowReading()
        var fate = self.fate(of: parsed, response, body)
        let before = output.sent
        var isBroken = false
        let answer = answer(response, to: parsed, keepsAlive: fate == .keep)
        if answer.endsByClosing, fate == .keep { fate = body.isEnded ? .close : .linger }
        // Nearly every answer goes out in one step, which a chance to wait would only make dearer.
        let count = answer.rest == nil ? output.writeAtOnce(answer.start) : 0
        if count < answer.start.count {
            do {
                try await send(answer, from: count, output, channel)
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
        /// Content is still coming that nobody wants: closing now would lose the answer.
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

    private static let lateHead = HeadRefusal(status: 408, reason: "the head of the request did not come in time")

    private enum Arrival {
        case head(ParsedHead)
        case idle
        case end
    }

    /// How long a connection waits for a request before it is idle.
    private static let patience: Nanoseconds = 200_000_000

    /// The next head, if it begins to come within a moment.
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
                // Asked here as well as by the wait, which a byte now and then ends before its time.
                if let headDeadline, MonotonicClock.now >= headDeadline { throw Self.lateHead }
                if headDeadline == nil {
                    phase = .busy
                    headDeadline = MonotonicClock.deadline(after: server.spans.head)
                }
            } else if isDraining {
                return .end
            }
            do throws(Channel.WaitFailure) {
                if !channel.hasNewsToRead {
                    input.releaseIfEmpty()
                    try await channel.waitReadable(until: headDeadline ?? MonotonicClock.now + Self.patience)
                }
                switch input.fill(from: channel, room: input.isEmpty ? 4096 : 16_384) {
                case .moved: break
                case .wouldBlockReading: continue
                case .wouldBlockWriting:
                    try await channel.waitWritable(until: MonotonicClock.deadline(after: server.spans.write))
                case .ended, .failed: return .end
                }
            } catch {
                guard error == .timedOut else { return .end }
                if headDeadline != nil { throw Self.lateHead }
                return .idle
            }
        }
    }

    /// Answers a head that could not be read; the connection ends, because nobody knows where the next one begins.
    private func refuse(_ refusal: HeadRefusal, _ channel: Channel, _ output: Output) async {
        let id = server.nextRequestID()
        let response = ServerErrors.response(refusal.status, detail: refusal.reason, requestID: id)
        let isSent: Void? = try? await write(
            AnswerHead.bytes(
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

    /// An answer as it goes out.
    private struct Answer {
        /// The head, and the content if that is short.
        var start: [UInt8]
        /// The content, if it is not in `start`.
        var rest: Response.Content?
        var isChunked: Bool
        /// Nothing else tells where the content ends (RFC 9112 §6.3).
        var endsByClosing: Bool
    }

    private func answer(_ response: Response, to parsed: ParsedHead, keepsAlive: Bool) -> Answer {
        let isBare = parsed.head.method == .head || response.status.forbidsContent
        var framing: AnswerHead.Framing
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
        let start = AnswerHead.bytes(
            ResponseHead(response.status, response.fields),
            date: server.currentDate,
            framing: framing,
            keepsAlive: keepsAlive && framing != .untilClose,
            isOld: parsed.head.version == .http1_0,
            content: isBare ? [] : short
        )
        return Answer(
            start: start,
            rest: isBare ? nil : rest,
            isChunked: framing == .chunked,
            endsByClosing: framing == .untilClose
        )
    }

    /// Content up to so many bytes goes out together with its head.
    private static let shortContent = 65_536

    /// Sends the rest of an answer, of whose `start` some bytes are sent.
    private func send(_ answer: Answer, from count: Int, _ output: Output, _ channel: Channel) async throws {
        try await output.write(answer.start, from: count, more: answer.rest != nil)
        switch answer.rest {
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
            let sink = ContentSink(output: output, length: length, isChunked: answer.isChunked, watch: watch)
            let trailers = try await produce(sink)
            if let left = sink.remaining, left > 0 { throw SinkFailure.lengthMismatch }
            if answer.isChunked { try await output.write(ChunkedEncoder.terminator(trailers: trailers)) }
        }
    }

    /// Lets the peer read the answer before the connection is closed (RFC 9112 §9.6).
    private func linger(_ channel: Channel) async {
        channel.shutDownWriting()
        phase = .idle
        let end = MonotonicClock.deadline(after: server.configuration.lingerTimeout)
        while MonotonicClock.now < end, !isDraining {
            switch channel.discard() {
            case .moved:
                await loop.giveWay()
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
    /// The content of an answer that holds it in memory.
    fileprivate var contentBytes: [UInt8] {
        if case .bytes(let bytes) = content { bytes } else { [] }
    }
}
