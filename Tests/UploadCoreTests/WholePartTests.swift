import Bytes
import Digests
import Foundation
import SluiceTesting
import Synchronization
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Small parts that are stored whole", .timeLimit(.minutes(10)))
struct WholePartTests {
    private let bench = ServiceBench(limits: UploadLimits(maximumBytes: 1 << 30, lifetime: 3600))
    private let bytes = BlobStorageContract.pattern(1000)

    /// Content that is hashed in one step, or while it is pulled.
    private static func content(
        _ bytes: [UInt8],
        _ source: (any ByteSource)? = nil,
        isRight: Bool = true
    ) -> ObjectContent {
        let hashed = Hashed()
        let plain = ObjectContent.Plain(source ?? ArraySource(bytes)) { hashed.set($0) }
        return ObjectContent(ArraySource(bytes), size: Int64(bytes.count), plain: plain) {
            () async throws(UploadError) in
            guard isRight else { throw UploadError(.checksumMismatch, "others") }
            return ContentDigests(md5: hashed.md5 ?? Digest.hash(bytes, .md5), crc64: hashed.md5 == nil ? 0 : 1)
        }
    }

    private final class Hashed: Sendable {
        private let value = Mutex<[UInt8]?>(nil)
        var md5: [UInt8]? { value.withLock { $0 } }
        func set(_ bytes: [UInt8]) { value.withLock { $0 = Digest.hash(bytes, .md5) } }
    }

    @Test("a small part is pulled first, and hashed and stored in one step")
    func small() async throws {
        let id = try await bench.begin()
        var parts: [NamedPart] = []
        for number in 1...3 {
            let source = ScriptedSource([.bytes(Array(bytes.prefix(10))), .bytes(Array(bytes.dropFirst(10)))])
            let part = try await bench.services.putPart(number, of: id, Self.content(bytes, source), minimumSize: 0)
            #expect(part.md5 == Digest.hash(bytes, .md5) && part.crc64 == 1 && part.size == 1000)
            parts.append(NamedPart(number: number, entityTag: part.entityTag))
        }
        #expect(bench.storage.plan.calls(of: .storeWholePart) == 3)
        #expect(bench.storage.plan.calls(of: .storePart) == 0)
        try await bench.complete(id, parts)
        #expect(try await bench.read() == bytes + bytes + bytes)
    }

    @Test("a large part is hashed while it is pulled")
    func large() async throws {
        let id = try await bench.begin()
        for (size, isWhole) in [(256 << 10, true), (256 << 10 + 1, false)] {
            let before = bench.storage.plan.calls(of: .storeWholePart)
            let content = Self.content(BlobStorageContract.pattern(size))
            let part = try await bench.services.putPart(1, of: id, content, minimumSize: 0)
            #expect(part.crc64 == (isWhole ? 1 : 0))
            #expect(bench.storage.plan.calls(of: .storeWholePart) - before == (isWhole ? 1 : 0))
        }
    }

    @Test("more small parts than the memory is for are stored as they arrive")
    func memory() async throws {
        let id = try await bench.begin()
        let large = BlobStorageContract.pattern(256 << 10)
        let sources = (1...64).map { _ in ScriptedSource([.stall, .bytes(large)]) }
        try await withThrowingTaskGroup(of: PartRecord.self) { group in
            for (index, source) in sources.enumerated() {
                group.addTask { [bench] in
                    try await bench.services.putPart(index + 1, of: id, Self.content(large, source), minimumSize: 0)
                }
                await source.waitUntilStalled()
            }
            // 16 MiB wait in memory.
            let part = try await bench.services.putPart(65, of: id, Self.content(bytes), minimumSize: 0)
            #expect(part.crc64 == 0)
            for source in sources { source.proceed() }
            for try await part in group { #expect(part.crc64 == 1) }
        }
        #expect(try await bench.services.putPart(65, of: id, Self.content(bytes), minimumSize: 0).crc64 == 1)
    }

    @Test("a small part that fails is not recorded, and gives its memory back")
    func failing() async throws {
        let id = try await bench.begin()
        let first = try await bench.services.putPart(1, of: id, Self.content(bytes), minimumSize: 0)
        func code(_ content: ObjectContent) async -> UploadError.Code? {
            await UploadCoreTests.code { try await bench.services.putPart(1, of: id, content, minimumSize: 0) }
        }
        let other = BlobStorageContract.pattern(256 << 10, seed: 7)
        for _ in 1...70 {
            let half = Array(other.prefix(9))
            #expect(await code(Self.content(other, ScriptedSource([.bytes(half), .fail(.timedOut)]))) == .timedOut)
            let short = await code(Self.content(other, ScriptedSource([.bytes(half)])))
            #expect(short == .lengthConflict(length: 256 << 10))
        }
        // Only the first one reached the storage.
        #expect(bench.storage.plan.calls(of: .storeWholePart) == 1)
        #expect(await code(Self.content(other, isRight: false)) == .checksumMismatch)
        bench.storage.plan.fail(.storeWholePart)
        #expect(await code(Self.content(other)) == .storageFailure)
        bench.state.plan.fail(.putPart)
        #expect(await code(Self.content(other)) == .storageFailure)
        let again = try await bench.services.putPart(2, of: id, Self.content(bytes), minimumSize: 0)
        #expect(again.crc64 == 1)
        try await bench.complete(id, [first, again].map { NamedPart(number: $0.number, entityTag: $0.entityTag) })
        #expect(try await bench.read() == bytes + bytes)
    }

    @Test(
        "a small part that comes after the upload was completed or aborted is refused as any other",
        arguments: [true, false]
    )
    func late(isCompleted: Bool) async throws {
        let id = try await bench.begin()
        let part = try await bench.services.putPart(1, of: id, Self.content(bytes), minimumSize: 0)
        let slow = ScriptedSource([.stall, .bytes(bytes)])
        async let second = UploadCoreTests.code {
            try await bench.services.putPart(2, of: id, Self.content(bytes, slow), minimumSize: 0)
        }
        await slow.waitUntilStalled()
        if isCompleted {
            try await bench.complete(id, [NamedPart(number: 1, entityTag: part.entityTag)])
        } else {
            try await bench.services.uploads.terminate(id, .open)
        }
        slow.proceed()
        #expect(await second == (isCompleted ? .notOpen : .gone))
    }

    @Test("the sizes of the parts are in the object and in no event")
    func events() async throws {
        let id = try await bench.begin()
        let part = try await bench.services.putPart(1, of: id, Self.content(bytes), minimumSize: 0)
        try await bench.complete(id, [NamedPart(number: 1, entityTag: part.entityTag)])
        #expect(try await bench.services.objects.object(ServiceBench.name)?.attributes?.partSizes == [1000])
        try await bench.put(bytes)
        let events = try await bench.state.events(EventQuery(after: 0)).filter { $0.upload.id == id }
        #expect(events.map(\.kind) == [.created, .completed, .terminated])
        for event in events {
            #expect(event.upload.attributes != nil && event.upload.attributes?.partSizes == nil)
            #expect(event.upload.attributes?.completing == nil)
        }
    }
}
