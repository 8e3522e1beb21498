import HTTPWire
import Testing

@Suite("Multipart content", .timeLimit(.minutes(10)))
struct MultipartParserTests {
    struct Part: Equatable, CustomStringConvertible {
        var head: HTTPFields
        var content: String

        init(_ content: String, _ head: HTTPFields = ["A": "1"]) {
            self.head = head
            self.content = content
        }

        var description: String { "\(head) \(content.debugDescription)" }
    }

    /// The result of parsing a whole content.
    enum Outcome: Equatable {
        case parts([Part])
        case failed
        case incomplete
    }

    static func boundary(_ text: String = "b") throws -> MultipartBoundary {
        try #require(MediaType("multipart/form-data; boundary=\"\(text)\"").flatMap { MultipartBoundary(of: $0) })
    }

    /// Parses `bytes` in pieces that end at `cuts`, with data of at most `maximum` bytes.
    static func parse(
        _ bytes: [UInt8],
        boundary: String = "b",
        cuts: [Int] = [],
        maximum: Int = .max,
        limits: MultipartLimits = MultipartLimits()
    ) throws -> Outcome {
        var parser = MultipartParser(boundary: try Self.boundary(boundary), limits: limits)
        var parts: [Part] = []
        var content: [UInt8] = []
        var start = 0
        for cut in cuts + [bytes.count] {
            parser.append(Array(bytes[start..<cut]))
            start = cut
            piece: while true {
                let step: MultipartParser.Step
                do { step = try parser.next(maximum: maximum) } catch {
                    #expect(!error.reason.isEmpty)
                    return .failed
                }
                switch step {
                case .needMore: break piece
                case .part(let head): parts.append(Part("", head))
                case .data(let data):
                    #expect((1...maximum).contains(data.count))
                    content += data
                case .endOfPart:
                    parts[parts.count - 1].content = String(decoding: content, as: UTF8.self)
                    content = []
                case .end: return .parts(parts)
                }
            }
        }
        return .incomplete
    }

    static let good: [(String, [Part])] = [
        ("--b\r\nA: 1\r\n\r\nx\r\n--b--\r\n", [Part("x")]),
        ("--b\r\nA: 1\r\n\r\nx\r\n--b--", [Part("x")]),
        ("--b\r\nA: 1\r\n\r\nx\r\n--b\r\nA: 1\r\n\r\ny\r\n--b--\r\n", [Part("x"), Part("y")]),
        // §5.1.1: preamble, epilogue, white space after a boundary.
        ("\r\n--b\r\nA: 1\r\n\r\nx\r\n--b--\r\n", [Part("x")]),
        ("for people\r\n--b\r\nA: 1\r\n\r\nx\r\n--b--\r\nfor people\r\n--b\r\nno part", [Part("x")]),
        ("--b \t \r\nA: 1\r\n\r\nx\r\n--b\t\r\nA: 1\r\n\r\ny\r\n--b--  \r\n", [Part("x"), Part("y")]),
        // Heads: none, several fields, values of any UTF-8.
        ("--b\r\n\r\nx\r\n--b--\r\n", [Part("x", [:])]),
        ("--b\r\nA: 1\r\nB:2\r\nC:\r\n\r\nx\r\n--b--", [Part("x", ["A": "1", "B": "2", "C": ""])]),
        ("--b\r\nA: \u{FC}\u{4E2D}\r\n\r\nx\r\n--b--", [Part("x", ["A": "\u{FC}\u{4E2D}"])]),
        // No content, with and without the empty line (§5.1.1).
        ("--b\r\nA: 1\r\n\r\n\r\n--b--", [Part("")]),
        ("--b\r\nA: 1\r\n\r\n--b\r\n\r\n--b--", [Part(""), Part("", [:])]),
        // Content that resembles a boundary.
        ("--b\r\nA: 1\r\n\r\n\r\n-b\r\n--a\r\n-\r\n\r\n--b--", [Part("\r\n-b\r\n--a\r\n-\r\n")]),
        ("--b\r\nA: 1\r\n\r\nx--b\r\n--b--", [Part("x--b")]),
        ("--b\r\nA: 1\r\n\r\nx\n--b\n\r\n--b--", [Part("x\n--b\n")]),
        ("--b\r\nA: 1\r\n\r\nx\r--b\r\r\r\n--b--", [Part("x\r--b\r\r")]),
        ("--b\r\nA: 1\r\n\r\n\r\r\n\r\r\n--\r\n--b--", [Part("\r\r\n\r\r\n--")]),
        ("--b\r\nA: 1\r\n\r\n--\r\n--b--", [Part("--")]),
        ("--b\r\nA: 1\r\n\r\n-\r\n--b--", [Part("-")]),
        // No part at all.
        ("--b--\r\n", []),
    ]

