internal import HTTPWire
internal import SystemIO
internal import Transport

/// The life of a connection as a value: events in, actions out, and no system call, clock or task.
///
/// `Connection` performs each action and reports its result by calling the method that the action names; that returns the
/// next action. Only `stop` can be called at any other time.
struct ConnectionState {
    struct Limits {
        /// Maximum time for the TLS handshake, and from the first to the last byte of a head.
        var head: Nanoseconds
        /// Maximum time between requests.
        var idle: Nanoseconds
        var write: Nanoseconds
        /// After a last response that the client may still be sending content for; the second without a byte.
        var linger, lingerIdle: Nanoseconds
        /// Unread content up to this size in bytes is discarded to keep the connection, if it is there in time.
        var drainBytes: Int64
    }

    enum Action {
        /// Report to `readProxyHeader`.
        case readProxyHeader
        /// Report to `shookHands`.
        case shakeHands
        /// Pass all unused bytes to `received`.
        case parse
        /// Read once into a buffer with this much room, and report to `filled`.
        case fill(room: Int)
        /// Report to `waited`.
        case waitReadable(until: Nanoseconds)
        /// Report to `waited`.
        case waitWritable(until: Nanoseconds)
        /// Wait for the next request, which may be far away; report to `waited`.
        case park(until: Nanoseconds)
        /// Let other connections of the loop run if there is more to read, and continue with `parse`.
        case takeTurns
        /// Consume the bytes of the head, and call `willRespond` and `responded`.
        case serve(ParsedHead)
        /// Send an error, and report to `refused`.
        case refuse(Refusal)
        /// Tell the peer that nothing more will be sent, and call `lingers`.
        case shutDownWriting
        /// Read and discard, and report to `discarded`.
        case discard
        /// Let other connections of the loop run, and call `lingers`.
        case takeTurnsLingering
        /// Report it; the connection ends.
        case failHandshake(HandshakeFailure.Kind, detail: String?)
        case end
    }

    /// A head that could not be read.
    ///
    /// The connection ends, because the start of the next head is unknown.
    struct Refusal: Equatable {
        var status: Status
        var reason: String
    }

    /// The content of the current request, when its response is ready.
    struct Content {
        var isEnded: Bool
        var hasFailed: Bool
        var isAwaitingContinue: Bool
        /// Bytes, if they are known.
        var remaining: Int64?
    }

    private enum Phase: Equatable {
        /// The proxy has not said for whom it connects.
        case proxied(until: Nanoseconds, isEncrypted: Bool)
        case handshake(until: Nanoseconds)
        /// No byte of the next head has arrived.
        case between
        case parked
        case head(until: Nanoseconds)
        case serving
        case responding(Fate)
        case lingering(until: Nanoseconds)
    }

    /// What happens after a response.
    private enum Fate {
        /// All content was read: the next byte begins the next request.
        case keep
        case close
        /// The client still sends content that is not needed: closing now would lose the response (RFC 9112 §9.6).
        case linger
    }

    /// How long a connection waits for a request before it is parked.
    static let pause: Nanoseconds = 200_000_000
    /// A pipelining client could otherwise keep the loop busy for ever.
    static let requestsPerTurn = 32

    private let limits: Limits
    private var parser: RequestHeadParser
    private var phase = Phase.between
    private var served = 0
    /// The server stops: no further request is read.
    private(set) var isStopping = false

    init(limits: Limits, head: HeadLimits) {
        self.limits = limits
        parser = RequestHeadParser(limits: head)
    }

    // MARK: Opening

    /// - Parameters:
    ///   - isProxied: Whether a header of the PROXY protocol comes first.
    ///   - isEncrypted: Whether TLS follows.
    ///   - now: The time.
    /// - Returns: The first action.
    mutating func open(isProxied: Bool, isEncrypted: Bool, now: @autoclosure () -> Nanoseconds) -> Action {
        guard isProxied else { return open(isEncrypted: isEncrypted, now: now()) }
        phase = .proxied(until: MonotonicClock.deadline(after: limits.head, since: now()), isEncrypted: isEncrypted)
        return .readProxyHeader
    }

