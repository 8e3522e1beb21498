// A connection: requests one after the other, heads and contents. Any split gives the same requests, no byte belongs to
// two of them, and nothing after a refusal counts as a request.

internal import HTTPWire

#if !FUZZING
// Compiled together with the target when it fuzzes.
internal import SluiceTesting
#endif

func fuzzStream(_ bytes: [UInt8]) {
    var generator = SeededGenerator(for: bytes)
    let whole = receive(bytes, cuts: [])
    let cuts = generator.cuts(5, in: bytes.count)
    expectEqual(receive(bytes, cuts: cuts), whole, "cut at \(cuts)")
    if bytes.count <= 256, generator.oneIn(8) {
        expectEqual(receive(bytes, cuts: Array(0..<bytes.count)), whole, "cut at every byte")
    }
    // Requests that were received whole are the same whatever follows them.
    if let last = whole.messages.last, last.end < bytes.count {
        let alone = receive(Array(bytes[..<last.end]), cuts: [])
        expectEqual(alone.messages, whole.messages, "what follows changes a request")
        expectEqual(alone.end, .betweenRequests, "how requests end that nothing follows")
    }
}

private struct Message: Equatable {
    let head: HeadOutcome.Summary
    let content: [UInt8]
    let trailers: HTTPFields
    /// Index after its last byte.
    let end: Int
}

private enum End: Equatable {
    case betweenRequests, inHead
    case inContent([UInt8])
    case refusedHead(HeadFailure)
    case refusedContent(String)
}

private struct Received: Equatable {
    var messages: [Message] = []
    var end = End.betweenRequests
}

private struct Session {
    private enum State {
        case head
        case length(HeadOutcome.Summary, Int64)
        case chunked(HeadOutcome.Summary, ChunkedDecoder)
    }

    private let bytes: [UInt8]
    private var start = 0
    private var state = State.head
    private var parser = RequestHeadParser()
    private var content: [UInt8] = []
    private(set) var received = Received()
    private(set) var isOver = false

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Continues with the bytes before `available`.
    mutating func go(_ available: Int) {
        while !isOver, step(available) {}
    }

    /// - Returns: Whether there may be more to do with these bytes.
    private mutating func step(_ available: Int) -> Bool {
        let bytes = bytes
        let buffer = bytes.span.extracting(start..<available)
        switch state {
        case .head:
            guard !buffer.isEmpty else { return false }
            do throws(HeadFailure) {
                guard let parsed = try parser.parse(buffer) else {
                    received.end = parser.hasBegun ? .inHead : .betweenRequests
                    return false
                }
                start += parsed.consumed
                begin(parsed)
            } catch {
                finish(.refusedHead(error))
            }
        case .length(let head, let left):
            let count = Int(min(left, Int64(buffer.count)))
            content += bytes[start..<start + count]
            start += count
            if Int64(count) == left { return complete(head, HTTPFields()) }
            state = .length(head, left - Int64(count))
            received.end = .inContent(content)
            return false
        case .chunked(let head, var decoder):
            defer { if case .chunked = state { state = .chunked(head, decoder) } }
            let next: ChunkedDecoder.Step
            do throws(ChunkedDecoder.Failure) { next = try decoder.next(buffer) } catch {
                finish(.refusedContent(error.reason))
                return false
            }
            switch next {
            case .needMore(let consumed):
                start += consumed
                received.end = .inContent(content)
                return false
            case .data(let skip, let count):
                start += skip
                content += bytes[start..<start + count]
                start += count
                decoder.tookData(count)
            case .end(let consumed, let trailers):
                start += consumed
                return complete(head, trailers)
            }
        }
        return true
    }

    private mutating func begin(_ parsed: ParsedHead) {
        let summary = HeadOutcome.Summary(parsed)
        content = []
        switch parsed.framing {
        case .none, .length(0): _ = complete(summary, HTTPFields())
        case .length(let length): state = .length(summary, length)
        case .chunked: state = .chunked(summary, ChunkedDecoder())
        }
        if case .head = state { return }
        received.end = .inContent([])
    }

    private mutating func complete(_ head: HeadOutcome.Summary, _ trailers: HTTPFields) -> Bool {
        received.messages.append(Message(head: head, content: content, trailers: trailers, end: start))
        received.end = .betweenRequests
        state = .head
        isOver = !head.keepsAlive
        return true
    }

    private mutating func finish(_ end: End) {
        received.end = end
        isOver = true
    }
}

private func receive(_ bytes: [UInt8], cuts: [Int]) -> Received {
    var session = Session(bytes)
    for cut in cuts + [bytes.count] { session.go(cut) }
    return session.received
}