    @Test("valid content yields its parts, however it is split", arguments: good)
    func parsesGood(text: String, parts: [Part]) throws {
        let bytes = Array(text.utf8)
        let expected = Outcome.parts(parts)
        #expect(try Self.parse(bytes) == expected)
        for cut in 0...bytes.count { #expect(try Self.parse(bytes, cuts: [cut]) == expected, "cut at \(cut)") }
        #expect(try Self.parse(bytes, cuts: Array(0...bytes.count)) == expected)
        #expect(try Self.parse(bytes, maximum: 1) == expected)
        for first in 0..<bytes.count where bytes.count < 60 {
            for second in first...bytes.count {
                #expect(try Self.parse(bytes, cuts: [first, second]) == expected, "cut at \(first) and \(second)")
            }
        }
    }

    @Test("truncated content is never complete", arguments: good.map(\.0))
    func missesTheEnd(text: String) throws {
        let bytes = Array(text.utf8)
        let last = Array("--b--".utf8)
        let end = try #require((0...bytes.count - last.count).last { bytes[$0...].starts(with: last) })
        for count in 0..<end + last.count {
            #expect(try Self.parse(Array(bytes.prefix(count))) == .incomplete, "\(count)")
        }
    }

    static let bad: [String] = [
        // Boundaries.
        "--b\nA: 1\n\nx\n--b--\n", "--bx\r\nA: 1\r\n\r\nx\r\n--b--", "--b-\r\nA: 1\r\n\r\nx\r\n--b--",
        "--b\rA: 1\r\n\r\nx\r\n--b--", "--b\r\rA: 1\r\n\r\nx\r\n--b--", "--b x\r\nA: 1\r\n\r\nx\r\n--b--",
        "--b\r\nA: 1\r\n\r\nx\r\n--bx\r\n--b--", "--b\r\nA: 1\r\n\r\nx\r\n--b-x\r\n--b--",
        "--b\r\nA: 1\r\n\r\nx\r\n--b\n--b--", "--b\u{0}\r\nA: 1\r\n\r\nx\r\n--b--",
        "--b" + String(repeating: " ", count: 300) + "\r\nA: 1\r\n\r\nx\r\n--b--",
        String(repeating: "x", count: 5000) + "\r\n--b\r\nA: 1\r\n\r\nx\r\n--b--",
        // Heads.
        "--b\r\nA: 1\n\r\nx\r\n--b--", "--b\r\nA: 1\r\n\nx\r\n--b--", "--b\r\nA: 1\rB: 2\r\n\r\nx\r\n--b--",
        "--b\r\nA 1\r\n\r\nx\r\n--b--", "--b\r\n: 1\r\n\r\nx\r\n--b--", "--b\r\nA : 1\r\n\r\nx\r\n--b--",
        "--b\r\n A: 1\r\n\r\nx\r\n--b--", "--b\r\nA: 1\r\n 2\r\n\r\nx\r\n--b--", "--b\r\nA: 1\r\n\t2\r\n\r\nx\r\n--b--",
        "--b\r\nA: \u{0}\r\n\r\nx\r\n--b--", "--b\r\nA: \u{7F}\r\n\r\nx\r\n--b--", "--b\r\nA\u{0}: 1\r\n\r\nx\r\n--b--",
        "--b\r\n\u{FC}: 1\r\n\r\nx\r\n--b--", "--b\r\nA(): 1\r\n\r\nx\r\n--b--", "--b\r\n\nA: 1\r\n\r\nx\r\n--b--",
        "--b\r\n--b\r\nA: 1\r\n\r\nx\r\n--b--", "--b\r\nA: 1\r\n--b--\r\n\r\n", "--b\r\n\u{FEFF}A: 1\r\n\r\nx\r\n--b--",
        "--b\r\nA: " + String(repeating: "x", count: 9000) + "\r\n\r\nx\r\n--b--",
        "--b\r\n" + String(repeating: "A: 1\r\n", count: 17) + "\r\nx\r\n--b--",
        "--b\r\n" + String(repeating: "A: 1\r\n", count: 2000) + "\r\nx\r\n--b--",
        String(repeating: "--b\r\n\r\n\r\n", count: 1001) + "--b--",
    ]

    @Test("invalid content is refused, however it is split", arguments: bad)
    func refusesBad(text: String) throws {
        let bytes = Array(text.utf8)
        #expect(try Self.parse(bytes) == .failed)
        #expect(try Self.parse(bytes, cuts: Array(0...bytes.count)) == .failed)
    }

    @Test("endless content is refused as soon as it exceeds a limit", arguments: ["", "--b\r\n", "--b\r\nA: ", "--b "])
    func boundsWhatItHolds(beginning: String) throws {
        var parser = MultipartParser(boundary: try Self.boundary())
        parser.append(Array(beginning.utf8))
        var count = 0
        #expect(throws: MultipartParser.Failure.self) {
            while try parser.next() == .needMore, count < 100_000 {
                parser.append(Array(repeating: UInt8(ascii: beginning == "--b " ? " " : "x"), count: 100))
                count += 100
            }
        }
        #expect(count < 10_000)
    }

