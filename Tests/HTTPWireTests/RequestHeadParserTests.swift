import SluiceTesting
import HTTPWire
import Testing

@Suite("Request heads", .timeLimit(.minutes(10)))
struct RequestHeadParserTests {
    @Test("a head is parsed into method, target, version and fields")
    func takesApart() throws {
        let text =
            "PATCH /files/a%20b?x=1&y HTTP/1.1\r\nHost: up.example:8080\r\nX-Empty:\r\nX-Padded: \t a  b \t\r\n\r\nREST"
        let parsed = try #require(try parseHead(text))
        #expect(parsed.head.method == .patch)
        #expect(parsed.head.version == .http1_1)
        #expect(parsed.head.target.rawPath == "/files/a%20b")
        #expect(parsed.head.target.rawQuery == "x=1&y")
        #expect(parsed.head.target.segments == ["files", "a b"])
        #expect(parsed.head.fields["host"] == "up.example:8080")
        #expect(parsed.head.fields["X-Empty"] == "")
        #expect(parsed.head.fields["x-padded"] == "a  b")
        #expect(parsed.head.fields.entries.count == 3)
        #expect(parsed.head.fields.name(at: 1) == "X-Empty")
        #expect(parsed.consumed == text.utf8.count - 4)
        #expect(parsed.framing == .none)
        #expect(parsed.keepsAlive)
        #expect(!parsed.expectsContinue)
    }

    @Test("there is no result before the empty line has arrived")
    func waitsForTheEmptyLine() {
        let bytes = Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        for count in bytes.indices {
            #expect(HeadOutcome.of(Array(bytes[..<count])) == .incomplete, "\(count) bytes")
        }
        #expect(HeadOutcome.of(bytes) != .incomplete)
        #expect(HeadOutcome.of(bytes).status == nil)
    }

    @Test("up to two empty lines before the request line are skipped (RFC 9112 §2.2)", arguments: 0...2)
    func skipsEmptyLines(count: Int) throws {
        let text = String(repeating: "\r\n", count: count) + "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        let parsed = try #require(try parseHead(text))
        #expect(parsed.consumed == text.utf8.count)
        #expect(parsed.head.fields["Host"] == "a")
    }

    @Test("pipelined heads are parsed one after the other by the same parser")
    func parsesPipelinedHeads() throws {
        let bytes = Array("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: b\r\nX: y\r\n\r\n".utf8)
        var parser = RequestHeadParser()
        let first = try #require(try parser.parse(bytes.span))
        #expect(!parser.hasBegun)
        let second = try #require(try parser.parse(bytes.span.extracting(first.consumed..<bytes.count)))
        #expect(first.head.target.segments == ["1"])
        #expect(second.head.target.segments == ["2"])
        #expect(second.head.fields.entries.count == 2)
        #expect(first.consumed + second.consumed == bytes.count)
    }

    @Test("a parser reports whether it is in the middle of a head")
    func reportsWhetherAHeadHasBegun() throws {
        var parser = RequestHeadParser()
        #expect(!parser.hasBegun)
        let bytes = Array("\r\nGET / HTTP/1.1\r\nHo".utf8)
        _ = try parser.parse(bytes.span.extracting(0..<2))
        #expect(!parser.hasBegun)
        _ = try parser.parse(bytes.span.extracting(0..<3))
        #expect(parser.hasBegun)
        _ = try parser.parse(bytes.span)
        #expect(parser.hasBegun)
    }

    struct Framed: Sendable {
        var fields: String
        var framing: BodyFraming
        var version = "1.1"
    }

    @Test(
        "framing follows from Content-Length and Transfer-Encoding (RFC 9112 §6.3)",
        arguments: [
            Framed(fields: "", framing: .none),
            Framed(fields: "Content-Length: 0\r\n", framing: .length(0)),
            Framed(fields: "content-length:5\r\n", framing: .length(5)),
            Framed(fields: "Content-Length: \t007 \r\n", framing: .length(7)),
            Framed(fields: "Content-Length: 9223372036854775807\r\n", framing: .length(.max)),
            Framed(fields: "Content-Length: 5\r\n", framing: .length(5), version: "1.0"),
            Framed(fields: "Transfer-Encoding: chunked\r\n", framing: .chunked),
            Framed(fields: "transfer-ENCODING:\tChunKed\r\n", framing: .chunked),
        ]
    )
    func framing(example: Framed) throws {
        let text = "POST / HTTP/\(example.version)\r\nHost: a\r\n\(example.fields)\r\n"
        #expect(try #require(try parseHead(text)).framing == example.framing)
    }

