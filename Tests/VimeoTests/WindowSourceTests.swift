import Bytes
import SluiceTesting
import SystemIO
import Testing

@testable import Vimeo

@Suite("Part of a source", .timeLimit(.minutes(10)))
struct WindowSourceTests {
    private static let bytes: [UInt8] = Array(0..<100)

    @Test(
        "it has the bytes after those that are skipped, up to the limit",
        arguments: [0, 1, 37, 99, 100, 120],
        [100, 200, nil]
    )
    func window(skipped: Int64, limit: Int64?) async throws {
        let source = WindowSource(ArraySource(Self.bytes), skipping: skipped, limit: limit)
        let wanted = Array(Self.bytes.dropFirst(Int(skipped)))
        #expect(source.remaining == Int64(wanted.count))
        var found: [UInt8] = []
        while let piece = try await source.next(maximum: 7) {
            #expect((1...7).contains(piece.count))
            found += piece
            #expect(source.remaining == Int64(wanted.count - found.count))
        }
        #expect(found == wanted && !source.isExceeded)
        #expect(try await source.next(maximum: 7) == nil)
    }

    @Test("of content that announces too much, nothing after the limit is waited for", arguments: [1, 7, 1000])
    func announced(maximum: Int) async throws {
        // The source would wait for ever for what its client does not send.
        let source = ScriptedSource([.bytes(Self.bytes), .stall, .bytes([1])], isLengthKnown: true)
        let window = WindowSource(source, skipping: 10, limit: 90)
        var count = 0
        while let piece = try await window.next(maximum: maximum) { count += piece.count }
        #expect(count == 90 && !window.isExceeded)
    }

    @Test(
        "bytes beyond the limit make it fail before its last byte",
        arguments: [1, 2, 50, 99],
        [true, false]
    )
    func excess(limit: Int64, isLengthKnown: Bool) async throws {
        for maximum in [1, 7, 1000] {
            let source = ScriptedSource([.bytes(Self.bytes)], isLengthKnown: isLengthKnown)
            let window = WindowSource(source, limit: limit)
            var count: Int64 = 0
            await #expect(throws: SourceFailure.tooLarge(limit: limit)) {
                while let piece = try await window.next(maximum: maximum) { count += Int64(piece.count) }
            }
            #expect(count == limit - 1 && window.isExceeded)
        }
    }

    @Test("the same when the bytes are moved into a file", arguments: [true, false], [true, false])
    func transfer(isExceeded: Bool, isLengthKnown: Bool) async throws {
        let folder = try TemporaryDirectory()
        let pool = BlockingPool(threads: 1, label: "test-disk")
        let file = try #require(await pool.run { io in try? io.openUnnamed(in: folder.path) })
        let steps: [ScriptedSource.Step] =
            isExceeded
            ? [.bytes(Self.bytes)]
            : isLengthKnown
                ? [.bytes(Array(Self.bytes.prefix(60))), .stall, .bytes([1])]
                : [.bytes(Array(Self.bytes.prefix(60)))]
        let source = ScriptedSource(steps, isLengthKnown: isLengthKnown, supportsTransfer: true)
        let window = WindowSource(source, skipping: 10, limit: 50)
        let outcome = await window.transfer(to: file, at: 0, limit: 1000, on: pool)
        let wanted = Self.bytes[10..<(isExceeded ? 59 : 60)]
        #expect(outcome.moved == wanted.count)
        #expect(outcome.end == (isExceeded ? .sourceFailed(.tooLarge(limit: 50)) : .endOfSource))
        let written = await pool.run { io in try? io.read(file, at: 0, maximum: 1000) }
        #expect(written == Array(wanted))
    }
}
