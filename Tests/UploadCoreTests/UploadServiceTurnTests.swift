import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

/// One byte at a time, with pauses in which others run.
private final class SlowSource: ByteSource {
    private let base: ScriptedSource

    init(_ bytes: [UInt8]) { base = ScriptedSource([.bytes(bytes)], isLengthKnown: true) }

    var remaining: Int64? { base.remaining }
    var interrupter: SourceInterrupter { base.interrupter }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        for _ in 0..<4 { await Task.yield() }
        return try await base.next(maximum: 1)
    }
}

@Suite("Concurrent writers of one upload", .timeLimit(.minutes(10)))
struct UploadServiceTurnTests {
    private static let long = UploadLimits(
        maximumBytes: 1000,
        lifetime: 3600,
        protectedTurn: .seconds(1000)
    )

    @Test("of sixteen that begin at offset 0 one finishes, in every round")
    func sixteen() async throws {
        let bench = ServiceBench(limits: Self.long)
        for round in 0..<50 {
            let id = try await bench.upload(20)
            let results = await withTaskGroup(of: UploadError.Code?.self) { group in
                for number in 0..<16 {
                    group.addTask {
                        await code {
                            try await bench.services.uploads.append(
                                to: id,
                                at: 0,
                                contentLength: 20,
                                expecting: nil,
                                from: SlowSource([UInt8](repeating: UInt8(number), count: 20))
                            )
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results.filter { $0 == nil }.count == 1, "round \(round): \(results)")
            #expect(try await bench.services.uploads.inspect(id).state == .completed, "round \(round)")
            #expect(Set(try await bench.contents(of: id)).count == 1)
        }
        #expect(!bench.observer.story.contains("taken over"))
    }

    /// An upload whose writer began at byte 2, has sent three bytes, and stalls.
    private func whileStalled(
        _ bench: ServiceBench,
        _ body: (UploadID, ScriptedSource) async throws -> Void
    ) async throws -> UploadError.Code? {
        let id = try await bench.upload(10, holding: [1, 2])
        let stalled = ScriptedSource([.bytes([3, 4, 5]), .stall, .bytes([6, 7, 8, 9, 10])])
        async let writer = code { try await bench.append(stalled, to: id, at: 2) }
        await stalled.waitUntilStalled()
        try await body(id, stalled)
        return await writer
    }

    @Test("an impossible offset is refused at once, and disturbs no writer", arguments: [0, 1, 6, 10, 11])
    func impossible(offset: Int64) async throws {
        let bench = ServiceBench(limits: Self.long)
        let writer = try await whileStalled(bench) { (id: UploadID, source: ScriptedSource) async throws in
            #expect(await code { try await bench.append([9], to: id, at: offset) } == .offsetMismatch(expected: 2))
            #expect(source.interruptions == 0)
            source.proceed()
        }
        #expect(writer == nil)
    }

    @Test("a client that knows the writer's offset, as after an offset query, takes over at once, and so does a query")
    func known() async throws {
        let bench = ServiceBench(limits: Self.long)
        let first = try await whileStalled(bench) { (id: UploadID, source: ScriptedSource) async throws in
            #expect(try await bench.append([6, 7, 8, 9, 10], to: id, at: 5).state == .completed)
        }
        #expect(first == .interrupted)
        let second = try await whileStalled(bench) { (id: UploadID, source: ScriptedSource) async throws in
            #expect(try await bench.services.uploads.status(of: id).offset == 5)
        }
        #expect(second == .interrupted)
    }

    @Test(
        "a writer without progress is interrupted when its turn is over, even by a writer that does not know its offset"
    )
    func stalled() async throws {
        let bench = ServiceBench(limits: UploadLimits(lifetime: 3600, protectedTurn: .milliseconds(20)))
        let writer = try await whileStalled(bench) { (id: UploadID, source: ScriptedSource) async throws in
            #expect(await code { try await bench.append([9], to: id, at: 2) } == .offsetMismatch(expected: 5))
        }
        #expect(writer == .interrupted)
        #expect(bench.observer.story.contains("taken over"))
    }
}