    @Test(
        "persistence follows from version and Connection (RFC 9112 §9.3)",
        arguments: [
            ("1.1", "", true), ("1.1", "Connection: close\r\n", false), ("1.1", "Connection: keep-alive\r\n", true),
            ("1.1", "Connection: Upgrade, CLOSE\r\n", false), ("1.1", "connection: x\r\nConnection: close\r\n", false),
            ("1.1", "Connection: closed\r\n", true), ("1.1", "Connection: keep-alive, close\r\n", false),
            ("1.0", "", false), ("1.0", "Connection: Keep-Alive\r\n", true),
            ("1.0", "Connection: keep-alive,close\r\n", false), ("1.7", "", true),
        ]
    )
    func persistence(version: String, fields: String, keepsAlive: Bool) throws {
        let parsed = try #require(try parseHead("GET / HTTP/\(version)\r\nHost: a\r\n\(fields)\r\n"))
        #expect(parsed.keepsAlive == keepsAlive)
    }

    @Test(
        "100-continue is expected only by HTTP/1.1 and before content (RFC 9110 §10.1.1)",
        arguments: [
            ("1.1", "Expect: 100-continue\r\nContent-Length: 1\r\n", true),
            ("1.1", "expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n", true),
            ("1.1", "Expect: 100-continue\r\n", false),
            ("1.1", "Expect: 100-continue\r\nContent-Length: 0\r\n", true),
            ("1.0", "Expect: 100-continue\r\nContent-Length: 0\r\n", false),
            ("1.0", "Expect: 100-continue\r\nContent-Length: 1\r\n", false),
            ("1.0", "Expect: something\r\nContent-Length: 1\r\n", false),
            ("1.1", "Content-Length: 1\r\n", false),
        ]
    )
    func expectation(version: String, fields: String, expects: Bool) throws {
        let parsed = try #require(try parseHead("PUT / HTTP/\(version)\r\nHost: a\r\n\(fields)\r\n"))
        #expect(parsed.expectsContinue == expects)
    }

    @Test("HTTP/1.0 needs no Host")
    func oldVersionNeedsNoHost() throws {
        #expect(try #require(try parseHead("GET / HTTP/1.0\r\n\r\n")).head.version == .http1_0)
    }

    @Test("a higher minor version is treated as 1.1 (RFC 9110 §2.5)", arguments: ["1.2", "1.9"])
    func higherMinorVersion(version: String) throws {
        let parsed = try #require(try parseHead("GET / HTTP/\(version)\r\nHost: a\r\n\r\n"))
        #expect(parsed.head.version == .http1_1)
    }

    @Test(
        "Host can be a name, an address or a literal, with or without port (RFC 9110 §7.2)",
        arguments: [
            "example.com", "example.com:80", "example.com:", "127.0.0.1:8080", "[::1]", "[::1]:8080",
            "[::ffff:192.0.2.1]:1", "a_b-c.d~e", "xn--bcher-kva.example", "b%C3%BCcher.example",
            "http://127.0.0.1:8080", "https://example.com",
        ]
    )
    func validHost(host: String) throws {
        let parsed = try #require(try parseHead("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n"))
        #expect(parsed.head.fields["Host"] == host)
    }

    @Test("bytes above 0x7F are kept in field values (RFC 9110 §5.5)")
    func keepsObsoleteText() throws {
        let bytes = Array("GET / HTTP/1.1\r\nHost: a\r\nX: ".utf8) + [0xFF, 0x80, 0xC3] + Array("\r\n\r\n".utf8)
        var parser = RequestHeadParser()
        let parsed = try #require(try parser.parse(bytes.span))
        #expect(Array(parsed.head.fields.rawValue(at: 1)) == [0xFF, 0x80, 0xC3])
    }

    @Test("a repeated field is seen as a list")
    func joinsRepeatedFields() throws {
        let parsed = try #require(try parseHead("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nY: 0\r\nx: 2\r\n\r\n"))
        #expect(parsed.head.fields["X"] == "1, 2")
        #expect(parsed.head.fields.all("x") == ["1", "2"])
    }

    // MARK: Limits

    @Test("the longest request line is accepted, and one byte more is refused with 414")
    func limitsTheRequestLine() {
        let limits = HeadLimits(maximumRequestLine: 30)
        // "GET " + target + " HTTP/1.1" = 30
        let fits = "GET /" + String(repeating: "a", count: 16) + " HTTP/1.1\r\nHost: a\r\n\r\n"
        #expect(HeadOutcome.of(fits, limits: limits).status == nil)
        #expect(HeadOutcome.of(fits, limits: limits) != .incomplete)
        let tooLong = fits.replacing("/a", with: "/aa")
        #expect(HeadOutcome.of(tooLong, limits: limits).status == 414)
    }

    @Test("a request line without end is refused as soon as the limit is passed, not earlier")
    func refusesAnEndlessRequestLine() {
        let limits = HeadLimits(maximumRequestLine: 30)
        #expect(HeadOutcome.of(String(repeating: "a", count: 31), limits: limits) == .incomplete)
        #expect(HeadOutcome.of(String(repeating: "a", count: 32), limits: limits).status == 414)
    }

