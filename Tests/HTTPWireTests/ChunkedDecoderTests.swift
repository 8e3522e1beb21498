import SluiceTesting
import HTTPWire
import Testing

@Suite("Chunked transfer coding", .timeLimit(.minutes(10)))
struct ChunkedDecoderTests {
    /// The result of decoding a whole body.
    enum Outcome: Equatable {
        case ended(content: [UInt8], trailers: HTTPFields, rest: Int)
        case failed(ChunkedDecoder.Failure)
        case incomplete(content: [UInt8])
    }

    /// Decodes `bytes` like a connection that receives pieces ending at `cuts`, taking at most `take` bytes at once.
    static func decode(_ bytes: [UInt8], cuts: [Int] = [], take: Int = .max) -> Outcome {
        var decoder = ChunkedDecoder()
        var content: [UInt8] = []
        var start = 0
        for cut in cuts + [bytes.count] {
            piece: while true {
                let step: ChunkedDecoder.Step
                do { step = try decoder.next(bytes.span.extracting(start..<cut)) } catch { return .failed(error) }
                switch step {
                case .needMore(let consumed):
                    start += consumed
                    if start != cut { Issue.record("\(cut - start) bytes left over") }
                    break piece
                case .data(let skip, let count):
                    let taken = min(count, take)
                    content += bytes[start + skip..<start + skip + taken]
                    start += skip + taken
                    decoder.tookData(taken)
                case .end(let consumed, let trailers):
                    return .ended(content: content, trailers: trailers, rest: bytes.count - start - consumed)
                }
            }
        }
        return .incomplete(content: content)
    }

    static func decode(_ text: String) -> Outcome { decode(Array(text.utf8)) }

    @Test(
        "a valid body decodes to its content",
        arguments: [
            ("0\r\n\r\n", ""), ("5\r\nhello\r\n0\r\n\r\n", "hello"), ("005\r\nhello\r\n000\r\n\r\n", "hello"),
            ("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
            ("5;name=value\r\nhello\r\n0;last\r\n\r\n", "hello"), ("5;a=\"b;c\"\r\nhello\r\n0\r\n\r\n", "hello"),
            ("4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n"), ("0000000000000001\r\nx\r\n0\r\n\r\n", "x"),
        ]
    )
    func decodesGoodBodies(body: String, content: String) {
        let expected = Outcome.ended(content: Array(content.utf8), trailers: HTTPFields(), rest: 0)
        #expect(Self.decode(body) == expected)
    }

    @Test(
        "an invalid body is refused (RFC 9112 §7.1)",
        arguments: [
            "\r\n", "x\r\n", "-1\r\n", "+1\r\n", "0x5\r\nhello\r\n", " 5\r\nhello\r\n", "5 \r\nhello\r\n",
            "5 ;a\r\nhello\r\n", "5\t\r\nhello\r\n", "5\nhello\r\n", "5\rhello", "5,5\r\n", "5.0\r\n", ";a\r\n",
            "5;a\nhello", "5;a\rb\r\n", "5;a\u{0}\r\n", "5;a\u{7F}\r\n", "8000000000000000\r\n",
            "FFFFFFFFFFFFFFFF\r\n", "10000000000000005\r\n", "00000000000000005\r\n", "5\r\nhelloX\r\n", "5\r\nhello\n",
            "5\r\nhello\rX", "5\r\nhello0\r\n\r\n", "0\r\n\n", "0\r\n\rX", "0\r\nX\r\n\r\n", "0\r\nX: a\n\r\n",
            "0\r\nX : a\r\n\r\n", "0\r\n X: a\r\n\r\n", "0\r\nX: a\r\n b\r\n\r\n", "0\r\n: a\r\n\r\n",
            "0\r\nX: a\u{0}b\r\n\r\n", "0\r\nX: a\rb\r\n\r\n", "5\r\nhello\r\n\r\n0\r\n\r\n", "٥\r\n",
        ]
    )
    func refusesBadBodies(body: String) {
        guard case .failed(let failure) = Self.decode(body) else {
            Issue.record("\(Self.decode(body))")
            return
        }
        #expect(!failure.reason.isEmpty)
    }

    @Test("the largest chunk size is accepted")
    func acceptsTheLargestSize() throws {
        var decoder = ChunkedDecoder()
        let bytes = Array("7FFFFFFFFFFFFFFF\r\n".utf8)
        #expect(try decoder.next(bytes.span) == .needMore(consumed: bytes.count))
        #expect(decoder.remainingInChunk == .max)
    }

    @Test("the next request stays in the buffer")
    func leavesTheNextRequest() {
        #expect(
            Self.decode("1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\n")
                == .ended(content: [UInt8(ascii: "x")], trailers: HTTPFields(), rest: 16)
        )
    }

    @Test("content can be taken from outside the buffer")
    func contentTakenElsewhere() throws {
        var decoder = ChunkedDecoder()
        #expect(try decoder.next(Array("10\r\nab".utf8).span) == .data(skip: 4, count: 2))
        #expect(decoder.remainingInChunk == 16)
        decoder.tookData(2)
        let nothing: [UInt8] = []
        #expect(try decoder.next(nothing.span) == .needMore(consumed: 0))
        decoder.tookData(13)
        #expect(decoder.remainingInChunk == 1)
        #expect(try decoder.next(Array("z\r".utf8).span) == .data(skip: 0, count: 1))
        decoder.tookData(1)
        #expect(decoder.remainingInChunk == 0)
        #expect(try decoder.next(Array("\r\n0\r\n\r\n+".utf8).span) == .end(consumed: 7, trailers: HTTPFields()))
        #expect(try decoder.next(Array("+".utf8).span) == .end(consumed: 0, trailers: HTTPFields()))
    }