    /// The socket was read.
    ///
    /// - Parameters:
    ///   - header: `nil` if the connection has ended.
    ///   - now: The time.
    /// - Returns: The next action.
    mutating func readProxyHeader(_ header: ProxyHeader?, now: @autoclosure () -> Nanoseconds) -> Action {
        guard case .proxied(let end, let isEncrypted) = phase else { return .end }
        switch header {
        case .complete:
            phase = .between
            return open(isEncrypted: isEncrypted, now: now())
        case .incomplete: return now() >= end ? Self.lateProxyHeader : .waitReadable(until: end)
        case .invalid:
            return .failHandshake(.proxyHeader, detail: "the first bytes are no header of the PROXY protocol")
        // As health checks of proxies do.
        case nil: return .end
        }
    }

    private static let lateProxyHeader = Action.failHandshake(
        .proxyHeader,
        detail: "the header of the PROXY protocol did not arrive in time"
    )

    private mutating func open(isEncrypted: Bool, now: @autoclosure () -> Nanoseconds) -> Action {
        guard isEncrypted else { return .parse }
        phase = .handshake(until: MonotonicClock.deadline(after: limits.head, since: now()))
        return .shakeHands
    }

    /// A step of the handshake was done.
    ///
    /// - Parameters:
    ///   - result: Its result; `.moved` when the handshake is over.
    ///   - detail: The library's reason, if the peer did not just disconnect.
    ///   - now: The time.
    /// - Returns: The next action.
    mutating func shookHands(
        _ result: IOResult,
        detail: @autoclosure () -> String?,
        now: @autoclosure () -> Nanoseconds
    ) -> Action {
        guard case .handshake(let end) = phase else { return .end }
        switch result {
        case .moved:
            phase = .between
            return .parse
        // The wait alone is not enough: a byte now and then would end it before the deadline.
        case .wouldBlockReading, .wouldBlockWriting:
            if now() >= end { return .failHandshake(.timedOut, detail: nil) }
            return result == .wouldBlockReading ? .waitReadable(until: end) : .waitWritable(until: end)
        case .ended: return .failHandshake(.closed, detail: nil)
        case .failed:
            let detail = detail()
            return .failHandshake(detail == nil ? .closed : .protocol, detail: detail)
        }
    }

    // MARK: Reading a head

    /// Bytes are in the buffer, or none.
    ///
    /// - Parameters:
    ///   - bytes: All that arrived and was not used.
    ///   - now: The time.
    /// - Returns: The next action.
    mutating func received(_ bytes: Span<UInt8>, now: @autoclosure () -> Nanoseconds) -> Action {
        if bytes.isEmpty {
            phase = .between
            return isStopping ? .end : .fill(room: 4096)
        }
        do throws(HeadFailure) {
            if let head = try parser.parse(bytes) {
                phase = .serving
                return .serve(head)
            }
        } catch {
            return .refuse(Refusal(status: error.status, reason: error.reason))
        }
        if case .head(let end) = phase {
            if now() >= end { return .refuse(Self.lateHead) }
        } else {
            phase = .head(until: MonotonicClock.deadline(after: limits.head, since: now()))
        }
        return .fill(room: 16_384)
    }

    /// The socket was read.
    ///
    /// - Parameters:
    ///   - result: `.wouldBlockReading` also if it is known without a call that there is nothing to read.
    ///   - now: The time.
    /// - Returns: The next action.
    mutating func filled(_ result: IOResult, now: @autoclosure () -> Nanoseconds) -> Action {
        switch result {
        case .moved: return .parse
        case .wouldBlockReading:
            if case .head(let end) = phase { return .waitReadable(until: end) }
            return .waitReadable(until: now() + Self.pause)
        case .wouldBlockWriting:
            return .waitWritable(until: MonotonicClock.deadline(after: limits.write, since: now()))
        case .ended, .failed: return .end
        }
    }

