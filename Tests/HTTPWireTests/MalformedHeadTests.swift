import HTTPWire
import SluiceTesting
import Testing

/// A head that must be refused, and why.
struct MalformedHead: Sendable, CustomTestStringConvertible {
    let head: String
    let status: Int
    let rule: String

    init(_ head: String, _ status: Int, _ rule: String) {
        self.head = head
        self.status = status
        self.rule = rule
    }

    /// A valid request line and Host, followed by `fields`.
    init(fields: String, _ rule: String) { self.init(fields: fields, 400, rule) }

    init(fields: String, _ status: Int, _ rule: String) {
        self.init("POST / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\r\n", status, rule)
    }

    /// A request line, followed by a valid Host.
    init(line: String, _ rule: String) { self.init(line: line, 400, rule) }

    init(line: String, _ status: Int, _ rule: String) {
        self.init("\(line)\r\nHost: a\r\n\r\n", status, rule)
    }

    /// A request with that Host.
    init(host: String, _ rule: String = "RFC 9112 §3.2, RFC 9110 §7.2") {
        self.init("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n", 400, rule)
    }

    var testDescription: String { "\(rule): \(head.debugDescription)" }
}

@Suite("Malformed request heads", .timeLimit(.minutes(10)))
struct MalformedHeadTests {
    @Test("a malformed head is refused with its status", arguments: lines + requestLines + targets + hosts)
    func refuses(example: MalformedHead) {
        #expect(HeadOutcome.of(example.head).status == example.status, "\(HeadOutcome.of(example.head))")
    }

    @Test("a head with ambiguous framing is refused with its status", arguments: lengths + codings + expectations)
    func refusesAmbiguity(example: MalformedHead) {
        #expect(HeadOutcome.of(example.head).status == example.status, "\(HeadOutcome.of(example.head))")
    }