    @Test("trailers are returned, and forbidden ones are dropped (RFC 9110 §6.5.1)")
    func trailers() {
        let body = """
            0\r
            Content-Length: 5\r
            X-Checksum:  abc \r
            transfer-encoding: chunked\r
            Host: evil\r
            AUTHORIZATION: Bearer x\r
            X-Two: 2\r
            Content-Type: text/html\r
            Cache-Control: no-store\r
            Trailer: X\r
            Content-Encoding: gzip\r
            Content-Range: bytes 0-1/2\r
            X-Checksum: def\r
            \r

            """
        let expected: HTTPFields = ["X-Checksum": "abc", "X-Two": "2", "x-checksum": "def"]
        #expect(Self.decode(body) == .ended(content: [], trailers: expected, rest: 0))
    }

    @Test("the size and number of trailers are limited")
    func limitsTrailers() {
        let line = { (count: Int) in "X: " + String(repeating: "a", count: count - 3) + "\r\n" }
        #expect(Self.isGood("0\r\n" + line(8192) + "\r\n"))
        #expect(!Self.isGood("0\r\n" + line(8193) + "\r\n"))
        #expect(!Self.isGood("0\r\n" + line(4096) + line(4097) + "\r\n"))
        #expect(Self.isGood("0\r\n" + String(repeating: "X: a\r\n", count: 64) + "\r\n"))
        #expect(!Self.isGood("0\r\n" + String(repeating: "X: a\r\n", count: 65) + "\r\n"))
        // Dropped ones count, too.
        #expect(!Self.isGood("0\r\n" + String(repeating: "Host: a\r\n", count: 65) + "\r\n"))
    }

    @Test("chunk extensions are limited per line and per body (RFC 9112 §7.1.1)")
    func limitsExtensions() {
        let chunk = { (count: Int) in "1;" + String(repeating: "e", count: count - 1) + "\r\nx\r\n" }
        #expect(Self.isGood(chunk(4096) + "0\r\n\r\n"))
        #expect(!Self.isGood(chunk(4097) + "0\r\n\r\n"))
        #expect(Self.isGood(String(repeating: chunk(4096), count: 4) + "0\r\n\r\n"))
        #expect(!Self.isGood(String(repeating: chunk(4096), count: 4) + "0;\r\n\r\n"))
    }

    private static func isGood(_ body: String) -> Bool {
        if case .ended(_, _, 0) = decode(body) { true } else { false }
    }

    @Test("the result does not depend on how the bytes are split")
    func anySplitDecodesTheSame() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(seed: seed)
        for round in 0..<1000 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 0...4, using: &generator) {
                let data = (0..<Int.random(in: 1...40, using: &generator)).map { _ in
                    UInt8.random(in: 0...255, using: &generator)
                }
                bytes += ChunkedEncoder.chunk(data)
            }
            bytes += ChunkedEncoder.terminator(trailers: Bool.random(using: &generator) ? ["X-A": "b"] : [:])
            bytes += Array("GET".utf8)
            if Bool.random(using: &generator), let index = bytes.indices.randomElement(using: &generator) {
                bytes[index] = UInt8.random(in: 0...255, using: &generator)
            }
            let whole = Self.decode(bytes)
            let take = Int.random(in: 1...8, using: &generator)
            let everyByte = Self.decode(bytes, cuts: Array(0..<bytes.count), take: take)
            let cuts = (0..<3).map { _ in Int.random(in: 0...bytes.count, using: &generator) }.sorted()
            #expect(everyByte == whole, "seed \(seed), round \(round): \(bytes)")
            #expect(Self.decode(bytes, cuts: cuts, take: take) == whole, "seed \(seed), round \(round): \(bytes)")
        }
    }

    @Test("a body truncated at any byte is incomplete, with the right content so far")
    func cutAtEveryByte() {
        let bytes = Array("5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n".utf8)
        let content = Array("helloabc".utf8)
        for count in 0..<bytes.count {
            guard case .incomplete(let soFar) = Self.decode(Array(bytes[..<count])) else {
                Issue.record("\(count) bytes")
                continue
            }
            #expect(content.starts(with: soFar), "\(count) bytes")
        }
    }

    @Test("the encoder writes the example of the RFC")
    func encodes() {
        #expect(String(decoding: ChunkedEncoder.header(255), as: UTF8.self) == "ff\r\n")
        #expect(String(decoding: ChunkedEncoder.chunk(Array("hello".utf8)), as: UTF8.self) == "5\r\nhello\r\n")
        #expect(ChunkedEncoder.chunk([]) == [])
        #expect(String(decoding: ChunkedEncoder.terminator(), as: UTF8.self) == "0\r\n\r\n")
        #expect(
            String(decoding: ChunkedEncoder.terminator(trailers: ["A": "b", "C": "d"]), as: UTF8.self)
                == "0\r\nA: b\r\nC: d\r\n\r\n"
        )
    }
}
