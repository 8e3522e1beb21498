import HTTPWire
import Testing

@Suite("Byte ranges", .timeLimit(.minutes(10)))
struct ByteRangesTests {
    @Test(
        "a range of 10 bytes is selected (RFC 9110 §14.1.2)",
        arguments: [
            ("bytes=0-0", .single(0..<1)), ("bytes=0-9", .single(0..<10)), ("bytes=0-", .single(0..<10)),
            ("bytes=9-", .single(9..<10)), ("bytes=3-5", .single(3..<6)), ("bytes=3-99", .single(3..<10)),
            ("bytes=3-99999999999999999999999", .single(3..<10)), ("bytes=3-9223372036854775807", .single(3..<10)),
            ("bytes=-1", .single(9..<10)), ("bytes=-10", .single(0..<10)), ("bytes=-11", .single(0..<10)),
            ("bytes=-99999999999999999999999", .single(0..<10)), ("BYTES=0-0", .single(0..<1)),
            ("bytes=10-", .unsatisfiable), ("bytes=10-12", .unsatisfiable), ("bytes=-0", .unsatisfiable),
            ("bytes=99999999999999999999999-", .unsatisfiable),
        ] as [(String, ByteRanges.Selection)]
    )
    func chooses(field: String, selection: ByteRanges.Selection) {
        #expect(ByteRanges.select(field, size: 10) == selection)
    }

    @Test(
        "malformed ranges, other units and multiple ranges select everything (RFC 9110 §14.2)",
        arguments: [
            "", "bytes", "bytes=", "bytes=-", "bytes=5-3", "bytes=a-b", "bytes=0-x", "bytes=+1-2", "bytes= 0-1",
            "bytes=0 -1",
            "bytes=0--1", "bytes=--1", "items=0-1", "0-1", "bytes:0-1", "bytes=0-1,3-4", "bytes=0-1, bytes=3-4",
            "bytes=0x1-",
        ]
    )
    func givesEverything(field: String) {
        #expect(ByteRanges.select(field, size: 10) == .whole)
    }

    @Test(
        "without clamping, a range beyond the representation selects everything",
        arguments: [
            ("bytes=0-9", .single(0..<10)), ("bytes=3-", .single(3..<10)), ("bytes=-10", .single(0..<10)),
            ("bytes=0-10", .whole), ("bytes=3-9223372036854775807", .whole), ("bytes=-11", .whole),
            ("bytes=10-", .unsatisfiable), ("bytes=10-12", .unsatisfiable), ("bytes=-0", .unsatisfiable),
            ("bytes=5-3", .whole),
        ] as [(String, ByteRanges.Selection)]
    )
    func choosesWithoutCutting(field: String, selection: ByteRanges.Selection) {
        #expect(ByteRanges.select(field, size: 10, clamps: false) == selection)
    }

    @Test("nothing is selected from an empty representation")
    func emptyRepresentation() {
        #expect(ByteRanges.select(nil, size: 0) == .whole)
        #expect(ByteRanges.select("bytes=0-", size: 0) == .unsatisfiable)
        #expect(ByteRanges.select("bytes=-5", size: 0) == .whole)
        #expect(ByteRanges.select("bytes=-5", size: 0, clamps: false) == .whole)
    }

    @Test("Content-Range is written (RFC 9110 §14.4)")
    func writesContentRange() {
        #expect(ByteRanges.contentRange(0..<1, size: 10) == "bytes 0-0/10")
        #expect(ByteRanges.contentRange(3..<10, size: 10) == "bytes 3-9/10")
        #expect(ByteRanges.unsatisfiedContentRange(size: 10) == "bytes */10")
    }
}