    @Test("large pieces are returned whole, except for the boundary")
    func passesPiecesOn() throws {
        var parser = MultipartParser(boundary: try Self.boundary("----formboundary"))
        parser.append(Array("------formboundary\r\n\r\n".utf8))
        #expect(try parser.next() == .part([:]))
        let piece = (0..<262_144).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        for round in 0..<4 {
            #expect(try parser.next() == .needMore)
            parser.append(piece + [13])
            #expect(try parser.next() == .data((round == 0 ? [] : [13, 10]) + piece))
            #expect(try parser.next() == .needMore)
            parser.append([10])
        }
        parser.append(Array("\r\n------formboundary--".utf8))
        #expect(try parser.next() == .data([13, 10]))
        #expect(try parser.next() == .endOfPart)
        #expect(try parser.next() == .end)
        #expect(try parser.next() == .end)
    }

    @Test(
        "the boundary of a media type (RFC 2046 §5.1.1)",
        arguments: [
            ("multipart/form-data; boundary=b", "b"), ("multipart/form-data; boundary=\"b c\"", "b c"),
            ("multipart/form-data; Boundary=\"gc0p4Jq0M:2Yt08j34c0p\"", "gc0p4Jq0M:2Yt08j34c0p"),
            ("multipart/form-data; charset=utf-8; boundary=----WebKitFormBoundary7MA4", "----WebKitFormBoundary7MA4"),
            ("multipart/form-data", nil), ("multipart/form-data; boundary=\"\"", nil),
            ("multipart/form-data; boundary=\"b \"", nil), ("multipart/form-data; boundary=\"b\\\"\"", nil),
            ("multipart/form-data; boundary=a; boundary=b", nil), ("multipart/form-data; boundary=\"\u{FC}\"", nil),
            ("multipart/form-data; boundary=" + String(repeating: "x", count: 71), nil),
            ("multipart/form-data; boundary=" + String(repeating: "x", count: 70), String(repeating: "x", count: 70)),
        ] as [(String, String?)]
    )
    func readsBoundaries(type: String, boundary: String?) throws {
        let found = MultipartBoundary(of: try #require(MediaType(type)))
        #expect((found != nil) == (boundary != nil))
        guard let boundary, let found else { return }
        var parser = MultipartParser(boundary: found)
        parser.append(Array("--\(boundary)--".utf8))
        #expect(try parser.next() == .end)
    }
}
