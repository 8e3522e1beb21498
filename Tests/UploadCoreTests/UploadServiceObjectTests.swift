import Bytes
import Digests
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

extension ServiceBench {
    static let name = ObjectName(bucket: "media", key: "a/b.bin")

    /// Digests that do not depend on the bytes; plain ones can be pulled before they are hashed.
    func content(
        _ bytes: [UInt8],
        _ source: (any ByteSource)? = nil,
        isRight: Bool = true,
        isPlain: Bool = false,
        isSizeKnown: Bool = true
    ) -> ObjectContent {
        let source = source ?? ArraySource(bytes)
        let plain = isPlain ? ObjectContent.Plain(source) { _ in } : nil
        return ObjectContent(source, size: isSizeKnown ? Int64(bytes.count) : nil, plain: plain) {
            () async throws(UploadError) in
            guard isRight else { throw UploadError(.checksumMismatch, "others") }
            return ContentDigests(md5: Digest.hash(bytes, .md5), crc64: UInt64(bytes.count))
        }
    }

    func object(
        _ name: ObjectName = name,
        takesParts: Bool = false,
        length: Int64? = nil,
        if condition: ObjectCondition? = nil
    ) -> NewUpload {
        var new = NewUpload(dialect: "s3", length: length, completesWhenFull: false)
        var attributes = ObjectAttributes(headers: ["cache-control": "no-store"])
        attributes.condition = condition
        new.object = NewObject(name, attributes: attributes, takesParts: takesParts)
        return new
    }

    @discardableResult
    func put(
        _ bytes: [UInt8],
        _ name: ObjectName = name,
        _ content: ObjectContent? = nil,
        if condition: ObjectCondition? = nil,
        by services: UploadServices? = nil
    ) async throws(UploadError) -> Upload {
        _ = try await (services ?? self.services).objects.createBucket(name.bucket)
        return try await (services ?? self.services).objects.putObject(
            object(name, length: Int64(bytes.count), if: condition),
            under: grant(),
            content ?? self.content(bytes)
        ) { attributes, digests in attributes.entityTag = Hexadecimal.encode(digests.md5) }
    }

    func begin(_ name: ObjectName = name, maximumBytes: Int64? = nil) async throws(UploadError) -> UploadID {
        _ = try await services.objects.createBucket(name.bucket)
        return try await services.uploads.create(
            object(name, takesParts: true),
            under: grant(maximumBytes: maximumBytes)
        ).id
    }

    @discardableResult
    func put(_ bytes: [UInt8], part number: Int, of id: UploadID) async throws(UploadError) -> NamedPart {
        let part = try await services.putPart(number, of: id, content(bytes), minimumSize: 0)
        return NamedPart(number: number, entityTag: part.entityTag)
    }

    @discardableResult
    func complete(
        _ id: UploadID,
        _ parts: [NamedPart],
        minimumSize: Int64 = 0,
        if condition: ObjectCondition? = nil,
        by services: UploadServices? = nil
    ) async throws(UploadError) -> Upload {
        try await (services ?? self.services).parts.completeParts(
            parts,
            of: id,
            minimumSize: minimumSize,
            if: condition
        ) {
            attributes,
            parts in
            attributes.entityTag = "whole-\(parts.count)"
        }
    }

    /// What a client reads under a name; `nil` if there is nothing.
    func read(_ name: ObjectName = name) async throws -> [UInt8]? {
        guard let media = try await services.objects.object(name) else { return nil }
        return try await contents(of: media.id)
    }

    func eventKinds() async throws -> [EventRecord.Kind] {
        try await state.events(EventQuery(after: 0)).map(\.kind)
    }
}

@Suite("Objects", .timeLimit(.minutes(10)))
struct UploadServiceObjectTests {
    private let bench = ServiceBench()

    @Test("an object is media with a name, and returns the requested attributes")
    func put() async throws {
        let upload = try await bench.put([1, 2, 3])
        #expect(upload.state == .completed)
        let media = try #require(try await bench.services.objects.object(ServiceBench.name))
        #expect(media.id == upload.id && media.size == 3)
        #expect(media.attributes?.headers == ["cache-control": "no-store"])
        #expect(media.attributes?.entityTag == Hexadecimal.encode(Digest.hash([1, 2, 3], .md5)))
        #expect(try await bench.read() == [1, 2, 3])
        #expect(try await bench.services.objects.object(ObjectName(bucket: "media", key: "a/b")) == nil)
        #expect(try await bench.put([]).state == .completed)
        #expect(try await bench.read() == [])
    }

    @Test("an object replaces another one completely")
    func replace() async throws {
        let first = try await bench.put([1, 2, 3]).id
        let second = try await bench.put([4]).id
        #expect(try await bench.read() == [4])
        #expect(try await bench.storage.list(after: nil, limit: 10) == [second])
        #expect(await code { try await bench.services.media.media(first) } == .gone)
        let usage = try await bench.services.quota.quota(of: Account(.subject, "alice")).usage
        #expect(usage.storedBytes == 1 && usage.openUploads == 0 && usage.reservedBytes == 0)
        #expect(try await bench.eventKinds() == [.created, .completed, .created, .completed, .terminated])
    }

