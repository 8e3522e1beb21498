import Bytes
import Digests
import Foundation
import SluiceTesting
import Testing
import UploadModel

@testable import S3Storage

@Suite("Parts that are too small for the store", .timeLimit(.minutes(10)))
struct SmallPartTests {
    private static let small = SmallPart(name: "part-00", md5: [UInt8](repeating: 7, count: 16)).location

    /// Parts from number 1: positive sizes for small ones, negative sizes for parts of the store.
    private func groups(_ sizes: [Int64], minimum: Int64 = 5, size: Int64 = 8) throws -> [[Int]] {
        let parts = sizes.enumerated().map { index, size in
            BlobPart(number: index + 1, size: abs(size), entityTag: size < 0 ? "\"0123\"" : Self.small)
        }
        return try SmallPart.groups(of: parts, minimum: minimum, size: size).map { $0.map(\.number) }
    }

    @Test func aLocationContainsNameAndDigest() {
        let part = SmallPart(name: "part-0a1b", md5: Array(0..<16))
        #expect(SmallPart(location: part.location) == part)
        for tag in ["\"0123\"", "0123456789abcdef0123456789abcdef", "", "side:", "side:x", "side:x:00", "side:x:y:z"] {
            #expect(SmallPart(location: tag) == nil)
        }
    }

    @Test func neighboursAreJoinedUntilTheyAreLargeEnough() throws {
        #expect(try groups([]) == [])
        #expect(try groups([1]) == [[1]])
        #expect(try groups([4, 4, 4, 4, 1]) == [[1, 2], [3, 4], [5]])
        #expect(try groups([3, 3, 3, 3, 3]) == [[1, 2, 3], [4, 5]])
        #expect(try groups([-9, -9, -2]) == [[1], [2], [3]])
        #expect(try groups([-9, 1, 1]) == [[1], [2, 3]])
        #expect(try groups([3, 3, -9, 2, 3, -5, 1]) == [[1, 2], [3], [4, 5], [6], [7]])
    }

    @Test func whatIsLeftBeforeALargePartGoesWithThoseBeforeIt() throws {
        #expect(try groups([4, 4, 1, -9]) == [[1, 2, 3], [4]])
        #expect(try groups([4, 4, 4, 4, 1, -9]) == [[1, 2], [3, 4, 5], [6]])
    }

    @Test(arguments: [([4, -9], 1, 4), ([-9, 2, 2, -9], 2, 4), ([-9, -4, 1], 2, 4), ([8, -4, 9], 2, 4)])
    func whatCanNotBeJoinedIsTooSmall(_ sizes: [Int64], _ number: Int, _ size: Int64) {
        let error = #expect(throws: UploadError.self) { try groups(sizes) }
        #expect(error?.code == .invalidParts(.tooSmall(number: number, size: size, minimum: 5)))
    }
}

@Suite("Small parts in a store", .enabled(if: RealStore.isThere, "\(RealStore.missing)"), .timeLimit(.minutes(10)))
struct StoredSmallPartTests {
    private let records = InMemoryBlobRecords()
    private let id = UploadID.generate(at: Date(timeIntervalSince1970: 1_750_000_000))
    private static let mebibyte = 1 << 20

