import Foundation
import Testing

@testable import Digests

@Suite("MD5s of messages that arrive at the same time", .timeLimit(.minutes(10)))
struct MD5LanesTests {
    /// A generator whose numbers depend only on the seed.
    private struct Numbers {
        var state: UInt64
        mutating func below(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % bound
        }
        mutating func bytes(_ count: Int) -> [UInt8] {
            let start = UInt8(below(256))
            return (0..<count).map { start &+ UInt8(truncatingIfNeeded: $0 &* 7) }
        }
    }

    @Test(
        "one message gets its digest, whatever its pieces",
        arguments: [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000, 600_000]
    )
    func alone(count: Int) async throws {
        let lanes = MD5Lanes()
        var numbers = Numbers(state: UInt64(count))
        let bytes = numbers.bytes(count)
        for largest in [3, 64, 70_000] where count / largest < 1000 {
            let message = MD5Lanes.Message()
            var rest = bytes[...]
            while !rest.isEmpty {
                let piece = Array(rest.prefix(1 + numbers.below(largest)))
                rest = rest.dropFirst(piece.count)
                await lanes.add(piece, to: message)
            }
            #expect(await lanes.finish(message) == Digest.hash(bytes, .md5))
        }
        #expect(lanes.waitingCount == 0)
    }

    @Test("messages of all lengths at the same time get their own digests", arguments: 1...4 as ClosedRange<UInt64>)
    func together(seed: UInt64) async throws {
        let lanes = MD5Lanes()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<24 as Range<UInt64> {
                group.addTask {
                    var numbers = Numbers(state: seed << 8 | number)
                    let message = MD5Lanes.Message()
                    let whole = RunningDigest(.md5)
                    for _ in 0..<numbers.below(12) {
                        let piece = numbers.bytes(numbers.below(5) == 0 ? numbers.below(100) : numbers.below(150_000))
                        whole.update(piece)
                        await lanes.add(piece, to: message)
                    }
                    if numbers.below(4) == 0 {
                        lanes.drop(message)
                    } else {
                        #expect(await lanes.finish(message) == whole.finish(), "seed \(seed), message \(number)")
                    }
                }
            }
        }
        while lanes.waitingCount > 0 { await Task.yield() }
    }

    @Test("few bytes wait for others; the end of a message, and many bytes, do not")
    func waiting() async throws {
        let lanes = MD5Lanes()
        let piece = [UInt8](repeating: 1, count: 1000)
        let (first, second) = (MD5Lanes.Message(), MD5Lanes.Message())
        await lanes.add(piece, to: first)
        await lanes.add(piece, to: second)
        #expect(lanes.waitingCount == 2000)
        #expect(await lanes.finish(first) == Digest.hash(piece, .md5))
        // The second was hashed beside it, or waits.
        #expect([0, 1000].contains(lanes.waitingCount))
        let large = [UInt8](repeating: 2, count: MD5Lanes.mostCount + 1)
        // Returns when no more than the bound waits.
        await lanes.add(large, to: second)
        #expect(lanes.waitingCount <= MD5Lanes.mostCount)
        #expect(await lanes.finish(second) == Digest.hash(piece + large, .md5))
        #expect(lanes.waitingCount == 0)
    }

    @Test("four messages are hashed without an end")
    func four() async throws {
        let lanes = MD5Lanes()
        let piece = [UInt8](repeating: 1, count: 64_000)
        let messages = (0..<4).map { _ in MD5Lanes.Message() }
        for message in messages { await lanes.add(piece, to: message) }
        while lanes.waitingCount > 0 { await Task.yield() }
        for message in messages { #expect(await lanes.finish(message) == Digest.hash(piece, .md5)) }
    }

    @Test("a message that is dropped leaves nothing behind")
    func dropped() async throws {
        let lanes = MD5Lanes()
        let message = MD5Lanes.Message()
        await lanes.add([UInt8](repeating: 1, count: 70), to: message)
        lanes.drop(message)
        #expect(lanes.waitingCount == 0)
    }

    @Test("all messages together hold a bounded number of bytes")
    func bound() async throws {
        let lanes = MD5Lanes()
        let piece = [UInt8](repeating: 3, count: 200_000)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<300 {
                group.addTask {
                    let message = MD5Lanes.Message()
                    await lanes.add(piece, to: message)
                    await lanes.add(piece, to: message)
                    #expect(await lanes.finish(message) == Digest.hash(piece + piece, .md5))
                }
            }
        }
        #expect(lanes.waitingCount == 0)
    }
}
