import Digests
import SluiceTesting
import SystemIO
import Testing

@testable import S3Storage

@Suite("MD5s of parts", .timeLimit(.minutes(10)))
struct PartHashesTests {
    /// A part whose bytes from `inMemory` on are in a file.
    private static func part(_ bytes: [UInt8], inMemory: Int, _ spool: Spool) async throws -> PartBuffer {
        let part = PartBuffer()
        part.append(Array(bytes.prefix(inMemory)))
        if inMemory < bytes.count {
            let file = try #require(await spool.makeFile())
            part.spool(to: file)
            #expect(await file.append(Array(bytes[inMemory...])))
            part.appendSpooled(bytes.count - inMemory)
        }
        part.close()
        return part
    }

    @Test("MD5s of parts of any lengths, in memory and in files, match those computed one by one")
    func lengths() async throws {
        let directory = try TemporaryDirectory()
        let spool = Spool(directory: directory.path, capacity: 1 << 30, pool: BlockingPool(threads: 1, label: "test"))
        // They wait for three others: the last of each four starts them.
        let hashes = PartHashes(waitTimeout: .seconds(600))
        let sizes = [
            (0, 0), (1, 1), (63, 63), (64, 64), (65, 65), (65_536, 65_536), (65_537, 65_537), (3_000_001, 3_000_001),
            (200_000, 0), (200_000, 65_536), (200_000, 100_001), (66_000, 65_537), (70, 69), (128, 1), (0, 0), (5, 0),
        ]
        for four in stride(from: 0, to: sizes.count, by: 4) {
            var parts: [(PartBuffer, [UInt8])] = []
            for (index, (size, inMemory)) in sizes[four..<four + 4].enumerated() {
                let bytes = BlobStorageContract.pattern(size, seed: UInt8(four + index))
                parts.append((try await Self.part(bytes, inMemory: inMemory, spool), bytes))
            }
            for (part, _) in parts { hashes.add(part) }
            for (part, bytes) in parts {
                #expect(await part.whole())
                #expect(part.md5 == Digest.hash(bytes, .md5), "\(bytes.count) bytes")
            }
        }
    }

    @Test("a single part is hashed when its result is needed, when memory is short, or after a while")
    func alone() async throws {
        let bytes = BlobStorageContract.pattern(100_000)
        let spool = Spool(directory: "/nonexistent", capacity: 0, pool: BlockingPool(threads: 1, label: "test"))
        let patient = PartHashes(waitTimeout: .seconds(600))
        let first = try await Self.part(bytes, inMemory: bytes.count, spool)
        patient.add(first)
        patient.hashNow(PartBuffer())
        #expect(patient.isWaiting(first))
        patient.hashNow(first)
        #expect(!patient.isWaiting(first))
        #expect(await first.whole())
        let second = try await Self.part(bytes, inMemory: bytes.count, spool)
        patient.add(second)
        patient.flush()
        #expect(await second.whole())
        let third = try await Self.part(bytes, inMemory: bytes.count, spool)
        PartHashes(waitTimeout: .milliseconds(1)).add(third)
        #expect(await third.whole())
        #expect([first, second, third].map(\.md5) == Array(repeating: Digest.hash(bytes, .md5), count: 3))
    }

    @Test("a cancelled part does not delay the others; a part with lost bytes fails")
    func givenUp() async throws {
        let directory = try TemporaryDirectory()
        let spool = Spool(directory: directory.path, capacity: 1 << 30, pool: BlockingPool(threads: 1, label: "test"))
        let hashes = PartHashes(waitTimeout: .seconds(600))
        let bytes = BlobStorageContract.pattern(100_000)
        let good = try await Self.part(bytes, inMemory: 50_000, spool)
        let stopped = try await Self.part(bytes, inMemory: bytes.count, spool)
        // One byte more than the file has.
        let short = try await Self.part(bytes, inMemory: 50_000, spool)
        short.appendSpooled(1)
        for part in [stopped, short, good] { hashes.add(part) }
        #expect(stopped.discard() == 2 * Slab.size)
        hashes.hashNow(good)
        #expect(await good.whole())
        #expect(good.md5 == Digest.hash(bytes, .md5))
        #expect(await !short.whole())
        #expect(await !stopped.whole())
    }
}
