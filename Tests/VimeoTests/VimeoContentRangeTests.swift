import Testing

@testable import Vimeo

@Suite("Content-Range as clients of Vimeo write it", .timeLimit(.minutes(10)))
struct VimeoContentRangeTests {
    /// What matters of a range.
    private enum Meaning: Equatable {
        case part(start: Int64, total: Int64?, isInclusive: Bool)
        case probe(total: Int64?)

        init?(_ text: String) {
            switch VimeoContentRange(text) {
            case nil: return nil
            case .probe(let total): self = .probe(total: total)
            case .part(let part): self = .part(start: part.start, total: part.total, isInclusive: part.isInclusive)
            }
        }
    }

    private static func part(_ start: Int64, _ total: Int64?, inclusive: Bool = false) -> Meaning {
        .part(start: start, total: total, isInclusive: inclusive)
    }

    private static let valid: [(String, Meaning)] = [
        // PyVimeo before 1.0.
        ("bytes: 0-3000000/3000000", part(0, 3_000_000)),
        ("bytes: 1000000-3000000/3000000", part(1_000_000, 3_000_000)),
        ("bytes:0-5/5", part(0, 5)), ("bytes:  0-5/5", part(0, 5)),
        // vimeo.php 1.3.0, vimeo.js 1.2.1.
        ("bytes 0-3000000/3000000", part(0, 3_000_000)), ("bytes 1000000-3000000/3000000", part(1_000_000, 3_000_000)),
        ("bytes 5-5/5", part(5, 5)), ("bytes 0-0/0", part(0, 0)),
        // websemantics, RFC 9110.
        ("bytes 0-2999999/3000000", part(0, 3_000_000, inclusive: true)), ("bytes 0-0/1", part(0, 1, inclusive: true)),
        ("bytes 7-9/10", part(7, 10, inclusive: true)), ("bytes 10-9/10", part(10, 10)),
        // A part that is not the last.
        ("bytes 0-4/10", part(0, 10)),
        // VimeoUpload.
        ("bytes 0-3000000.0/3000000.0", part(0, 3_000_000)),
        ("bytes 0-2999999.0/3000000.0", part(0, 3_000_000, inclusive: true)),
        ("bytes 0.0-3.00/3.000", part(0, 3)),
        // dot-net before 2.x.
        ("bytes 0-1048576/*", part(0, nil)), ("bytes 1048576-2097152/*", part(1_048_576, nil)),
        ("bytes 0-0/*", part(0, nil)),
        // Probes.
        ("bytes */*", .probe(total: nil)), ("bytes: */*", .probe(total: nil)),
        ("bytes */3000000", .probe(total: 3_000_000)),
        ("bytes */3000000.0", .probe(total: 3_000_000)), ("bytes * / *", .probe(total: nil)),
        // Spaces and case.
        ("Bytes 0-5/5", part(0, 5)), ("BYTES: 0-5/5", part(0, 5)), ("  bytes 0-5/5\t", part(0, 5)),
        ("bytes=0-5/5", part(0, 5)), ("bytes 0 - 5 / 5", part(0, 5)), ("bytes 007-010/010", part(7, 10)),
        ("bytes 0-9223372036854775807/9223372036854775807", part(0, .max)),
    ]

    @Test("every form that a client sends is read", arguments: valid.indices)
    func forms(index: Int) {
        let (text, meaning) = Self.valid[index]
        #expect(Meaning(text) == meaning)
    }

    @Test(
        "a piece that is not the last is told by its length, where the end is a position",
        arguments: [
            ("bytes 0-999/2500", 1000, true), ("bytes 1000-1999/2500", 1000, true),
            ("bytes 2000-2499/2500", 500, false),
            ("bytes 0-1000/2500", 1000, false), ("bytes 0-2499/2500", 1000, false), ("bytes 0-999/*", 1000, false),
            ("bytes 0-9223372036854775807/9223372036854775807", 5, false),
            ("bytes 0-9223372036854775806/9223372036854775807", .max, false),
            ("bytes 5-9223372036854775807/9223372036854775807", .max, false),
            ("bytes 0-9223372036854775805/9223372036854775807", .max - 1, true), ("bytes 0-0/0", 0, false),
        ]
    )
    func pieces(text: String, length: Int64, isPiece: Bool) {
        guard case .part(let part)? = VimeoContentRange(text) else {
            Issue.record("\(text) is not read")
            return
        }
        #expect(part.isPiece(length) == isPiece)
        #expect(!part.isPiece(nil))
    }

    @Test(
        "anything else is refused",
        arguments: [
            "", "bytes", "bytes ", "bytes:", "byte 0-5/5", "octets 0-5/5", "bytes0-5/5", "bytes 0-5", "bytes 0/5",
            "bytes 0-/5",
            "bytes -5/5", "bytes 0-5/", "bytes /5", "bytes 0-5/5/5", "bytes 0-5-6/7", "bytes a-5/5", "bytes 0-b/5",
            "bytes 0-5/c", "bytes -1-5/5", "bytes +0-5/5", "bytes 0-5/+5", "bytes 0x0-5/5", "bytes 0-5.5/6",
            "bytes 0-5./5",
            "bytes 0-.0/5", "bytes 0-5.0.0/5", "bytes 6-5/5", "bytes 3-1/5", "bytes 0-6/5", "bytes 6-6/5",
            "bytes *-5/5",
            "bytes 0-*/5", "bytes **/5", "bytes 0-9223372036854775808/*", "bytes 99999999999999999999-0/*",
            "bytes 0-5/99999999999999999999", "bytes 0-5,7-9/10", "bytes 0–5/5", "bytes ٠-5/5", "bytes 0-5/5;x", "*/*",
            "0-5/5",
        ]
    )
    func others(text: String) {
        #expect(VimeoContentRange(text) == nil)
    }
}