    @Test("the largest head is accepted, and one byte more is refused with 431")
    func limitsTheHead() {
        let limits = HeadLimits(maximumRequestLine: 30, maximumBytes: 60)
        let start = "GET / HTTP/1.1\r\nHost: a\r\nX: "
        let fits = start + String(repeating: "x", count: 60 - start.utf8.count - 4) + "\r\n\r\n"
        #expect(fits.utf8.count == 60)
        #expect(HeadOutcome.of("\r\n" + fits, limits: limits).status == nil)
        #expect(HeadOutcome.of("\r\n" + fits, limits: limits) != .incomplete)
        #expect(HeadOutcome.of(fits.replacing("X: ", with: "X: x"), limits: limits).status == 431)
    }

    @Test("a field section without end is refused at the limit")
    func refusesAnEndlessHead() {
        let limits = HeadLimits(maximumRequestLine: 30, maximumBytes: 60)
        let bytes = Array(("GET / HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: 60)).utf8)
        #expect(HeadOutcome.of(Array(bytes[..<59]), limits: limits) == .incomplete)
        #expect(HeadOutcome.of(Array(bytes[..<60]), limits: limits).status == 431)
    }

    @Test("a head limit below the line limit refuses with 431")
    func headLimitBelowLineLimit() {
        let limits = HeadLimits(maximumRequestLine: 100, maximumBytes: 20)
        #expect(HeadOutcome.of(String(repeating: "a", count: 20), limits: limits).status == 431)
    }

    @Test("the maximum number of fields is accepted, and one more is refused with 431")
    func limitsTheFields() {
        let limits = HeadLimits(maximumFields: 3)
        let text = "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nX: 2\r\n"
        #expect(HeadOutcome.of(text + "\r\n", limits: limits).status == nil)
        #expect(HeadOutcome.of(text + "X: 3\r\n\r\n", limits: limits).status == 431)
    }

    // MARK: Splits

    @Test("the result does not depend on how the bytes are split")
    func anySplitParsesTheSame() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(seed: seed)
        let limits = HeadLimits(maximumRequestLine: 200, maximumBytes: 600, maximumFields: 12)
        for round in 0..<3000 {
            var bytes = Self.randomHead(&generator)
            // Half of them are damaged, so that failures are compared, too.
            if Bool.random(using: &generator), let index = bytes.indices.randomElement(using: &generator) {
                bytes[index] = [0, 10, 13, 32, 58, 127, 200, 44].randomElement(using: &generator) ?? 0
            }
            let whole = HeadOutcome.of(bytes, limits: limits)
            let everyByte = HeadOutcome.of(bytes, cuts: Array(0..<bytes.count), limits: limits)
            let cuts = (0..<4).map { _ in Int.random(in: 0...bytes.count, using: &generator) }.sorted()
            let someCuts = HeadOutcome.of(bytes, cuts: cuts, limits: limits)
            let text = String(decoding: bytes, as: UTF8.self).debugDescription
            #expect(everyByte == whole, "seed \(seed), round \(round): \(text)")
            #expect(someCuts == whole, "seed \(seed), round \(round), cuts \(cuts): \(text)")
        }
    }

    @Test("random bytes never crash the parser and never parse as a head without a request line")
    func survivesRandomBytes() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(seed: seed)
        for round in 0..<2000 {
            let count = Int.random(in: 1...80, using: &generator)
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            if case .parsed = HeadOutcome.of(bytes + [13, 10, 13, 10]) {
                Issue.record("seed \(seed), round \(round)")
            }
        }
    }

    private static func randomHead(_ generator: inout SeededGenerator) -> [UInt8] {
        let methods = ["GET", "POST", "PATCH", "OPTIONS", "M-SEARCH", "CONNECT"]
        let targets = [
            "/", "/a/b%2Fc?d=e%20f", "*", "http://h.example:1/p", "/%zz", "x", "/" + String(repeating: "a", count: 220),
        ]
        let versions = ["HTTP/1.1", "HTTP/1.0", "HTTP/1.3", "HTTP/2.0"]
        let fields = [
            "Content-Length: 5", "Content-Length: 7", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked",
            "Connection: close", "Connection: keep-alive", "Expect: 100-continue",
            "X-Long: " + String(repeating: "v", count: 90),
            "Accept: */*", "Host: b", "X :y", " folded",
        ]
        var text = String(repeating: "\r\n", count: Int.random(in: 0...3, using: &generator) % 3)
        text += methods.randomElement(using: &generator) ?? ""
        text += " " + (targets.randomElement(using: &generator) ?? "")
        text += " " + (versions.randomElement(using: &generator) ?? "") + "\r\nHost: a\r\n"
        for _ in 0..<Int.random(in: 0...6, using: &generator) {
            // Well-formed ones are more frequent.
            let field = Bool.random(using: &generator) ? "X-A: b" : fields.randomElement(using: &generator) ?? ""
            text += field + "\r\n"
        }
        return Array((text + "\r\nbody").utf8)
    }
}
