import Bytes
import HTTPWire
import SystemIO
import Testing
import Transport

@testable import HTTPServer

/// The content of a request, event by event; times are plain numbers.
@Suite(.timeLimit(.minutes(10))) struct ContentStateTests {
    private func state(
        _ framing: BodyFraming,
        expectsContinue: Bool = false,
        _ change: (inout ContentState.Limits) -> Void = { _ in }
    ) -> ContentState {
        var limits = ContentState.Limits()
        change(&limits)
        return ContentState(framing, expectsContinue: expectsContinue, limits: limits)
    }

    // MARK: Framing

    @Test("content with a length is read to its end and not beyond")
    func length() throws {
        var state = state(.length(10))
        #expect(state.demand(maximum: 4) == .piece(4))
        try state.took(4)
        #expect(state.remaining == 6)
        #expect(state.demand(maximum: 100) == .piece(6))
        try state.took(6)
        #expect(state.demand(maximum: 1) == .end)
        #expect(state.isEnded && state.remaining == 0 && state.received == 10 && !state.isOpen)
    }

    @Test("no content is at its end", arguments: [BodyFraming.none, .length(0)])
    func empty(framing: BodyFraming) {
        let state = state(framing)
        #expect(state.isEnded && !state.isAwaitingContinue && !state.waitsForNothing)
    }

    @Test("before announced empty content 100 Continue is owed once, and no content is waited for")
    func emptyAfterContinue() {
        var state = state(.length(0), expectsContinue: true)
        #expect(state.isEnded && state.waitsForNothing)
        #expect(!state.isAwaitingContinue)
        #expect(state.takeContinue() == true)
        #expect(!state.waitsForNothing)
        #expect(state.takeContinue() == false)
    }

    @Test("100 Continue is owed once")
    func `continue`() {
        var state = state(.chunked, expectsContinue: true)
        #expect(state.isAwaitingContinue)
        #expect(state.takeContinue() == true)
        #expect(!state.isAwaitingContinue)
        #expect(state.takeContinue() == false)
    }

    @Test("a length beyond the limit fails before a byte is read, chunks when they exceed it")
    func limit() throws {
        let declared = state(.length(11)) { $0.maximumBytes = 10 }
        #expect(declared.demand(maximum: 5) == .fail(.tooLarge(limit: 10)))
        #expect(declared.failure == .tooLarge(limit: 10))
        var chunked = state(.chunked) { $0.maximumBytes = 10 }
        _ = try chunked.decode(Array("b\r\n".utf8).span)
        #expect(chunked.demand(maximum: 100) == .piece(11))
        try chunked.took(10)
        #expect(throws: SourceFailure.tooLarge(limit: 10)) { try chunked.took(1) }
    }

    @Test("chunks are decoded wherever they are cut", arguments: 1...12)
    func chunks(size: Int) throws {
        let text = Array("3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nChecksum: t\r\n\r\nNEXT".utf8)
        var state = state(.chunked)
        var buffer: [UInt8] = []
        var sent = 0
        var content: [UInt8] = []
        func more() {
            let end = min(text.count, sent + size)
            buffer += text[sent..<end]
            sent = end
        }
        while !state.isEnded {
            switch state.demand(maximum: 4) {
            case .piece(let count):
                if buffer.isEmpty { more() }
                let piece = buffer.prefix(count)
                content += piece
                buffer.removeFirst(piece.count)
                try state.took(piece.count)
            case .decode:
                let (consumed, mustFill) = try state.decode(buffer.span)
                buffer.removeFirst(consumed)
                if mustFill { more() }
            case .end, .fail: Issue.record("neither at its end nor failed")
            }
        }
        #expect(String(decoding: content, as: UTF8.self) == "abc0123456789")
        #expect(state.trailers["Checksum"] == "t")
        #expect("NEXT".utf8.starts(with: buffer), "the next request is not touched")
        #expect(state.received == 13)
    }

    @Test("a chunk that is none fails, and nothing is read after that")
    func badChunk() {
        var state = state(.chunked)
        #expect(throws: SourceFailure.self) { try state.decode(Array("xyz\r\n".utf8).span) }
        state.fail(.malformed("chunk"))
        #expect(state.demand(maximum: 9) == .fail(.malformed("chunk")))
    }

    // MARK: Ends

    @Test("the whole content has a deadline, also while bytes arrive")
    func deadline() throws {
        var state = state(.length(10)) { $0.deadline = 500 }
        #expect(try state.checkEnd(interruption: nil, arrived: 3, now: 499) == false)
        #expect(throws: SourceFailure.timedOut) { try state.checkEnd(interruption: nil, arrived: 3, now: 500) }
        #expect(state.waitEnd(since: 100) == 500)
    }

    @Test("bytes that arrived before an interruption are read, once")
    func interruption() throws {
        var silent = state(.length(10))
        #expect(throws: SourceFailure.interrupted) {
            try silent.checkEnd(interruption: .interrupted, arrived: 0, now: 0)
        }
        var reading = state(.length(10))
        #expect(try reading.checkEnd(interruption: .interrupted, arrived: 4, now: 0) == true)
        #expect(throws: SourceFailure.interrupted) {
            try reading.checkEnd(interruption: .interrupted, arrived: 4, now: 0)
        }
        // During a wait.
        var waiting = state(.length(10))
        _ = waiting.willWait(now: 0)
        var late = waiting
        var taken = waiting
        #expect(waiting.didWait(.failure(.interrupted(.shuttingDown)), arrived: 4, now: 1) == .proceed)
        #expect(try waiting.checkEnd(interruption: .shuttingDown, arrived: 4, now: 1) == true)
        #expect(throws: SourceFailure.shuttingDown) {
            try waiting.checkEnd(interruption: .shuttingDown, arrived: 4, now: 1)
        }
        // Also if none are left to be counted when the read comes.
        #expect(taken.didWait(.failure(.interrupted(.shuttingDown)), arrived: 4, now: 1) == .proceed)
        #expect(try taken.checkEnd(interruption: .shuttingDown, arrived: 0, now: 1) == true)
        #expect(
            late.didWait(.failure(.interrupted(.shuttingDown)), arrived: 0, now: 1) == .fail(.shuttingDown)
        )
    }

    @Test("a wait ends after the time without a byte")
    func progress() {
        var state = state(.length(10)) { $0.progress = 100 }
        #expect(state.willWait(now: 1000) == .wait(until: 1100, collecting: false))
        var other = state
        #expect(state.didWait(.failure(.timedOut), arrived: 0, now: 1100) == .fail(.timedOut))
        #expect(other.didWait(.failure(.closed), arrived: 0, now: 1050) == .fail(.disconnected))
    }

    @Test("the minimum rate counts only waits, and bytes earn time")
    func minimumRate() throws {
        let second: Nanoseconds = 1_000_000_000
        var state = state(.length(1000)) {
            $0.progress = 10 * second
            $0.minimumRate = 10
        }
        #expect(state.willWait(now: 0) == .wait(until: 10 * second, collecting: false))
        #expect(state.didWait(.success(()), arrived: 1, now: 9 * second) == .proceed)
        try state.took(20)
        // Ten seconds and two for twenty bytes, of which nine are used.
        #expect(state.willWait(now: 100 * second) == .wait(until: 103 * second, collecting: false))
        #expect(state.didWait(.success(()), arrived: 1, now: 103 * second) == .proceed)
        #expect(state.willWait(now: 200 * second) == .fail(.timedOut))
    }

    // MARK: Fast connections

    private func fast(_ length: Int64 = 1 << 30) -> ContentState {
        var state = state(.length(length)) { $0.progress = 1_000_000_000 }
        while state.sizeOfRead(maximum: .max) < ContentState.largestRead {
            state.didRead(state.sizeOfRead(maximum: .max))
        }
        return state
    }

    @Test("reads grow while they are filled, and no further")
    func readSize() {
        var state = state(.length(1 << 30))
        #expect(state.sizeOfRead(maximum: 10) == 10)
        state.didRead(16_383)
        #expect(state.sizeOfRead(maximum: .max) == 16_384)
        for _ in 0..<20 { state.didRead(state.sizeOfRead(maximum: .max)) }
        #expect(state.sizeOfRead(maximum: .max) == 262_144)
    }

    @Test("a fast connection is read when much has arrived; a slow one again for every byte")
    func collecting() {
        var state = fast()
        #expect(state.willWait(now: 0) == .wait(until: 20_000_000, collecting: true))
        var slower = state
        var stalled = state
        #expect(state.didWait(.success(()), arrived: 200_000, now: 5) == .proceed)
        #expect(slower.didWait(.failure(.timedOut), arrived: 7, now: 20_000_000) == .proceed)
        #expect(slower.willWait(now: 0) == .wait(until: 1_000_000_000, collecting: false))
        #expect(
            stalled.didWait(.failure(.timedOut), arrived: 0, now: 20_000_000)
                == .wait(until: 1_000_000_000, collecting: false)
        )
        #expect(stalled.didWait(.failure(.timedOut), arrived: 0, now: 1_000_000_000) == .fail(.timedOut))
        var short = fast(1 << 20)
        #expect(short.willWait(now: 0) == .wait(until: 1_000_000_000, collecting: false), "the end is near")
    }

    @Test("after some reads other connections have their turn")
    func turns() {
        var state = state(.length(1 << 30))
        #expect((1...24).map { _ in state.beginRead() } == (1...24).map { $0 % 8 == 0 })
    }

    // MARK: Transfers

    typealias TransferCase = (moved: Int64, end: SocketTransfer.End, action: ContentState.TransferAction)

    static let transfers: [TransferCase] = [
        (0, .wouldBlock, .waitReadable),
        (5, .wouldBlock, .proceed),
        (0, .wouldBlockWriting, .waitWritable),
        (5, .wouldBlockWriting, .proceedUnreported),
        (5, .limitReached, .proceedUnreported),
        (0, .ended, .fail(.disconnected)),
        (5, .ended, .proceedUnreported),
        (0, .socketFailed(errno: 104), .fail(.disconnected)),
        (5, .socketFailed(errno: 104), .proceedUnreported),
        (0, .fileFailed(errno: 28), .failFile(errno: 28)),
        (5, .fileFailed(errno: 28), .failFile(errno: 28)),
    ]

    @Test("moved bytes count, whatever ended the transfer", arguments: transfers.indices)
    func transfer(index: Int) {
        let (moved, end, action) = Self.transfers[index]
        var state = state(.length(10))
        #expect(state.transferable(limit: 8) == 8)
        #expect(state.transferred(moved, end) == action)
        #expect(state.received == moved)
        if case .fileFailed = end {
            #expect(state.failure == .disconnected, "bytes of the socket may be lost")
            #expect(state.transferable(limit: 8) == nil)
        } else {
            #expect(state.transferable(limit: 100) == 10 - moved)
        }
    }

    @Test("only content with a length is transferred, and only to its end")
    func transferable() {
        #expect(state(.chunked).transferable(limit: 5) == nil)
        var state = state(.length(10))
        #expect(state.transferable(limit: 0) == nil)
        state.wrote(10)
        #expect(state.isEnded)
        #expect(state.transferable(limit: 5) == nil)
        #expect(state.received == 10)
        var fast = self.state(.length(1 << 30))
        #expect(!fast.isFast)
        _ = fast.transferred(SocketTransfer.fastBytes, .wouldBlock)
        #expect(fast.isFast)
    }
}
