import Bytes
import Digests
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Uploads in parts", .timeLimit(.minutes(10)))
struct UploadServicePartTests {
    private let bench = ServiceBench()

    @Test("parts in any order become an object, and unlisted parts are left out")
    func complete() async throws {
        let id = try await bench.begin()
        let third = try await bench.put([5, 6], part: 30, of: id)
        let first = try await bench.put([1, 2], part: 1, of: id)
        try await bench.put([9], part: 2, of: id)
        let second = try await bench.put([3, 4], part: 2, of: id)
        try await bench.put([7], part: 7, of: id)
        let (upload, parts) = try await bench.services.parts.parts(of: id, after: 0, limit: 10)
        #expect(upload.offset == 7)
        #expect(parts.map(\.number) == [1, 2, 7, 30] && parts.map(\.size) == [2, 2, 1, 2])
        #expect(try await bench.services.parts.parts(of: id, after: 2, limit: 1).1.map(\.number) == [7])
        #expect(try await bench.services.uploads.inspect(id).offset == 7)
        let completed = try await bench.complete(id, [first, second, third])
        #expect(completed.state == .completed && completed.length == 6)
        #expect(try await bench.read() == [1, 2, 3, 4, 5, 6])
        let media = try #require(try await bench.services.objects.object(ServiceBench.name))
        #expect(media.attributes?.entityTag == "whole-3")
        #expect(media.attributes?.partSizes == [2, 2, 2])
        #expect(media.attributes?.completing == nil)
    }

    @Test("parts that cannot be joined are refused, and nothing is lost")
    func invalid() async throws {
        let id = try await bench.begin()
        let one = try await bench.put([1, 2, 3], part: 1, of: id)
        let two = try await bench.put([4], part: 2, of: id)
        let three = try await bench.put([5, 6, 7], part: 3, of: id)
        var wrong = two
        wrong.entityTag = one.entityTag
        var missing = two
        missing.number = 9
        for (parts, problem) in [
            ([], PartsProblem.empty), ([two, one], .order), ([one, one], .order),
            ([one, wrong], .unknown(number: 2)), ([one, missing], .unknown(number: 9)),
            ([one, two, three], .tooSmall(number: 2, size: 1, minimum: 2)),
        ] {
            #expect(await code { try await bench.complete(id, parts, minimumSize: 2) } == .invalidParts(problem))
        }
        var shouting = one
        shouting.entityTag = one.entityTag.uppercased()
        try await bench.complete(id, [shouting, two], minimumSize: 2)
        #expect(try await bench.read() == [1, 2, 3, 4])
    }

    @Test(
        "a part that is replaced while the upload is completed is not joined as it was; the same bytes are",
        arguments: [[5, 6], [3, 4]]
    )
    func replacedMeanwhile(_ bytes: [UInt8]) async throws {
        let id = try await bench.begin()
        let one = try await bench.put([1, 2], part: 1, of: id)
        let two = try await bench.put([3, 4], part: 2, of: id)
        bench.state.plan.before(.setAttributes) { [bench] in _ = try? await bench.put(bytes, part: 2, of: id) }
        let code = await code { try await bench.complete(id, [one, two]) }
        if bytes == [3, 4] {
            #expect(code == nil)
        } else {
            #expect(code == .invalidParts(.unknown(number: 2)))
            // The upload continues as before.
            let again = try await bench.put([3, 4], part: 2, of: id)
            try await bench.complete(id, [one, again])
        }
        #expect(try await bench.read() == [1, 2, 3, 4])
    }

    @Test("a complete upload accepts no parts, and completing it again changes nothing")
    func completeAgain() async throws {
        let id = try await bench.begin()
        let part = try await bench.put([1], part: 1, of: id)
        #expect(try await bench.complete(id, [part]).state == .completed)
        #expect(try await bench.complete(id, [part]).state == .completed)
        #expect(await code { try await bench.complete(id, [part, part]) } == .notFound)
        #expect(await code { try await bench.put([2], part: 2, of: id) } == .notOpen)
        #expect(await code { try await bench.services.parts.parts(of: id, after: 0, limit: 1) } == .notOpen)
        #expect(try await bench.eventKinds() == [.created, .completed])
    }

