internal import Bytes
internal import Digests
internal import SystemIO
internal import Foundation

#if canImport(Glibc)
internal import Glibc
package import UploadModel
#endif

/// The contract of `BlobStorage`.
package enum BlobStorageContract {
    package static let all: [Contract<any BlobStorage>] = basics + appends + copies + digests

    /// All bytes of a blob, which is synchronised first and accepts no more bytes.
    package static func contents(of id: UploadID, in storage: any BlobStorage) async throws -> [UInt8] {
        try await storage.synchronize(id)
        return try await contents(of: try await storage.open(id))
    }

    private static func contents(of blob: StoredBlob) async throws -> [UInt8] {
        switch blob.content {
        case .file(let file):
            var bytes = [UInt8](repeating: 0, count: Int(blob.size) + 1)
            let count = pread(file.descriptor, &bytes, bytes.count, 0)
            if count < 0 { throw ContractViolation(description: "pread: errno \(errno)") }
            return Array(bytes.prefix(count))
        case .remote(let remote):
            return try await remote.bytes(0..<blob.size).collect(limit: 1 << 30)
        }
    }

    /// Bytes that differ at each position and depend on `seed` and length.
    package static func pattern(_ count: Int, seed: UInt8 = 1) -> [UInt8] {
        var value = UInt32(seed) &* 2_654_435_761
        return (0..<count).map { _ in
            value = value &* 1_664_525 &+ 1_013_904_223
            return UInt8(truncatingIfNeeded: value >> 24)
        }
    }

    private static func newID() -> UploadID { UploadID.generate(at: Date(timeIntervalSince1970: 1_750_000_000)) }

    /// `end`, `limit`, the failure of the source, or the code of the error.
    private static func text(_ end: AppendReport.End) -> String {
        switch end {
        case .endOfSource: "end"
        case .limitReached: "limit"
        case .sourceFailed(let failure): "\(failure)"
        case .failed(let error): "\(error.code)"
        }
    }

    private static let basics: [Contract<any BlobStorage>] = [
        Contract("an emptied blob is like a new one") { storage in
            let id = newID()
            try demand(await errorCode { () async throws(UploadError) in try await storage.empty(id) }, is: .notFound)
            try await storage.create(id)
            for bytes in [pattern(70_000), pattern(10, seed: 2)] {
                let source = ArraySource(bytes)
                _ = await storage.append(to: id, at: 0, from: source, limit: 100_000, expecting: nil)
                try demand(await storage.durableLength(of: id), is: Int64(bytes.count))
                try demand(await contents(of: id, in: storage), is: bytes)
                try await storage.empty(id)
                try demand(await storage.durableLength(of: id), is: 0)
                try demand(await storage.currentLength(of: id), is: 0)
                try demand(await contents(of: id, in: storage), is: [])
                // Reading the contents has finished the blob.
                try await storage.empty(id)
            }
        },
        Contract("small contents are appended at once, beside all other ways to append") { storage in
            guard let small = storage.smallAppendStorage else { return }
            let id = newID()
            let missing = await small.append([1], to: id, at: 0, isLast: false)
            try demand(text(missing.end), is: "\(UploadError.Code.notFound)")
            try await storage.create(id)
            let bytes = pattern(150_000)
            var length = 0
            for (index, size) in [1000, 1, 70_000, 9000, 60_000, 9999].enumerated() {
                let piece = Array(bytes[length..<length + size])
                for wrong in [-1, length - 1, length + 1, length + size] where wrong != length {
                    let report = await small.append(piece, to: id, at: Int64(wrong), isLast: false)
                    try demand(text(report.end), is: "\(UploadError.Code.offsetMismatch(expected: Int64(length)))")
                    try demand(report.stored, is: 0)
                }
                let report =
                    index % 3 == 2
                    ? await storage.append(
                        to: id,
                        at: Int64(length),
                        from: ArraySource(piece),
                        limit: 1 << 20,
                        expecting: nil
                    )
                    : await small.append(piece, to: id, at: Int64(length), isLast: index == 4)
                try demand(text(report.end), is: "end")
                try demand(report.stored, is: Int64(size))
                length += size
                try demand(await storage.currentLength(of: id), is: Int64(length))
                if index % 2 == 0 { try demand(await storage.durableLength(of: id), is: Int64(length)) }
            }
            try demand(await contents(of: id, in: storage), is: Array(bytes[..<length]))
            let other = newID()
            try await storage.create(other)
            _ = await small.append([1, 2, 3], to: other, at: 0, isLast: false)
            try await storage.empty(other)
            try demand(text(await small.append([4], to: other, at: 0, isLast: true).end), is: "end")
            try demand(await contents(of: other, in: storage), is: [4])
            try await storage.remove(other)
            let gone = await small.append([1], to: other, at: 1, isLast: false)
            try demand(text(gone.end), is: "\(UploadError.Code.notFound)")
        },
        Contract("any bytes of a blob can be read") { storage in
            let id = newID()
            let bytes = pattern(300_000)
            try await storage.create(id)
            _ = await storage.append(to: id, at: 0, from: ArraySource(bytes), limit: 1 << 30, expecting: nil)
            try await storage.synchronize(id)
            for range in [0..<300_000, 0..<0, 300_000..<300_000, 1000..<290_000, 299_999..<300_000] as [Range<Int64>] {
                let found = try await storage.bytes(of: id, range).collect(limit: 1 << 20)
                try demand(found == Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)]), is: true)
            }
            try await storage.remove(id)
            try demand(
                await errorCode { () async throws(UploadError) in try await storage.bytes(of: id, 0..<1) },
                is: .notFound
            )
        },
        Contract("a new blob is empty and can be created once") { storage in
            let id = newID()
            try await storage.create(id)
            try demand(await storage.durableLength(of: id), is: 0)
            try demand(await storage.currentLength(of: id), is: 0)
            try demand(await contents(of: id, in: storage), is: [])
            try demand(
                await errorCode { () async throws(UploadError) in try await storage.create(id) } != nil,
                is: true
            )
        },
        Contract("the lengths of several blobs, without those that are missing") { storage in
            let ids = (0..<250).map { _ in newID() }
            for (number, id) in ids.enumerated() where number % 50 < 3 {
                try await storage.create(id)
                if number % 50 == 2 { continue }
                let source = ArraySource(pattern(number + 1))
                _ = await storage.append(to: id, at: 0, from: source, limit: 1000, expecting: nil)
            }
            var expected: [UploadID: Int64] = [:]
            for (number, id) in ids.enumerated() where number % 50 < 3 {
                expected[id] = number % 50 == 2 ? 0 : Int64(number + 1)
            }
            try demand(await storage.currentLengths(of: ids), is: expected)
            try demand(await storage.currentLengths(of: []), is: [:])
            try demand(await storage.currentLengths(of: [newID()]), is: [:])
        },
        Contract("a missing blob is not found, and removing it succeeds") { storage in
            let id = newID()
            let source = ArraySource([1])
            try demand(
                await errorCode { () async throws(UploadError) in try await storage.durableLength(of: id) },
                is: .notFound
            )
            try demand(
                await errorCode { () async throws(UploadError) in try await storage.currentLength(of: id) },
                is: .notFound
            )
            try demand(
                await errorCode { () async throws(UploadError) in try await storage.synchronize(id) },
                is: .notFound
            )
            try demand(await errorCode { () async throws(UploadError) in try await storage.open(id) }, is: .notFound)
            let report = await storage.append(to: id, at: 0, from: source, limit: 1, expecting: nil)
            try demand(text(report.end), is: "notFound")
            try await storage.remove(id)
        },
        Contract("a removed blob is gone, but a reader that has it open can still read it") { storage in
            let id = newID()
            try await storage.create(id)
            _ = await storage.append(to: id, at: 0, from: ArraySource([1, 2, 3]), limit: 3, expecting: nil)
            try await storage.synchronize(id)
            let blob = try await storage.open(id)
            try await storage.remove(id)
            try demand(
                await errorCode { () async throws(UploadError) in try await storage.currentLength(of: id) },
                is: .notFound
            )
            if case .file = blob.content { try demand(await contents(of: blob), is: [1, 2, 3]) }
            try await storage.create(id)
            try demand(await storage.durableLength(of: id), is: 0)
        },
        Contract("pages list every blob once, even if blobs are removed meanwhile") { storage in
            var ids: Set<UploadID> = []
            for _ in 0..<50 {
                let id = newID()
                ids.insert(id)
                try await storage.create(id)
            }
            var seen: [UploadID] = []
            var last: UploadID?
            while true {
                let page = try await storage.list(after: last, limit: 7)
                if page.isEmpty { break }
                if page.count > 7 { throw ContractViolation(description: "a page of \(page.count)") }
                seen += page
                last = page.last
                if let last { try await storage.remove(last) }
            }
            try demand(seen.count, is: 50)
            try demand(Set(seen), is: ids)
        },
        Contract("a working storage reports that it works") { storage in try await storage.check() },
    ]

    private static let copies: [Contract<any BlobStorage>] = [
        Contract("ranges of other blobs are appended, aligned or not, and the blob accepts more bytes afterwards") {
            storage in
            let (source, target) = (newID(), newID())
            let bytes = pattern(600_001)
            for id in [source, target] { try await storage.create(id) }
            _ = await storage.append(to: source, at: 0, from: ArraySource(bytes), limit: .max, expecting: nil)
            try await storage.synchronize(source)
            var expected: [UInt8] = []
            for range in [0..<600_001, 4096..<8192, 599_999..<600_001, 5..<5, 1..<300_000] as [Range<Int64>] {
                try await storage.copy(range, of: source, to: target, at: Int64(expected.count))
                expected += bytes[Int(range.lowerBound)..<Int(range.upperBound)]
                try demand(await storage.durableLength(of: target), is: Int64(expected.count))
            }
            try await storage.remove(source)
            let offset = Int64(expected.count)
            let report = await storage.append(to: target, at: offset, from: ArraySource([9]), limit: 1, expecting: nil)
            try demand(report.stored, is: 1)
            expected.append(9)
            try demand(await contents(of: target, in: storage) == expected, is: true)
        },
        Contract("copying to an offset other than the length, or from or to a missing blob, is refused") { storage in
            let (source, target) = (newID(), newID())
            for id in [source, target] { try await storage.create(id) }
            _ = await storage.append(to: source, at: 0, from: ArraySource([1, 2]), limit: .max, expecting: nil)
            try await storage.synchronize(source)
            func result(_ source: UploadID, _ target: UploadID, at offset: Int64) async -> UploadError.Code? {
                await errorCode { () async throws(UploadError) in
                    try await storage.copy(0..<2, of: source, to: target, at: offset)
                }
            }
            try demand(await result(source, target, at: 1), is: .offsetMismatch(expected: 0))
            try demand(await result(newID(), target, at: 0), is: .notFound)
            try demand(await result(source, newID(), at: 0), is: .notFound)
            try demand(await storage.durableLength(of: target), is: 0)
        },
    ]

    private static let appends: [Contract<any BlobStorage>] = [
        Contract("appended bytes are stored in order, however they are split") { storage in
            let id = newID()
            let bytes = pattern(700_001)
            try await storage.create(id)
            var offset: Int64 = 0
            for (cut, transfers) in [(1, false), (300_000, true), (300_007, false), (700_001, true)] {
                let part = Array(bytes[Int(offset)..<cut])
                let steps = stride(from: 0, to: part.count, by: 70_000).map {
                    ScriptedSource.Step.bytes(Array(part[$0..<min($0 + 70_000, part.count)]))
                }
                let source = ScriptedSource(steps, supportsTransfer: transfers)
                let report = await storage.append(to: id, at: offset, from: source, limit: 1 << 40, expecting: nil)
                try demand(text(report.end), is: "end")
                try demand(report.stored, is: Int64(part.count))
                offset += report.stored
                try demand(await storage.durableLength(of: id), is: offset)
            }
            try await storage.synchronize(id)
            try demand(await contents(of: id, in: storage) == bytes, is: true)
        },
        Contract("an offset other than the length is refused and no byte is read") { storage in
            let id = newID()
            try await storage.create(id)
            _ = await storage.append(to: id, at: 0, from: ArraySource([1, 2, 3]), limit: 3, expecting: nil)
            for offset in [Int64(0), 2, 4] {
                let source = ScriptedSource([.bytes([9])])
                let report = await storage.append(to: id, at: offset, from: source, limit: 9, expecting: nil)
                try demand(text(report.end), is: "offsetMismatch(expected: 3)")
                try demand(report.stored, is: 0)
                try demand(source.unread, is: 1)
            }
            try demand(await contents(of: id, in: storage), is: [1, 2, 3])
        },
        Contract("bytes beyond the limit stay in the source") { storage in
            for transfers in [false, true] {
                let id = newID()
                try await storage.create(id)
                let source = ScriptedSource([.bytes([1, 2, 3, 4, 5])], supportsTransfer: transfers)
                let report = await storage.append(to: id, at: 0, from: source, limit: 3, expecting: nil)
                try demand(text(report.end), is: "limit")
                try demand(report.stored, is: 3)
                try demand(source.unread, is: 2)
                try demand(await contents(of: id, in: storage), is: [1, 2, 3])
            }
        },
        Contract("bytes received before a source failed are kept") { storage in
            for transfers in [false, true] {
                for failure in [
                    SourceFailure.disconnected, .timedOut, .shuttingDown, .malformed("x"), .tooLarge(limit: 1),
                ] {
                    let id = newID()
                    try await storage.create(id)
                    let source = ScriptedSource(
                        [.bytes([1, 2]), .bytes([3]), .fail(failure)],
                        supportsTransfer: transfers
                    )
                    let report = await storage.append(to: id, at: 0, from: source, limit: 10, expecting: nil)
                    try demand(text(report.end), is: "\(failure)")
                    try demand(report.stored, is: 3)
                    try demand(await storage.durableLength(of: id), is: 3)
                    try demand(await contents(of: id, in: storage), is: [1, 2, 3])
                }
            }
        },
        Contract("an interrupted append keeps the received bytes") { storage in
            for transfers in [false, true] {
                let id = newID()
                try await storage.create(id)
                let source = ScriptedSource([.bytes([1, 2, 3]), .stall, .bytes([4])], supportsTransfer: transfers)
                async let appending = storage.append(to: id, at: 0, from: source, limit: 10, expecting: nil)
                await source.waitUntilStalled()
                source.interrupter.interrupt()
                let report = await appending
                try demand(text(report.end), is: "interrupted")
                try demand(report.stored, is: 3)
                try demand(await contents(of: id, in: storage), is: [1, 2, 3])
            }
        },
    ]

    private static let digests: [Contract<any BlobStorage>] = [
        Contract("a blob has digests by all algorithms, even if it is empty, and a missing one has none") {
            storage in
            for count in [0, 1, 262_144, 600_001] {
                let id = newID()
                let bytes = pattern(count)
                try await storage.create(id)
                _ = await storage.append(to: id, at: 0, from: ArraySource(bytes), limit: 1 << 30, expecting: nil)
                try await storage.synchronize(id)
                let all = try await storage.digests(of: id, by: Set(DigestAlgorithm.allCases))
                try demand(all.count, is: DigestAlgorithm.allCases.count)
                for (algorithm, value) in all { try demand(value, is: Digest.hash(bytes, algorithm)) }
                try demand(await storage.digests(of: id, by: [.sha512]), is: [.sha512: Digest.hash(bytes, .sha512)])
                try demand(await contents(of: id, in: storage) == bytes, is: true)
            }
            let missing = newID()
            try demand(
                await errorCode { () async throws(UploadError) in try await storage.digests(of: missing, by: [.md5]) },
                is: .notFound
            )
        },
        Contract("bytes with the announced digest are kept, by every algorithm, small and large") { storage in
            for algorithm in DigestAlgorithm.allCases {
                let id = newID()
                try await storage.create(id)
                var all: [UInt8] = []
                for (count, isLengthKnown) in [
                    (0, true), (1, true), (1000, false), (262_144, true), (262_145, true), (600_000, false),
                ] {
                    let bytes = pattern(count, seed: UInt8(all.count % 251))
                    let source = ScriptedSource([.bytes(bytes)], isLengthKnown: isLengthKnown, supportsTransfer: true)
                    let report = await storage.append(
                        to: id,
                        at: Int64(all.count),
                        from: source,
                        limit: 1 << 30,
                        expecting: .known(ExpectedDigest(algorithm: algorithm, value: Digest.hash(bytes, algorithm)))
                    )
                    try demand(text(report.end), is: "end")
                    try demand(report.stored, is: Int64(count))
                    all += bytes
                    try demand(await storage.currentLength(of: id), is: Int64(all.count))
                }
                try demand(await storage.durableLength(of: id), is: Int64(all.count))
                try demand(await contents(of: id, in: storage) == all, is: true)
            }
        },
        Contract("bytes with a wrong digest, or cut off, are not kept, and the blob continues from before them") {
            storage in
            for (count, isLengthKnown, isReported) in [
                (5, true, false), (5, false, false), (600_000, true, false), (600_000, false, false), (5, false, true),
                (600_000, false, true), (600_000, true, true),
            ] {
                let id = newID()
                try await storage.create(id)
                _ = await storage.append(to: id, at: 0, from: ArraySource([7, 7]), limit: 2, expecting: nil)
                let bytes = pattern(count)
                let expected = ExpectedDigest(algorithm: .sha256, value: Digest.hash(bytes, .sha256))
                let digest: DigestExpectation =
                    isReported ? .atEnd({ () throws(UploadError) in expected }) : .known(expected)
                let wrong = ScriptedSource([.bytes(pattern(count, seed: 2))], isLengthKnown: isLengthKnown)
                let mismatch = await storage.append(to: id, at: 2, from: wrong, limit: 1 << 30, expecting: digest)
                try demand(text(mismatch.end), is: "checksumMismatch")
                try demand(mismatch.stored, is: 0)
                try demand(await storage.durableLength(of: id), is: 2)
                let cut = ScriptedSource([.bytes(bytes), .fail(.disconnected)], isLengthKnown: isLengthKnown)
                let broken = await storage.append(to: id, at: 2, from: cut, limit: 1 << 30, expecting: digest)
                try demand(text(broken.end), is: "disconnected")
                try demand(broken.stored, is: 0)
                try demand(await storage.currentLength(of: id), is: 2)
                let right = ScriptedSource([.bytes(bytes)], isLengthKnown: isLengthKnown)
                let report = await storage.append(to: id, at: 2, from: right, limit: 1 << 30, expecting: digest)
                try demand(report.stored, is: Int64(count))
                try demand(await contents(of: id, in: storage) == [7, 7] + bytes, is: true)
            }
        },
        Contract("a digest that comes at the end is read after the last byte, and content beyond the limit is not kept")
        {
            storage in
            let id = newID()
            try await storage.create(id)
            let bytes = pattern(10)
            let expected = ExpectedDigest(algorithm: .md5, value: Digest.hash(bytes, .md5))
            for limit in [9, 10] as [Int64] {
                let source = EndingSource(bytes)
                let digest = DigestExpectation.atEnd { () throws(UploadError) in
                    if !source.hasEnded { throw UploadError(.invalidRequest, "Too early.") }
                    return expected
                }
                let report = await storage.append(to: id, at: 0, from: source, limit: limit, expecting: digest)
                try demand(text(report.end), is: "limit")
                try demand(report.stored, is: limit == 10 ? 10 : 0)
            }
            try demand(await contents(of: id, in: storage), is: bytes)
        },
        Contract("bytes whose digest was announced for the end, but not sent, are not kept") { storage in
            let id = newID()
            try await storage.create(id)
            let silent = DigestExpectation.atEnd { () throws(UploadError) in
                throw UploadError(.invalidRequest, "None.")
            }
            let report = await storage.append(to: id, at: 0, from: ArraySource([1]), limit: 9, expecting: silent)
            try demand(text(report.end), is: "invalidRequest")
            try demand(report.stored, is: 0)
            try demand(await storage.durableLength(of: id), is: 0)
        },
    ]
}

/// A source that does not announce its length, and records whether its end was read.
private final class EndingSource: ByteSource {
    private let source: ArraySource
    private(set) var hasEnded = false

    init(_ bytes: [UInt8]) { source = ArraySource(bytes) }

    var remaining: Int64? { nil }
    var interrupter: SourceInterrupter { source.interrupter }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        let piece = try await source.next(maximum: maximum)
        if piece == nil { hasEnded = true }
        return piece
    }
}
