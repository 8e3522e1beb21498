import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Room for parts, and extreme numbers from clients", .timeLimit(.minutes(10)))
struct UploadServiceRoomTests {
    private let bench = ServiceBench()
    private let bytes = [UInt8](repeating: 1, count: 100)

    @Test("concurrent parts fit exactly into a limit of the size of the file", arguments: [true, false])
    func exactly(limitsUpload: Bool) async throws {
        let account = Account(.subject, "alice")
        if !limitsUpload {
            var policy = Policy()
            policy.storedBytes = 1000
            try await bench.services.quota.setPolicy(policy, of: account)
        }
        let id = try await bench.begin(maximumBytes: limitsUpload ? 1000 : nil)
        // A recorded part whose request is still running.
        let gate = Gate()
        let recorded = Gate()
        bench.state.plan.before(.setExpiry) {
            await recorded.open()
            await gate.pass()
        }
        bench.clock.advance(by: 120)
        async let first = bench.put(bytes, part: 1, of: id)
        await recorded.pass()
        do {
            try await withThrowingTaskGroup(of: NamedPart.self) { group in
                for number in 2...10 {
                    group.addTask { [bench, bytes] in try await bench.put(bytes, part: number, of: id) }
                }
                try await group.waitForAll()
            }
        } catch {
            Issue.record(error)
        }
        #expect(try await bench.services.uploads.recorded(id).reservedBytes == (limitsUpload ? 0 : 1000))
        await gate.open()
        _ = try await first
        #expect(await code { try await bench.put([1], part: 11, of: id) } != nil)
        let (upload, parts) = try await bench.services.parts.parts(of: id, after: 0, limit: 20)
        #expect(upload.offset == 1000)
        try await bench.complete(id, parts.map { NamedPart(number: $0.number, entityTag: $0.entityTag) })
        if !limitsUpload { #expect(try await bench.services.quota.quota(of: account).usage.storedBytes == 1000) }
    }

    @Test("a part that replaces a stored one needs room only for the difference")
    func replacing() async throws {
        let id = try await bench.begin(maximumBytes: 200)
        try await bench.put(bytes, part: 1, of: id)
        let slow = ScriptedSource([.stall, .bytes(bytes)])
        async let again = bench.services.putPart(1, of: id, bench.content(bytes, slow), minimumSize: 0)
        await slow.waitUntilStalled()
        // A third part with the same number, which ends before the second.
        try await bench.put(bytes, part: 1, of: id)
        try await bench.put(bytes, part: 2, of: id)
        #expect(await code { try await bench.put([1], part: 3, of: id) } == .tooLarge(limit: 200))
        slow.proceed()
        _ = try await again
        #expect(await code { try await bench.put([1], part: 3, of: id) } == .tooLarge(limit: 200))
    }

    @Test("a failed part releases its room")
    func failing() async throws {
        let id = try await bench.begin(maximumBytes: 100)
        let cut = ScriptedSource([.bytes([3]), .fail(.timedOut)])
        #expect(
            await code { try await bench.services.putPart(1, of: id, bench.content(bytes, cut), minimumSize: 0) }
                == .timedOut
        )
        bench.state.plan.fail(.putPart)
        #expect(await code { try await bench.put(bytes, part: 1, of: id) } == .storageFailure)
        try await bench.put(bytes, part: 2, of: id)
    }

    private static let huge: [Int64] = [1 << 50, 1 << 60, .max / 2 + 1, .max - 1, .max]

    @Test("parts of any announced size are refused or accepted without overflow", arguments: huge)
    func hugeParts(size: Int64) async throws {
        for limit in [Int64.max, nil] {
            let bench = ServiceBench(limits: UploadLimits(maximumBytes: .max, lifetime: 3600))
            let account = Account(.subject, "alice")
            var policy = Policy()
            policy.storedBytes = .max
            if limit == nil { try await bench.services.quota.setPolicy(policy, of: account) }
            let id = try await bench.begin(maximumBytes: limit)
            try await bench.put([1, 2, 3], part: 9, of: id)
            // Several concurrent parts, none of which ever arrives.
            let sources = (1...4).map { _ in ScriptedSource([.stall]) }
            await withTaskGroup(of: UploadError.Code?.self) { group in
                for (index, source) in sources.enumerated() {
                    group.addTask {
                        let content = ObjectContent(source, size: size) { () async throws(UploadError) in
                            ContentDigests(md5: [], crc64: 0)
                        }
                        defer { source.interrupter.interrupt() }
                        return await code {
                            try await bench.services.putPart(index + 1, of: id, content, minimumSize: 0)
                        }
                    }
                }
                while bench.storage.plan.calls(of: .storePart) == 1 && size < .max - 3 { await Task.yield() }
                for source in sources { source.interrupter.interrupt() }
                for await result in group { #expect(result != nil) }
            }
            try await bench.put([1], part: 10, of: id)
        }
    }

    @Test("lengths and offsets of any size are refused or accepted without overflow", arguments: huge)
    func hugeLengths(length: Int64) async throws {
        let bench = ServiceBench(limits: UploadLimits(maximumBytes: .max, lifetime: 3600))
        var policy = Policy()
        policy.storedBytes = .max
        policy.periodBytes = .max
        try await bench.services.quota.setPolicy(policy, of: Account(.subject, "alice"))
        let id = try await bench.upload(length, holding: [1, 2, 3])
        _ = await code { try await bench.upload(length, holding: [1]) }
        _ = await code { try await bench.upload(.max) }
        let open = try await bench.services.uploads.create(
            NewUpload(dialect: "http", length: nil, completesWhenFull: false),
            under: bench.grant()
        ).id
        for offset in [0, 3, length] {
            for finish in [Finish.whenFull, .explicit(isLast: true), .explicit(isLast: false)] {
                for content in [length, 1] {
                    for target in [id, open] {
                        _ = await code {
                            try await bench.services.uploads.append(
                                to: target,
                                at: offset,
                                contentLength: content,
                                declaring: length,
                                finish: finish,
                                expecting: nil,
                                from: ScriptedSource([.fail(.disconnected)])
                            )
                        }
                    }
                }
            }
        }
        // Partial uploads whose total length overflows.
        var parts: [UploadID] = []
        for _ in 0..<3 {
            let new = NewUpload(
                dialect: "tus",
                length: length,
                concatenation: Concatenation(.partial, raw: "partial")
            )
            if let part = try? await bench.services.uploads.create(new, under: bench.grant("key_2")).id {
                parts.append(part)
            }
        }
        let final = Concatenation(.final(parts: parts + parts + parts), raw: "final")
        _ = await code {
            try await bench.services.uploads.create(
                NewUpload(dialect: "tus", length: nil, concatenation: final),
                under: bench.grant("key_2")
            )
        }
        await bench.services.uploads.discard(id)
        #expect(try await bench.services.uploads.inspect(id).state == .terminated)
    }
}
