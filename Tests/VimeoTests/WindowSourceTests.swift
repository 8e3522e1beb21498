import Bytes
import SluiceTesting
import Testing

@testable import Vimeo

@Suite("Part of a source", .timeLimit(.minutes(10)))
struct WindowSourceTests {
    private static let bytes: [UInt8] = Array(0..<100)

    @Test(
        "it has the bytes after those that are skipped, up to the limit",
        arguments: [0, 1, 37, 99, 100, 120],
        [0, 1, 50, 100, 200]
    )
    func window(skipped: Int64, limit: Int64) async throws {
        let source = WindowSource(ArraySource(Self.bytes), skipping: skipped, limit: limit)
        let wanted = Array(Self.bytes.dropFirst(Int(skipped)).prefix(Int(limit)))
        #expect(source.remaining == Int64(wanted.count))
        var found: [UInt8] = []
        while let piece = try await source.next(maximum: 7) {
            #expect((1...7).contains(piece.count))
            found += piece
            #expect(source.remaining == Int64(wanted.count - found.count))
        }
        #expect(found == wanted)
        #expect(try await source.next(maximum: 7) == nil)
    }

    @Test("of content that announces too much, nothing after the limit is waited for")
    func excess() async throws {
        // The source would wait for ever for what its client does not send.
        let source = ScriptedSource([.bytes(Self.bytes), .stall])
        let window = WindowSource(source, skipping: 10, limit: 90)
        var count = 0
        while let piece = try await window.next(maximum: 1000) { count += piece.count }
        #expect(count == 90)
    }
}