    @Test("a part that breaks off or is invalid leaves the existing one")
    func broken() async throws {
        let id = try await bench.begin()
        let part = try await bench.put([1, 2], part: 1, of: id)
        let cut = ScriptedSource([.bytes([3]), .fail(.timedOut)])
        #expect(
            await code {
                try await bench.services.putPart(1, of: id, bench.content([3, 4], cut), minimumSize: 0)
            }
                == .timedOut
        )
        let wrong = bench.content([3, 4], isRight: false)
        #expect(
            await code { try await bench.services.putPart(1, of: id, wrong, minimumSize: 0) } == .checksumMismatch
        )
        for number in [0, -1, 10_001] {
            #expect(await code { try await bench.put([1], part: number, of: id) } == .invalidRequest)
        }
        try await bench.complete(id, [part])
        #expect(try await bench.read() == [1, 2])
    }

    @Test("limits and quotas apply to all parts together, including those in progress")
    func limits() async throws {
        let id = try await bench.begin(maximumBytes: 1000)
        let bytes = [UInt8](repeating: 1, count: 600)
        let slow = ScriptedSource([.stall, .bytes(bytes)])
        async let first = bench.services.putPart(1, of: id, bench.content(bytes, slow), minimumSize: 0)
        await slow.waitUntilStalled()
        #expect(await code { try await bench.put(bytes, part: 2, of: id) } == .tooLarge(limit: 1000))
        slow.proceed()
        _ = try await first
        // There is room for a part that replaces the existing one.
        try await bench.put(bytes, part: 1, of: id)
        try await bench.put([UInt8](repeating: 1, count: 400), part: 2, of: id)
        #expect(await code { try await bench.put([1], part: 3, of: id) } == .tooLarge(limit: 1000))

        let account = Account(.subject, "alice")
        var policy = Policy()
        policy.storedBytes = 1010
        try await bench.services.quota.setPolicy(policy, of: account)
        let other = try await bench.begin(ObjectName(bucket: "media", key: "other"))
        try await bench.put([1, 2, 3], part: 1, of: other)
        #expect(try await bench.services.quota.quota(of: account).usage.reservedBytes == 3)
        try await bench.put([1, 2, 3, 4, 5, 6, 7], part: 2, of: other)
        let refused = await code { try await bench.put([UInt8](repeating: 1, count: 1001), part: 3, of: other) }
        #expect(refused != nil)
    }

    @Test("parts whose total is too large for the server are not joined")
    func tooLarge() async throws {
        let id = try await bench.begin()
        let bytes = [UInt8](repeating: 1, count: 600)
        let one = try await bench.put(bytes, part: 1, of: id)
        let two = try await bench.put(bytes, part: 2, of: id)
        #expect(await code { try await bench.complete(id, [one, two]) } == .tooLarge(limit: 1000))
        try await bench.complete(id, [two])
        #expect(try await bench.read() == bytes)
    }

    @Test("parts of unknown size count as many bytes as they have", arguments: [false, true])
    func unknownSizes(isLimited: Bool) async throws {
        var policy = Policy()
        policy.storedBytes = isLimited ? 30 : nil
        let bench = ServiceBench(limits: UploadLimits(maximumBytes: 25, lifetime: 3600, policies: [.subject: policy]))
        func put(_ bytes: [[UInt8]], part number: Int, of id: UploadID) async throws -> NamedPart {
            let source = ScriptedSource(bytes.map { .bytes($0) }, isLengthKnown: false)
            let content = bench.content(Array(bytes.joined()), source, isPlain: true, isSizeKnown: false)
            let part = try await bench.services.putPart(number, of: id, content, minimumSize: 0)
            #expect(part.size == bytes.reduce(0) { $0 + Int64($1.count) })
            return NamedPart(number: number, entityTag: part.entityTag)
        }
        let other = try await bench.upload(isLimited ? 8 : 0)
        let id = try await bench.begin()
        let one = try await put([[1, 2, 3], [4, 5]], part: 1, of: id)
        let two = try await put([[6], [7]], part: 2, of: id)
        #expect(try await bench.services.parts.parts(of: id, after: 0, limit: 9).0.offset == 7)
        // Past the limit of the upload, or past what is left of the quota.
        let many = [UInt8](repeating: 9, count: 16)
        let excess = await code { try await put(isLimited ? [many] : [many, many], part: 3, of: id) }
        #expect(excess?.name == (isLimited ? "quota_exceeded" : "content_too_large"), "\(excess?.name ?? "none")")
        // Nothing of it stays, and what fits exactly is stored.
        #expect(try await bench.services.parts.parts(of: id, after: 0, limit: 9).1.map(\.number) == [1, 2])
        let three = try await put([Array(many.prefix(15))], part: 3, of: id)
        // One that replaces another counts by the difference.
        let last = try await put([Array(many.prefix(10)), Array(many.prefix(5))], part: 3, of: id)
        #expect(three.entityTag == last.entityTag)
        try await bench.complete(id, [one, two, last])
        #expect(try await bench.read() == [1, 2, 3, 4, 5, 6, 7] + many.prefix(15))
        let usage = try await bench.services.quota.quota(of: Account(.subject, "alice")).usage
        #expect(usage.storedBytes == 22 && usage.reservedBytes == (isLimited ? 8 : 0))
        try await bench.services.uploads.terminate(other)
    }

    @Test("a part of unknown size that breaks off leaves nothing, and the upload goes on")
    func unknownSizeBrokenOff() async throws {
        let id = try await bench.begin()
        let one = try await bench.put([1, 2], part: 1, of: id)
        let source = ScriptedSource([.bytes([3]), .fail(.disconnected)], isLengthKnown: false)
        let content = bench.content([3], source, isSizeKnown: false)
        #expect(
            await code { try await bench.services.putPart(1, of: id, content, minimumSize: 0) } == .disconnected
        )
        try await bench.complete(id, [one])
        #expect(try await bench.read() == [1, 2])
    }

    @Test("it accepts bytes only as parts")
    func append() async throws {
        let id = try await bench.begin()
        #expect(await code { try await bench.append([1], to: id, at: 0) } == .notOpen)
        let whole = try await bench.put([1]).id
        #expect(await code { try await bench.put([1], part: 1, of: whole) } == .notFound)
        #expect(await code { try await bench.complete(whole, []) } == .notFound)
    }

    @Test("parts renew its expiry, and it expires with them")
    func expiry() async throws {
        let id = try await bench.begin()
        bench.clock.advance(by: 3000)
        let part = try await bench.put([1], part: 1, of: id)
        bench.clock.advance(by: 3000)
        #expect(await bench.services.sweep.run().expired == 0)
        bench.clock.advance(by: 700)
        #expect(await code { try await bench.put([1], part: 2, of: id) } == .gone)
        #expect(await code { try await bench.complete(id, [part]) } == .gone)
        _ = await bench.services.sweep.run()
        #expect(try await bench.storage.list(after: nil, limit: 1).isEmpty)
        #expect(await code { try await bench.put([1], part: 2, of: id) } == .gone)
    }

    @Test("after a failed completion parts are accepted again, and others can be listed", arguments: [false, true])
    func failedCompletion(dies: Bool) async throws {
        let id = try await bench.begin()
        let one = try await bench.put([1, 2], part: 1, of: id)
        bench.storage.plan.fail(.join, with: UploadError(.storageFull, "full"))
        if dies { bench.state.plan.fail(.setAttributes, onCall: 2) }
        #expect(await code { try await bench.complete(id, [one], if: .isAbsent) } == .storageFull)
        if dies {
            // Its record says that it is being completed, until the next request checks.
            #expect(await code { try await bench.put([3], part: 2, of: id) } == .busy)
            #expect(try await bench.services.uploads.status(of: id).state == .open)
        }
        let two = try await bench.put([3], part: 2, of: id)
        try await bench.complete(id, [one, two])
        #expect(try await bench.read() == [1, 2, 3])
    }

    @Test("a condition that does not hold costs no parts")
    func condition() async throws {
        try await bench.put([1])
        let id = try await bench.begin()
        let part = try await bench.put([2], part: 1, of: id)
        #expect(await code { try await bench.complete(id, [part], if: .isAbsent) } == .conditionFailed)
        let more = try await bench.put([3], part: 2, of: id)
        let tag = try #require(try await bench.services.objects.object(ServiceBench.name)?.attributes?.entityTag)
        try await bench.complete(id, [part, more], if: .hasTag(tag))
        #expect(try await bench.read() == [2, 3])
    }

    @Test(
        "wherever the process dies, what was acknowledged is there, and nothing is left over",
        arguments: [false, true]
    )
    func crashes(clientComesBack: Bool) async throws {
        var point = 0
        while true {
            let bench = ServiceBench(limits: UploadLimits(lifetime: 24 * 3600))
            try await bench.put([9, 9])
            bench.fuse.burn(afterCalls: point)
            var known: (id: UploadID, parts: [NamedPart])?
            let failure = await code {
                known = (try await bench.begin(), [])
                guard let id = known?.id else { return }
                for (number, bytes) in [(2, [3]), (1, [1, 2]), (2, [4, 5])] as [(Int, [UInt8])] {
                    let part = try await bench.put(bytes, part: number, of: id)
                    known?.parts.removeAll { $0.number == number }
                    known?.parts.append(part)
                }
                known?.parts.sort { $0.number < $1.number }
                try await bench.complete(id, known?.parts ?? [])
            }
            let services = bench.restarted()
            var isCompleted = failure == nil
            if clientComesBack, let known, known.parts.count == 2, failure != nil {
                // Acknowledged parts exist; an unacknowledged one may or may not.
                let found = await code { try await services.parts.parts(of: known.id, after: 0, limit: 10) }
                if found == nil {
                    let stored = try await services.parts.parts(of: known.id, after: 0, limit: 10).1
                    #expect(stored.map(\.number) == [1, 2], "died after \(point) calls")
                    let parts = stored.map { NamedPart(number: $0.number, entityTag: $0.entityTag) }
                    isCompleted = try await bench.complete(known.id, parts, by: services).state == .completed
                } else {
                    #expect(found == .notOpen, "died after \(point) calls")
                    isCompleted = true
                }
            }
            bench.clock.advance(by: 25 * 3600)
            #expect(await services.sweep.run().failures == 0, "died after \(point) calls")
            let media = try #require(try await services.objects.object(ServiceBench.name), "died after \(point) calls")
            let bytes = try await bench.contents(of: media.id)
            #expect(bytes == [1, 2, 4, 5] || bytes == [1, 2, 3] || bytes == [9, 9] && !isCompleted, "\(point)")
            #expect(try await bench.storage.list(after: nil, limit: 10) == [media.id], "died after \(point) calls")
            let usage = try await services.quota.quota(of: Account(.subject, "alice")).usage
            #expect(usage.storedBytes == Int64(bytes.count) && usage.reservedBytes == 0 && usage.openUploads == 0)
            if failure == nil { break }
            point += 1
        }
        #expect(point > 10)
    }
}