    @Test("a condition on the current object must hold")
    func conditions() async throws {
        #expect(await code { try await bench.put([1], if: .hasTag("x")) } == .conditionFailed)
        let tag = try #require(try await bench.put([1], if: .isAbsent).attributes?.entityTag)
        #expect(await code { try await bench.put([2], if: .isAbsent) } == .conditionFailed)
        #expect(await code { try await bench.put([2], if: .hasTag("x")) } == .conditionFailed)
        #expect(try await bench.read() == [1])
        try await bench.put([2], if: .hasTag(tag))
        #expect(try await bench.read() == [2])
        #expect(try await bench.services.objects.object(ServiceBench.name)?.attributes?.condition == nil)
        #expect(try await bench.services.uploads.list(UploadQuery(states: [.open])).isEmpty)
    }

    @Test("a condition takes an object into account that was stored meanwhile")
    func lateCondition() async throws {
        let source = ScriptedSource([.bytes([1]), .stall, .bytes([2])])
        async let late = code {
            try await bench.put([1, 2], ServiceBench.name, bench.content([1, 2], source), if: .isAbsent)
        }
        await source.waitUntilStalled()
        try await bench.put([9])
        source.proceed()
        #expect(await late == .conditionFailed)
        #expect(try await bench.read() == [9])
        #expect(try await bench.storage.list(after: nil, limit: 10).count == 1)
    }

    @Test("content that is invalid or breaks off leaves the existing object, and nothing else")
    func refused() async throws {
        let id = try await bench.put([1]).id
        let wrong = await code {
            try await bench.put([2, 3], ServiceBench.name, bench.content([2, 3], isRight: false))
        }
        #expect(wrong == .checksumMismatch)
        let broken = ScriptedSource([.bytes([2]), .fail(.disconnected)])
        let cut = await code { try await bench.put([2, 3], ServiceBench.name, bench.content([2, 3], broken)) }
        #expect(cut == .disconnected)
        let short = ScriptedSource([.bytes([2])])
        let less = await code { try await bench.put([2, 3], ServiceBench.name, bench.content([2, 3], short)) }
        #expect(less == .lengthConflict(length: 2))
        #expect(try await bench.read() == [1])
        #expect(try await bench.storage.list(after: nil, limit: 10) == [id])
        #expect(try await bench.services.uploads.list(UploadQuery(states: [.open])).isEmpty)
    }

    @Test("removing an object removes its bytes, and a missing object is ignored")
    func remove() async throws {
        try await bench.put([1])
        #expect(try await bench.services.objects.removeObject(ServiceBench.name))
        #expect(try await bench.read() == nil)
        #expect(try await bench.storage.list(after: nil, limit: 10).isEmpty)
        #expect(try await bench.services.objects.removeObject(ServiceBench.name) == false)
    }

    @Test("concurrent writers of one name all succeed, and one object remains")
    func race() async throws {
        let ids = try await withThrowingTaskGroup(of: UploadID.self) { group in
            for value in 1...10 as ClosedRange<UInt8> { group.addTask { try await bench.put([value]).id } }
            return try await group.reduce(into: Set<UploadID>()) { $0.insert($1) }
        }
        let left = try #require(try await bench.services.objects.object(ServiceBench.name))
        #expect(ids.contains(left.id))
        #expect(try await bench.storage.list(after: nil, limit: 20) == [left.id])
    }

    @Test("all objects below a directory are removed, however many, and no others")
    func directories() async throws {
        let bench = ServiceBench()
        let bucket = ServiceBench.name.bucket
        for index in 0..<101 { try await bench.put([1], ObjectName(bucket: bucket, key: "a/\(index)")) }
        for key in ["a", "a0", "b/a/1"] { try await bench.put([1], ObjectName(bucket: bucket, key: key)) }
        try await bench.services.objects.removeObjects(below: ObjectName(bucket: bucket, key: "a/"))
        let left = try await bench.services.objects.objects(
            ObjectQuery(bucket: bucket, prefix: "", after: nil, limit: 10)
        )
        #expect(left.map(\.key) == ["a", "a0", "b/a/1"])
    }

    @Test(
        "wherever the process dies, the name has the old or the new object, and nothing is left behind",
        arguments: [true, false]
    )
    func crashes(isWhole: Bool) async throws {
        var point = 0
        while true {
            let bench = ServiceBench(limits: UploadLimits(lifetime: 24 * 3600))
            try await bench.put([1, 2])
            bench.fuse.burn(afterCalls: point)
            // Content that stalls for a moment is appended.
            let slow = ScriptedSource([.bytes([3]), .stall, .bytes([4, 5])], isLengthKnown: true)
            if !isWhole { slow.proceed() }
            let content = isWhole ? nil : bench.content([3, 4, 5], slow)
            let failure = await code { try await bench.put([3, 4, 5], ServiceBench.name, content) }
            let services = bench.restarted()
            bench.clock.advance(by: 25 * 3600)
            #expect(await services.sweep.run().failures == 0, "died after \(point) calls")
            let media = try #require(try await services.objects.object(ServiceBench.name), "died after \(point) calls")
            let bytes = try await bench.contents(of: media.id)
            #expect(bytes == [3, 4, 5] || bytes == [1, 2] && failure != nil, "died after \(point) calls")
            #expect(try await bench.storage.list(after: nil, limit: 10) == [media.id], "died after \(point) calls")
            let usage = try await services.quota.quota(of: Account(.subject, "alice")).usage
            #expect(usage.storedBytes == Int64(bytes.count) && usage.reservedBytes == 0 && usage.openUploads == 0)
            if failure == nil { break }
            point += 1
        }
        #expect(point > (isWhole ? 4 : 5))
    }
}
