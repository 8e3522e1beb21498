import HTTPWire
import SluiceTesting
import Testing

@Suite("Heads of clients that state lengths in their own way", .timeLimit(.minutes(10)))
struct LenientHeadTests {
    private static func outcome(_ fields: String, at path: String, allowing lenient: [String]) -> HeadOutcome {
        HeadOutcome.of(
            "PUT \(path) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\r\n",
            limits: HeadLimits(lenientPaths: lenient)
        )
    }

    private static func framing(_ outcome: HeadOutcome) -> BodyFraming? {
        if case .parsed(let summary) = outcome { summary.framing } else { nil }
    }

    private static func keepsAlive(_ outcome: HeadOutcome) -> Bool? {
        if case .parsed(let summary) = outcome { summary.keepsAlive } else { nil }
    }

    private static let accepted: [(String, BodyFraming, Bool)] = [
        ("Content-Length: 3000000.0", .length(3_000_000), true), ("Content-Length: 0.0", .length(0), true),
        ("Content-Length: 7.000", .length(7), true),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0", .chunked, false),
        ("Content-Length: 0\r\nTransfer-Encoding: chunked", .chunked, false),
    ]

    @Test("they are accepted only below the path that allows it", arguments: accepted)
    func places(fields: String, framing: BodyFraming, keepsAlive: Bool) {
        let allowed = Self.outcome(fields, at: "/v/videos/x", allowing: ["/w/", "/v/videos/"])
        #expect(Self.framing(allowed) == framing)
        #expect(Self.keepsAlive(allowed) == keepsAlive)
        for (path, lenient) in [
            ("/v/videos", ["/v/videos/"]), ("/", ["/v/videos/"]), ("/x/v/videos/x", ["/v/videos/", "/w/"]),
            ("/v/videos/x", []),
        ] {
            #expect(Self.outcome(fields, at: path, allowing: lenient).status == 400)
        }
    }

    @Test("a length beside chunks is accepted where that is allowed: chunks count, and the connection ends")
    func both() {
        var limits = HeadLimits()
        limits.allowsLengthOfChunked = true
        func outcome(_ fields: String) -> HeadOutcome {
            HeadOutcome.of("PUT /b/k HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\r\n", limits: limits)
        }
        for fields in [
            "Transfer-Encoding: chunked\r\nContent-Length: 5", "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Content-Length: 0\r\nTransfer-Encoding: chunked",
        ] {
            #expect(Self.framing(outcome(fields)) == .chunked)
            #expect(Self.keepsAlive(outcome(fields)) == false)
        }
        for fields in [
            "Content-Length: 5\r\nTransfer-Encoding: identity", "Content-Length: 5\r\nTransfer-Encoding: chunked, gzip",
            "Content-Length: 5\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
            "Content-Length: 5.0\r\nTransfer-Encoding: chunked",
        ] {
            #expect(outcome(fields).status == 400, "\(fields)")
        }
        #expect(outcome("Content-Length: 5\r\nTransfer-Encoding: gzip, chunked").status == 501)
    }

    @Test(
        "what has two meanings is refused there, too",
        arguments: [
            "Content-Length: 1.5", "Content-Length: .0", "Content-Length: 1.", "Content-Length: 1.0.0",
            "Content-Length: 1.0 ,1",
            "Content-Length: 1,0", "Content-Length: 1.0\r\nContent-Length: 1.0", "Content-Length: -1.0",
            "Content-Length: 1e0",
            "Transfer-Encoding: chunked\r\nContent-Length: 1", "Transfer-Encoding: gzip\r\nContent-Length: 0",
            "Transfer-Encoding: chunked\r\nContent-Length: 1.0", "Content-Length: 99999999999999999999.0",
        ]
    )
    func others(fields: String) {
        let status = Self.outcome(fields, at: "/v/videos/x", allowing: ["/w/", "/v/videos/"]).status
        #expect(status == 400)
    }
}
