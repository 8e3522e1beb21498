import Bytes
import Testing

@Suite("Text eight bytes at a time", .timeLimit(.minutes(1)))
struct WordScanTests {
    /// Words with each byte in each place, among neighbours that carries and borrows of a subtraction could reach.
    private static func words(_ byte: UInt8) -> [(word: UInt64, bytes: [UInt8])] {
        let fillers: [UInt8] = [0x41, 0x20, 0x21, 0x7E, 0x80, 0xFF]
        return fillers.flatMap { filler in
            (0..<8).map { place in
                var bytes = [UInt8](repeating: filler, count: 8)
                bytes[place] = byte
                return (bytes.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }, bytes)
            }
        }
    }

    @Test("each byte in each place is found, and no other")
    func exact() {
        for byte in UInt8.min...UInt8.max {
            for (word, bytes) in Self.words(byte) {
                #expect(WordScan.isASCII(word) == bytes.allSatisfy { $0 < 0x80 })
                for bound: UInt8 in [1, 0x20, 0x21, 0x80] {
                    let isBelow = bytes.contains { $0 < bound }
                    #expect(WordScan.has(below: bound, word) == isBelow, "\(bytes) below \(bound)")
                }
                for wanted: UInt8 in [0, 0x20, 0x22, 0x5C, 0x7F, 0x80, 0xFF] {
                    #expect(WordScan.has(wanted, word) == bytes.contains(wanted), "\(wanted) in \(bytes)")
                }
                #expect(WordScan.hasControl(word) == bytes.contains { $0 < 0x20 || $0 == 0x7F })
            }
        }
    }

    @Test("every byte of a text is looked at, wherever it is", arguments: 0...25)
    func everyByte(_ count: Int) {
        func isPlain(_ bytes: [UInt8]) -> Bool { bytes.withUnsafeBufferPointer { JSONObjectWriter.isPlain($0) } }
        let text = [UInt8](repeating: UInt8(ascii: "x"), count: count)
        #expect(isPlain(text))
        for place in text.indices {
            for byte in UInt8.min...UInt8.max {
                var changed = text
                changed[place] = byte
                #expect(isPlain(changed) == !JSONObjectWriter.mustEscape(byte), "\(byte) at \(place) of \(count)")
            }
        }
    }
}