    private func content(_ number: Int, _ size: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: size) { buffer, initialized in
            for index in 0..<size { buffer[index] = UInt8(truncatingIfNeeded: index / 251 &+ number * 31) }
            initialized = size
        }
    }

    private func begun(_ storage: S3Storage) async throws {
        try await storage.createForParts(NewBlob(id, createdAt: id.createdAt))
    }

    private func store(
        _ number: Int,
        _ bytes: [UInt8],
        in storage: S3Storage,
        replacing replaced: PartRecord? = nil
    ) async throws -> PartRecord {
        let md5 = Digest.hash(bytes, .md5)
        let location = try await storage.storePart(
            NewPart(number: number, size: Int64(bytes.count), minimumSize: 100 << 10),
            of: id,
            replacing: replaced?.location,
            from: ArraySource(bytes),
            verifying: { md5 }
        )
        return PartRecord(
            number: number,
            size: Int64(bytes.count),
            md5: md5,
            crc64: 0,
            location: location,
            storedAt: id.createdAt
        )
    }

    private func contents(_ storage: S3Storage) async throws -> [UInt8] {
        try await storage.synchronize(id)
        let size = try await storage.open(id).size
        return try await storage.bytes(of: id, 0..<size).collect(limit: Int(size) + 1)
    }

    private func keys(_ storage: S3Storage) async throws -> [String] {
        try await storage.client.list("", in: storage.settings.bucket, after: nil).objects.map(\.key)
    }

    @Test("small parts become parts of the store, and no tail objects remain")
    func joined() async throws {
        let storage = try await RealStore.storage(records: records)
        try await begun(storage)
        var parts: [PartRecord] = []
        var all: [UInt8] = []
        for number in 1...19 {
            let bytes = content(number, number == 19 ? 1000 : Self.mebibyte)
            parts.append(try await store(number, bytes, in: storage))
            all += bytes
        }
        #expect(try await keys(storage).count == 19)
        try await storage.join(parts, of: id)
        #expect(try await contents(storage) == all)
        #expect(try await records.parts(of: id).map(\.number) == [1, 9, 17])
        await storage.finish(within: .seconds(600))
        #expect(try await keys(storage).count == 1)
        // As after a process that died before it had removed them all.
        let record = try #require(try await records.blob(id))
        _ = try await storage.putSmallPart(PartBuffer(whole: [1]), of: record)
        #expect(try await storage.removeLeftovers(from: .distantFuture, ofUnknownFrom: .distantFuture) == 1)
        #expect(try await keys(storage) == [record.key])
    }

    @Test("small parts are read again after another process has begun to join them")
    func joinedByTwo() async throws {
        let bucket = "test-" + String(UInt32.random(in: 0 ... .max))
        let storage = try await RealStore.storage(records: records, bucket: bucket)
        let other = try await RealStore.storage(records: records, bucket: bucket)
        try await begun(storage)
        var parts: [PartRecord] = []
        for number in 1...12 { parts.append(try await store(number, content(number, Self.mebibyte), in: storage)) }
        try await storage.join(parts, of: id)
        async let first: Void = storage.synchronize(id)
        async let second: Void = other.synchronize(id)
        _ = try await (first, second)
        let all = (1...12).flatMap { content($0, Self.mebibyte) }
        #expect(try await contents(storage) == all)
        #expect(try await contents(other) == all)
        for one in [storage, other] { await one.finish(within: .seconds(600)) }
        #expect(try await keys(storage).count == 1)
    }

    @Test("small parts can be next to large ones, and replace them")
    func mixed() async throws {
        let storage = try await RealStore.storage(records: records)
        try await begun(storage)
        let (large, small) = (content(1, 6 * Self.mebibyte), content(2, Self.mebibyte))
        let first = try await store(1, large, in: storage)
        let second = try await store(2, small, in: storage)
        let again = try await store(1, small, in: storage, replacing: first)
        await storage.removePart(1, at: first.location, of: id)
        let third = try await store(2, large, in: storage, replacing: second)
        await storage.removePart(2, at: second.location, of: id)
        // Too small, and followed by a large one, without a previous part to combine it with; the upload continues.
        let error = await #expect(throws: UploadError.self) { try await storage.join([again, third], of: id) }
        #expect(error?.code == .invalidParts(.tooSmall(number: 1, size: 1 << 20, minimum: 5 << 20)))
        #expect(try await !storage.isJoined(id))
        let last = try await store(1, large, in: storage, replacing: again)
        await storage.removePart(1, at: again.location, of: id)
        await storage.finish(within: .seconds(600))
        #expect(try await keys(storage) == [])
        try await storage.join([last, third], of: id)
        #expect(try await contents(storage) == large + large)
    }

    @Test("small parts are removed with their upload, and by the sweep if they are not recorded")
    func removed() async throws {
        let storage = try await RealStore.storage(records: records)
        try await begun(storage)
        _ = try await store(1, content(1, Self.mebibyte), in: storage)
        #expect(try await keys(storage).count == 1)
        // The storage does not know whether it is recorded.
        #expect(try await storage.removeLeftovers(from: .distantFuture, ofUnknownFrom: .distantFuture) == 0)
        try await storage.remove(id)
        #expect(try await keys(storage) == [])
        // As after a node that was suspended and missed the end of the upload.
        try await begun(storage)
        let late = try await records.blob(id)
        try await storage.remove(id)
        let content = PartBuffer(whole: [1, 2, 3])
        _ = try await storage.putSmallPart(content, of: try #require(late))
        #expect(try await storage.removeLeftovers(from: .distantFuture, ofUnknownFrom: .distantFuture) == 1)
    }

    @Test("small parts that the store has lost or changed can be sent again", arguments: [1, 2], [false, true])
    func lost(_ count: Int, isThere: Bool) async throws {
        let storage = try await RealStore.storage(records: records)
        try await begun(storage)
        let pieces = (1...count).map { content($0, Self.mebibyte) }
        var parts: [PartRecord] = []
        for (index, piece) in pieces.enumerated() { parts.append(try await store(index + 1, piece, in: storage)) }
        let small = try #require(SmallPart(location: parts[count - 1].location))
        let (key, bucket) = (storage.tailPrefix(of: id) + small.name, storage.settings.bucket)
        if isThere {
            _ = try await storage.client.put(key, in: bucket, bytes: content(3, Self.mebibyte), headers: [])
        } else {
            try await storage.client.delete(key, in: bucket)
        }
        try await storage.join(parts, of: id)
        let error = await #expect(throws: UploadError.self) { try await storage.synchronize(id) }
        #expect(error?.code == .invalidParts(.unknown(number: count)))
        #expect(try await !storage.isJoined(id))
        parts[count - 1] = try await store(count, pieces[count - 1], in: storage, replacing: parts[count - 1])
        try await storage.join(parts, of: id)
        #expect(try await contents(storage) == pieces.flatMap { $0 })
    }

    @Test("small parts are removed by whichever node ends the upload")
    func removedElsewhere() async throws {
        let bucket = "test-" + String(UInt32.random(in: 0 ... .max))
        let storage = try await RealStore.storage(records: records, bucket: bucket)
        let other = try await RealStore.storage(records: records, bucket: bucket)
        for isCompleted in [true, false] {
            try await begun(storage)
            let part = try await store(1, content(1, Self.mebibyte), in: other)
            if isCompleted {
                try await storage.join([part], of: id)
                try await storage.synchronize(id)
                await storage.finish(within: .seconds(600))
                #expect(try await keys(storage).count == 1)
            }
            try await storage.remove(id)
            #expect(try await keys(storage) == [])
        }
    }
}
