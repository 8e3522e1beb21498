import Bytes
import HTTPWire
import SluiceTesting
import SystemIO
import Testing
import Transport

@testable import HTTPServer

/// The life of a connection, event by event; times are plain numbers.
@Suite(.timeLimit(.minutes(10))) struct ConnectionStateTests {
    private static let limits = ConnectionState.Limits(
        head: 1000,
        idle: 5000,
        write: 700,
        linger: 3000,
        lingerIdle: 500,
        drainBytes: 100
    )
    private static let request = "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
    private static let ended = ConnectionState.Content(isEnded: true, hasFailed: false, isAwaitingContinue: false)

    private var state = ConnectionState(limits: limits, head: HeadLimits())

    private mutating func received(_ text: String, now: Nanoseconds = 0) -> String {
        name(state.received(Array(text.utf8).span, now: now))
    }

    /// An action as short text.
    private func name(_ action: ConnectionState.Action) -> String {
        switch action {
        case .serve(let head): "serve \(head.head.method)"
        case .refuse(let refusal): "refuse \(refusal.status.code)"
        case .failHandshake(let kind, let detail): "fail \(kind.rawValue) \(detail ?? "-")"
        default: "\(action)"
        }
    }

    // MARK: Requests

    @Test("a request is read when it comes, and the next one after its response")
    mutating func requests() {
        #expect(name(state.open(isProxied: false, isEncrypted: false, now: 0)) == "parse")
        #expect(received("") == "fill(room: 4096)")
        #expect(name(state.filled(.wouldBlockReading, now: 10)) == "waitReadable(until: \(10 + ConnectionState.pause))")
        #expect(name(state.waited(.success(()), now: 20)) == "parse")
        #expect(received("") == "fill(room: 4096)")
        #expect(name(state.filled(.moved(9), now: 20)) == "parse")
        #expect(received(Self.request) == "serve PUT")
        #expect(state.willRespond(isLast: false, endsByClosing: false, contentIsEnded: true) == true)
        #expect(name(state.responded(isWhole: true)) == "parse")
        #expect(received(Self.request) == "serve PUT", "pipelined")
    }

    @Test("a connection without a request is parked, and ends when that lasts too long")
    mutating func idle() {
        _ = received("")
        #expect(name(state.waited(.failure(.timedOut), now: 100)) == "park(until: 5100)")
        #expect(name(state.waited(.success(()), now: 200)) == "parse")
        #expect(received("") == "fill(room: 4096)")
        #expect(name(state.waited(.failure(.timedOut), now: 300)) == "park(until: 5300)")
        #expect(name(state.waited(.failure(.timedOut), now: 5300)) == "end")
    }

    @Test("the time for a head runs from its first byte, however its bytes arrive")
    mutating func lateHead() {
        #expect(received("P", now: 50) == "fill(room: 16384)")
        #expect(name(state.filled(.wouldBlockReading, now: 60)) == "waitReadable(until: 1050)")
        #expect(received("PUT", now: 1049) == "fill(room: 16384)")
        var other = self
        #expect(name(other.state.waited(.failure(.timedOut), now: 1050)) == "refuse 408")
        #expect(received("PUT ", now: 1050) == "refuse 408")
    }

    @Test("a head that no parser understands is refused, and the connection lingers")
    mutating func malformed() {
        #expect(received("PUT /a HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n") == "refuse 400")
        var other = self
        #expect(name(other.state.refused(isSent: false)) == "end")
        #expect(name(state.refused(isSent: true)) == "shutDownWriting")
        #expect(name(state.lingers(now: 1000)) == "discard")
        #expect(name(state.discarded(.moved(7), now: 1000)) == "takeTurnsLingering")
        #expect(name(state.lingers(now: 1100)) == "discard")
        #expect(name(state.discarded(.wouldBlockReading, now: 1100)) == "waitReadable(until: 1600)")
        #expect(name(state.waited(.success(()), now: 1500)) == "discard")
        #expect(name(state.discarded(.wouldBlockReading, now: 3900)) == "waitReadable(until: 4000)")
        var third = self
        #expect(name(third.state.waited(.failure(.timedOut), now: 4000)) == "end")
        #expect(name(state.lingers(now: 4000)) == "end", "bytes now and then do not prolong it")
    }

    @Test("after 32 requests other connections have their turn")
    mutating func turns() {
        for number in 1...100 {
            _ = received(Self.request)
            _ = state.willRespond(isLast: false, endsByClosing: false, contentIsEnded: true)
            let next = name(state.responded(isWhole: true))
            #expect(next == (number % 32 == 0 ? "takeTurns" : "parse"))
        }
    }

    struct Ending: Sendable, CustomTestStringConvertible {
        var content: ConnectionState.Content
        var isLast = false
        var endsByClosing = false
        var isStopping = false
        /// Whether the rest of the content is read first.
        var drains = false
        /// Whether it arrives.
        var arrives = false
        var keeps: Bool
        var next: String
        var testDescription: String {
            "\(content), last \(isLast), stops \(isStopping), arrives \(arrives) → \(next)"
        }
    }

    private static func open(_ remaining: Int64?, failed: Bool = false, awaiting: Bool = false)
        -> ConnectionState.Content
    {
        .init(isEnded: false, hasFailed: failed, isAwaitingContinue: awaiting, remaining: remaining)
    }

    static let endings = [
        Ending(content: ended, keeps: true, next: "parse"),
        Ending(content: ended, isLast: true, keeps: false, next: "end"),
        Ending(content: ended, isStopping: true, keeps: false, next: "end"),
        Ending(content: ended, endsByClosing: true, keeps: false, next: "end"),
        Ending(content: open(100), drains: true, arrives: true, keeps: true, next: "parse"),
        Ending(content: open(100), drains: true, keeps: false, next: "shutDownWriting"),
        Ending(content: open(101), keeps: false, next: "shutDownWriting"),
        Ending(content: open(nil), keeps: false, next: "shutDownWriting"),
        Ending(content: open(5, failed: true), keeps: false, next: "shutDownWriting"),
        Ending(content: open(5, awaiting: true), keeps: false, next: "shutDownWriting"),
        Ending(content: open(5), isLast: true, keeps: false, next: "shutDownWriting"),
        Ending(content: open(5), isStopping: true, keeps: false, next: "shutDownWriting"),
        Ending(content: open(5), endsByClosing: true, keeps: false, next: "shutDownWriting"),
    ]

    @Test("what follows a response depends on the rest of the content and on who wants to go on", arguments: endings)
    mutating func fates(ending: Ending) {
        _ = received(Self.request)
        if ending.isStopping { #expect(state.stop() == false) }
        let drains = state.drainsContent(
            isLast: ending.isLast,
            endsByClosing: ending.endsByClosing,
            ending.content
        )
        #expect(drains == ending.drains)
        let keeps = state.willRespond(
            isLast: ending.isLast,
            endsByClosing: ending.endsByClosing,
            contentIsEnded: ending.content.isEnded || ending.arrives
        )
        #expect(keeps == ending.keeps)
        var broken = self
        #expect(name(broken.state.responded(isWhole: false)) == "end")
        #expect(name(state.responded(isWhole: true)) == ending.next)
    }

    // MARK: TLS

    @Test("a handshake waits as the library asks, within its time")
    mutating func handshake() {
        #expect(name(state.open(isProxied: false, isEncrypted: true, now: 0)) == "shakeHands")
        #expect(name(state.shookHands(.wouldBlockReading, detail: nil, now: 10)) == "waitReadable(until: 1000)")
        #expect(name(state.waited(.success(()), now: 20)) == "shakeHands")
        #expect(name(state.shookHands(.wouldBlockWriting, detail: nil, now: 30)) == "waitWritable(until: 1000)")
        #expect(name(state.waited(.success(()), now: 40)) == "shakeHands")
        var late = self
        #expect(name(late.state.shookHands(.wouldBlockReading, detail: nil, now: 1000)) == "fail timed_out -")
        var silent = self
        #expect(name(silent.state.waited(.failure(.timedOut), now: 1000)) == "fail timed_out -")
        var stopped = self
        #expect(name(stopped.state.waited(.failure(.closed), now: 50)) == "end")
        var left = self
        #expect(name(left.state.shookHands(.ended, detail: nil, now: 50)) == "fail closed -")
        var reset = self
        #expect(name(reset.state.shookHands(.failed(errno: 104), detail: nil, now: 50)) == "fail closed -")
        var wrong = self
        #expect(
            name(wrong.state.shookHands(.failed(errno: 0), detail: "no cipher", now: 50)) == "fail protocol no cipher"
        )
        #expect(name(state.shookHands(.moved(1), detail: nil, now: 50)) == "parse")
        #expect(received(Self.request) == "serve PUT")
    }

    // MARK: Stopping

    @Test("a stopping server interrupts waits that nobody needs, and reads no further request")
    mutating func stopping() {
        _ = received("")
        #expect(state.stop() == true)
        #expect(name(state.waited(.failure(.interrupted(.shuttingDown)), now: 1)) == "end")
        #expect(received("") == "end")

        var parked = ConnectionStateTests()
        _ = parked.received("")
        _ = parked.state.waited(.failure(.timedOut), now: 0)
        #expect(parked.state.stop() == true)

        var reading = ConnectionStateTests()
        _ = reading.received("PU")
        #expect(reading.state.stop() == false, "a request that has begun is served")
        #expect(reading.received(Self.request) == "serve PUT")

        var lingering = ConnectionStateTests()
        _ = lingering.state.lingers(now: 0)
        #expect(lingering.state.stop() == true)
        #expect(lingering.name(lingering.state.lingers(now: 1)) == "end")
    }

    @Test(
        "whatever happened before, a stopping connection whose peer is silent ends",
        arguments: 0..<200 as Range<UInt64>
    )
    mutating func alwaysEnds(seed: UInt64) {
        var chance = SeededGenerator(seed: seed)
        var now: Nanoseconds = 0
        var action = state.open(isProxied: seed.isMultiple(of: 3), isEncrypted: seed.isMultiple(of: 2), now: now)
        for _ in 0..<Int.random(in: 0...60, using: &chance) {
            now += .random(in: 0...400, using: &chance)
            guard let next = after(action, now, &chance) else { return }
            action = next
        }
        _ = state.stop()
        for _ in 0..<12 {
            now += 10_000
            guard let next = afterSilence(action, now) else { return }
            action = next
        }
        Issue.record("seed \(seed): still \(name(action))")
    }

    /// What a random peer makes of an action; `nil` if the connection has ended.
    private mutating func after(
        _ action: ConnectionState.Action,
        _ now: Nanoseconds,
        _ chance: inout SeededGenerator
    ) -> ConnectionState.Action? {
        let result: IOResult =
            [.moved(3), .moved(1), .wouldBlockReading, .wouldBlockWriting, .ended]
            .randomElement(using: &chance) ?? .ended
        let waited: Result<Void, Channel.WaitFailure> =
            Int.random(in: 0..<3, using: &chance) > 0
            ? .success(()) : .failure(.timedOut)
        switch action {
        case .readProxyHeader:
            let headers: [ProxyHeader?] = [.complete(length: 1, client: nil), .incomplete, .incomplete, .invalid, nil]
            return state.readProxyHeader(headers.randomElement(using: &chance) ?? nil, now: now)
        case .shakeHands: return state.shookHands(result, detail: nil, now: now)
        case .parse, .takeTurns:
            let text = ["", "", "P", Self.request, Self.request].randomElement(using: &chance) ?? ""
            return state.received(Array(text.utf8).span, now: now)
        case .fill: return state.filled(result, now: now)
        case .waitReadable, .waitWritable, .park: return state.waited(waited, now: now)
        case .serve:
            _ = state.willRespond(isLast: false, endsByClosing: false, contentIsEnded: .random(using: &chance))
            return state.responded(isWhole: true)
        case .refuse: return state.refused(isSent: .random(using: &chance))
        case .shutDownWriting, .takeTurnsLingering: return state.lingers(now: now)
        case .discard: return state.discarded(result, now: now)
        case .failHandshake, .end: return nil
        }
    }

    private mutating func afterSilence(_ action: ConnectionState.Action, _ now: Nanoseconds) -> ConnectionState.Action?
    {
        switch action {
        case .readProxyHeader: return state.readProxyHeader(.incomplete, now: now)
        case .shakeHands: return state.shookHands(.wouldBlockReading, detail: nil, now: now)
        case .parse, .takeTurns: return state.received([UInt8]().span, now: now)
        case .fill: return state.filled(.wouldBlockReading, now: now)
        case .waitReadable, .waitWritable, .park: return state.waited(.failure(.timedOut), now: now)
        case .serve:
            _ = state.willRespond(isLast: false, endsByClosing: false, contentIsEnded: true)
            return state.responded(isWhole: true)
        case .refuse: return state.refused(isSent: true)
        case .shutDownWriting, .takeTurnsLingering: return state.lingers(now: now)
        case .discard: return state.discarded(.wouldBlockReading, now: now)
        case .failHandshake, .end: return nil
        }
    }
}