    @Test("the reason does not repeat received text")
    func reasonHoldsNothingReceived() throws {
        let failure = #expect(throws: HeadFailure.self) {
            try parseHead("GET /secret%zz HTTP/1.1\r\nHost: a\r\n\r\n")
        }
        let reason = try #require(failure).reason
        #expect(!reason.isEmpty)
        #expect(!reason.contains("secret"))
    }

    static let lines: [MalformedHead] = [
        MalformedHead("GET / HTTP/1.1\nHost: a\n\n", 400, "RFC 9112 §2.2 bare LF"),
        MalformedHead("GET / HTTP/1.1\r\nHost: a\n\r\n", 400, "RFC 9112 §2.2 bare LF after a field"),
        MalformedHead("GET / HTTP/1.1\r\nHost: a\r\n\n", 400, "RFC 9112 §2.2 bare LF at the end"),
        MalformedHead("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9112 §2.2 bare LF before the request line"),
        MalformedHead("GET / HTTP/1.1\rHost: a\r\n\r\n", 400, "RFC 9112 §2.2 bare CR"),
        MalformedHead("GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n", 400, "RFC 9112 §2.2 bare CR in a value"),
        MalformedHead("GET / HTTP/1.1\r\nHost: a\r\n\r\r\n", 400, "RFC 9112 §2.2 two CR"),
        MalformedHead("\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9112 §2.2 three empty lines"),
        MalformedHead("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, "RFC 9112 §2.2 space before the first field"),
        MalformedHead("GET / HTTP/1.1\r\n\tHost: a\r\n\r\n", 400, "RFC 9112 §2.2 tab before the first field"),
        MalformedHead(fields: "X: a\r\n b", "RFC 9112 §5.2 folding with a space"),
        MalformedHead(fields: "X: a\r\n\tb: c", "RFC 9112 §5.2 folding with a tab"),
        MalformedHead(fields: "X: a\r\n ", "RFC 9112 §5.2 folding with nothing"),
        MalformedHead(fields: "X : a", "RFC 9112 §5.1 space before the colon"),
        MalformedHead(fields: "X\t: a", "RFC 9112 §5.1 tab before the colon"),
        MalformedHead(fields: "X Y: a", "RFC 9110 §5.1 space in a name"),
        MalformedHead(fields: ": a", "RFC 9110 §5.1 empty name"),
        MalformedHead(fields: "X", "RFC 9112 §5 no colon"),
        MalformedHead(fields: "X(y): a", "RFC 9110 §5.6.2 delimiter in a name"),
        MalformedHead(fields: "X\"y\": a", "RFC 9110 §5.6.2 quotes in a name"),
        MalformedHead(fields: "X@y: a", "RFC 9110 §5.6.2 delimiter in a name"),
        MalformedHead(fields: "Ümlaut: a", "RFC 9110 §5.6.2 name beyond ASCII"),
        MalformedHead(fields: "X: a\0b", "RFC 9110 §5.5 NUL in a value"),
        MalformedHead(fields: "X: a\u{1}b", "RFC 9110 §5.5 control character in a value"),
        MalformedHead(fields: "X: a\u{B}b", "RFC 9110 §5.5 vertical tab in a value"),
        MalformedHead(fields: "X: a\u{7F}b", "RFC 9110 §5.5 DEL in a value"),
        MalformedHead(fields: "X: \u{1B}[31m", "RFC 9110 §5.5 escape sequence in a value"),
        MalformedHead(fields: "X\0: a", "RFC 9110 §5.1 NUL in a name"),
        MalformedHead("\u{16}\u{3}\u{1}\u{2}", 400, "RFC 9112 §3 a TLS hello"),
    ]

    static let requestLines: [MalformedHead] = [
        MalformedHead(line: "GET", "RFC 9112 §3 method only"),
        MalformedHead(line: "GET /", "RFC 9112 §3 HTTP/0.9"),
        MalformedHead(line: "GET ", "RFC 9112 §3 no target"),
        MalformedHead(line: " GET / HTTP/1.1", "RFC 9112 §3 leading space"),
        MalformedHead(line: "GET  / HTTP/1.1", "RFC 9112 §3 two spaces"),
        MalformedHead(line: "GET /  HTTP/1.1", "RFC 9112 §3 two spaces"),
        MalformedHead(line: "GET / HTTP/1.1 ", "RFC 9112 §3 trailing space"),
        MalformedHead(line: "GET / x HTTP/1.1", "RFC 9112 §3 space in the target"),
        MalformedHead(line: "GET\t/\tHTTP/1.1", "RFC 9112 §3 tabs"),
        MalformedHead(line: "GET /\tHTTP/1.1", "RFC 9112 §3 tab"),
        MalformedHead(line: "G(T / HTTP/1.1", "RFC 9110 §9.1 method is a token"),
        MalformedHead(line: "GËT / HTTP/1.1", "RFC 9110 §9.1 method is a token"),
        MalformedHead(line: String(repeating: "M", count: 33) + " / HTTP/1.1", 501, "RFC 9112 §3 long method"),
        MalformedHead(line: "CONNECT a:443 HTTP/1.1", 501, "RFC 9110 §9.3.6 CONNECT"),
        MalformedHead(line: "GET / http/1.1", "RFC 9112 §2.3 version is case-sensitive"),
        MalformedHead(line: "GET / HTTP/1", "RFC 9112 §2.3 no minor version"),
        MalformedHead(line: "GET / HTTP/1.", "RFC 9112 §2.3 no minor version"),
        MalformedHead(line: "GET / HTTP/1.10", "RFC 9112 §2.3 two digits"),
        MalformedHead(line: "GET / HTTP/11.1", "RFC 9112 §2.3 two digits"),
        MalformedHead(line: "GET / HTTP/x.1", "RFC 9112 §2.3 no digit"),
        MalformedHead(line: "GET / HTTP/1,1", "RFC 9112 §2.3 no dot"),
        MalformedHead(line: "GET / HTTPS/1.1", "RFC 9112 §2.3 name"),
        MalformedHead(line: "GET / ICY/1.1xx", "RFC 9112 §2.3 name"),
        MalformedHead(line: "GET / HTTP/2.0", 505, "RFC 9110 §15.6.6"),
        MalformedHead(line: "GET / HTTP/0.9", 505, "RFC 9110 §15.6.6"),
        MalformedHead("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "RFC 9113 §3.4 preface"),
        MalformedHead(line: "HTTP/1.1 200 OK", "RFC 9112 §3 an answer"),
    ]

    static let targets: [MalformedHead] = [
        MalformedHead(line: "GET path HTTP/1.1", "RFC 9112 §3.2 no slash"),
        MalformedHead(line: "GET ftp://a/ HTTP/1.1", "RFC 9112 §3.2.2 other scheme"),
        MalformedHead(line: "GET a:80 HTTP/1.1", "RFC 9112 §3.2.3 authority without CONNECT"),
        MalformedHead(line: "GET * HTTP/1.1", "RFC 9112 §3.2.4 asterisk"),
        MalformedHead(line: "OPTIONS *x HTTP/1.1", "RFC 9112 §3.2.4 asterisk"),
        MalformedHead(line: "GET http:// HTTP/1.1", "RFC 9110 §4.2.1 empty host"),
        MalformedHead(line: "GET http:///p HTTP/1.1", "RFC 9110 §4.2.1 empty host"),
        MalformedHead(line: "GET http://?q HTTP/1.1", "RFC 9110 §4.2.1 empty host"),
        MalformedHead(line: "GET http://u:p@a/ HTTP/1.1", "RFC 9110 §4.2.4 user information"),
        MalformedHead(line: "GET http://a:99999/ HTTP/1.1", "RFC 3986 §3.2.3 port"),
        MalformedHead(line: "GET http:/?://x HTTP/1.1", "RFC 9112 §3.2.2 no authority"),
        MalformedHead(line: "GET /a#b HTTP/1.1", "RFC 9110 §7.1 fragment"),
        MalformedHead(line: "GET /ü HTTP/1.1", "RFC 3986 §2 beyond ASCII"),
        MalformedHead(line: "GET /?ü HTTP/1.1", "RFC 3986 §2 beyond ASCII in the query"),
        MalformedHead(line: "GET /% HTTP/1.1", "RFC 3986 §2.1 percent"),
        MalformedHead(line: "GET /%4 HTTP/1.1", "RFC 3986 §2.1 percent"),
        MalformedHead(line: "GET /%4/1 HTTP/1.1", "RFC 3986 §2.1 percent across segments"),
        MalformedHead(line: "GET /%+1 HTTP/1.1", "RFC 3986 §2.1 percent"),
        MalformedHead(line: "GET /%00 HTTP/1.1", "RFC 3986 §7.3 encoded NUL"),
        MalformedHead(line: "GET /a%0d%0ab HTTP/1.1", "RFC 3986 §7.3 encoded CRLF"),
        MalformedHead(line: "GET /%7F HTTP/1.1", "RFC 3986 §7.3 encoded DEL"),
        MalformedHead(line: "GET /%FF HTTP/1.1", "RFC 3629 §3 not UTF-8"),
        MalformedHead(line: "GET /%C0%AF HTTP/1.1", "RFC 3629 §3 overlong slash"),
        MalformedHead(line: "GET /%ED%A0%80 HTTP/1.1", "RFC 3629 §3 surrogate"),
        MalformedHead(line: "GET /%C3/%BC HTTP/1.1", "RFC 3629 §3 character across segments"),
    ]

    static let hosts: [MalformedHead] = [
        MalformedHead("GET / HTTP/1.1\r\n\r\n", 400, "RFC 9112 §3.2 no Host"),
        MalformedHead("GET http://a/ HTTP/1.1\r\n\r\n", 400, "RFC 9112 §3.2.2 no Host beside an absolute target"),
        MalformedHead(fields: "Host: a", "RFC 9112 §3.2 two Hosts"),
        MalformedHead(fields: "HOST: b", "RFC 9112 §3.2 two Hosts"),
        MalformedHead("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400, "RFC 9112 §3.2 two Hosts in 1.0"),
        MalformedHead(host: "", "RFC 9110 §4.2.1 empty host"),
        MalformedHead(host: ":80", "RFC 9110 §4.2.1 empty host"),
        MalformedHead(host: "a b"),
        MalformedHead(host: "a, b"),
        MalformedHead(host: "a/b"),
        MalformedHead(host: "u@a"),
        MalformedHead(host: "a?b"),
        MalformedHead(host: "a:b"),
        MalformedHead(host: "a:80:80"),
        MalformedHead(host: "a:65536"),
        MalformedHead(host: "a:-1"),
        MalformedHead(host: "a%2"),
        MalformedHead(host: "a%zz"),
        MalformedHead(host: "ä.example"),
        MalformedHead(host: "::1"),
        MalformedHead(host: "[::1"),
        MalformedHead(host: "[]"),
        MalformedHead(host: "[1]"),
        MalformedHead(host: "[::1]x"),
        MalformedHead(host: "[::g]"),
        MalformedHead(host: "<a>"),
        MalformedHead(host: "http://"),
        MalformedHead(host: "http://a/"),
        MalformedHead(host: "http://a/path"),
        MalformedHead(host: "http://http://a"),
        MalformedHead(host: "ftp://a"),
    ]

    static let lengths: [MalformedHead] = [
        MalformedHead(fields: "Content-Length: 5\r\nContent-Length: 6", "RFC 9112 §6.3 differing"),
        MalformedHead(fields: "Content-Length: 5\r\ncontent-length: 5", "RFC 9112 §6.3 repeated"),
        MalformedHead(fields: "Content-Length: 5, 5", "RFC 9110 §8.6 list"),
        MalformedHead(fields: "Content-Length: 5,6", "RFC 9110 §8.6 list"),
        MalformedHead(fields: "Content-Length:", "RFC 9110 §8.6 empty"),
        MalformedHead(fields: "Content-Length: +5", "RFC 9110 §8.6 sign"),
        MalformedHead(fields: "Content-Length: -5", "RFC 9110 §8.6 sign"),
        MalformedHead(fields: "Content-Length: 5 5", "RFC 9110 §8.6 space"),
        MalformedHead(fields: "Content-Length: 0x5", "RFC 9110 §8.6 hexadecimal"),
        MalformedHead(fields: "Content-Length: 1e3", "RFC 9110 §8.6 exponent"),
        MalformedHead(fields: "Content-Length: 5.0", "RFC 9110 §8.6 fraction"),
        MalformedHead(fields: "Content-Length: ٥", "RFC 9110 §8.6 other digits"),
        MalformedHead(fields: "Content-Length: \"5\"", "RFC 9110 §8.6 quotes"),
        MalformedHead(fields: "Content-Length: 9223372036854775808", "RFC 9110 §8.6 overflow"),
        MalformedHead(fields: "Content-Length: 99999999999999999999999", "RFC 9110 §8.6 overflow"),
        MalformedHead(fields: "Content-Length: 18446744073709551621", "RFC 9110 §8.6 overflow to 5"),
    ]

    static let codings: [MalformedHead] = [
        MalformedHead(fields: "Transfer-Encoding: chunked\r\nContent-Length: 5", "RFC 9112 §6.1 both"),
        MalformedHead(fields: "Content-Length: 5\r\nTransfer-Encoding: chunked", "RFC 9112 §6.1 both"),
        MalformedHead(fields: "Content-Length: 0\r\nTransfer-Encoding: identity", "RFC 9112 §6.1 both"),
        MalformedHead(fields: "Transfer-Encoding:", "RFC 9112 §6.1 empty"),
        MalformedHead(fields: "Transfer-Encoding: chunked,", "RFC 9112 §6.1 empty element"),
        MalformedHead(fields: "Transfer-Encoding: ,chunked", "RFC 9112 §6.1 empty element"),
        MalformedHead(fields: "Transfer-Encoding: chunked, chunked", "RFC 9112 §6.1 twice"),
        MalformedHead(fields: "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "RFC 9112 §6.1 twice"),
        MalformedHead(fields: "Transfer-Encoding: chunked, gzip", "RFC 9112 §6.3 chunked not last"),
        MalformedHead(fields: "Transfer-Encoding: gzip", "RFC 9112 §6.3 chunked missing"),
        MalformedHead(fields: "Transfer-Encoding: identity", "RFC 9112 §6.3 chunked missing"),
        MalformedHead(fields: "Transfer-Encoding: xchunked", "RFC 9112 §6.3 chunked missing"),
        MalformedHead(fields: "Transfer-Encoding: chunked;a=b", "RFC 9112 §7.1 parameter"),
        MalformedHead(fields: "Transfer-Encoding: \"chunked\"", "RFC 9112 §7 quotes"),
        MalformedHead(fields: "Transfer-Encoding: chun ked", "RFC 9112 §7 space"),
        MalformedHead(fields: "Transfer-Encoding: gzip, chunked", 501, "RFC 9112 §6.1 unknown coding"),
        MalformedHead(
            fields: "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
            501,
            "RFC 9112 §6.1 unknown coding"
        ),
        MalformedHead(fields: "Transfer-Encoding: identity, chunked", 501, "RFC 9112 §6.1 unknown coding"),
        MalformedHead(
            "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "RFC 9112 §6.1 chunked in HTTP/1.0"
        ),
    ]

    static let expectations: [MalformedHead] = [
        MalformedHead(fields: "Expect: 200-ok", 417, "RFC 9110 §10.1.1"),
        MalformedHead(fields: "Expect: 100-continue, other\r\nContent-Length: 1", 417, "RFC 9110 §10.1.1"),
        MalformedHead(fields: "Expect: 100-continue\r\nExpect: other\r\nContent-Length: 1", 417, "RFC 9110 §10.1.1"),
    ]
}