    mutating func waited(
        _ result: Result<Void, Channel.WaitFailure>,
        now: @autoclosure () -> Nanoseconds
    ) -> Action {
        switch (phase, result) {
        case (.proxied, .success): return .readProxyHeader
        case (.proxied, .failure(.timedOut)): return Self.lateProxyHeader
        case (.handshake, .success): return .shakeHands
        case (.handshake, .failure(.timedOut)): return .failHandshake(.timedOut, detail: nil)
        case (.between, .success), (.parked, .success), (.head, .success): return .parse
        case (.between, .failure(.timedOut)):
            phase = .parked
            return .park(until: MonotonicClock.deadline(after: limits.idle, since: now()))
        case (.head, .failure(.timedOut)): return .refuse(Self.lateHead)
        case (.lingering, .success): return lingers(now: now())
        default: return .end
        }
    }

    private static let lateHead = Refusal(status: 408, reason: "the head of the request did not arrive in time")

    // MARK: One request

    /// Whether the rest of the content should be read before the response, which then can keep the connection.
    ///
    /// Not after it: the next request of a client that announced more than it sent would be taken for content.
    ///
    /// - Parameters:
    ///   - isLast: As for `willRespond`.
    ///   - endsByClosing: As for `willRespond`.
    ///   - content: The content of the request.
    /// - Returns: `false` if the connection ends anyway, or the content is too long.
    func drainsContent(isLast: Bool, endsByClosing: Bool, _ content: Content) -> Bool {
        !isLast && !endsByClosing && !isStopping && !content.isEnded && !content.hasFailed
            && !content.isAwaitingContinue && (content.remaining ?? .max) <= limits.drainBytes
    }

    /// The response is ready.
    ///
    /// - Parameters:
    ///   - isLast: The client or the response asks to close the connection.
    ///   - endsByClosing: Only the end of the connection marks the end of the response (RFC 9112 §6.3).
    ///   - contentIsEnded: Whether all content of the request was read.
    /// - Returns: Whether the response says that the connection stays open.
    mutating func willRespond(isLast: Bool, endsByClosing: Bool, contentIsEnded: Bool) -> Bool {
        let fate: Fate = !contentIsEnded ? .linger : isLast || isStopping || endsByClosing ? .close : .keep
        phase = .responding(fate)
        return fate == .keep
    }

    /// The response was sent.
    ///
    /// - Parameter isWhole: Whether all of it was sent.
    /// - Returns: The next action.
    mutating func responded(isWhole: Bool) -> Action {
        guard isWhole, case .responding(let fate) = phase else { return .end }
        switch fate {
        case .keep: return nextRequest()
        case .close: return .end
        case .linger: return .shutDownWriting
        }
    }

    /// The head was refused.
    ///
    /// - Parameter isSent: Whether the error was sent completely.
    /// - Returns: The next action.
    mutating func refused(isSent: Bool) -> Action { isSent ? .shutDownWriting : .end }

    private mutating func nextRequest() -> Action {
        phase = .between
        served += 1
        return served.isMultiple(of: Self.requestsPerTurn) ? .takeTurns : .parse
    }

    // MARK: Lingering

    /// Gives the peer time to read the response before the connection is closed (RFC 9112 §9.6).
    mutating func lingers(now: Nanoseconds) -> Action {
        let end: Nanoseconds
        if case .lingering(let known) = phase {
            end = known
        } else {
            end = MonotonicClock.deadline(after: limits.linger, since: now)
            phase = .lingering(until: end)
        }
        return now < end && !isStopping ? .discard : .end
    }

    mutating func discarded(_ result: IOResult, now: @autoclosure () -> Nanoseconds) -> Action {
        guard case .lingering(let end) = phase else { return .end }
        switch result {
        case .moved: return .takeTurnsLingering
        case .wouldBlockReading:
            return .waitReadable(until: min(end, MonotonicClock.deadline(after: limits.lingerIdle, since: now())))
        case .wouldBlockWriting, .ended, .failed: return .end
        }
    }

    // MARK: Stopping

    /// The server stops: the connection ends after its current response.
    ///
    /// - Returns: Whether it waits for nothing that matters, so that its wait must be interrupted.
    mutating func stop() -> Bool {
        isStopping = true
        switch phase {
        case .between, .parked, .lingering: return true
        case .proxied, .handshake, .head, .serving, .responding: return false
        }
    }
}
