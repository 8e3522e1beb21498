internal import Bytes
internal import Digests
internal import Foundation
internal import Synchronization
internal import UploadCore
package import UploadModel

/// The contract of `PartStorage`, in addition to `BlobStorageContract`.
package struct PartStorageContract: Sendable {
    private let partSize: Int
    private let minimumSize: Int64
    private let isWhole: Bool

    /// The requirements for a storage.
    ///
    /// - Parameters:
    ///   - partSize: Size in bytes of every part but the last.
    ///   - minimumSize: Minimum size of these parts.
    ///   - isWhole: Whether parts are stored whole.
    /// - Returns: The requirements.
    package static func all(
        partSize: Int = 64 << 10,
        minimumSize: Int = 0,
        isWhole: Bool = false
    ) -> [Contract<any PartStorage>] {
        let contract = Self(partSize: partSize, minimumSize: Int64(minimumSize), isWhole: isWhole)
        return contract.whole + contract.repeated + contract.ended
    }

    private var whole: [Contract<any PartStorage>] {
        [
            Contract("parts in any order, with a shorter last one, become one blob") { storage in
                let id = try await newBlob(in: storage)
                let parts = bytes([partSize, partSize, partSize, 1234])
                var records: [PartRecord] = []
                for number in [3, 1, 4, 2] {
                    records.append(try await store(parts[number - 1], number, of: id, in: storage))
                }
                try demand(try await storage.isJoined(id), is: false)
                try await storage.join(records.sorted { $0.number < $1.number }, of: id)
                try demand(try await storage.isJoined(id), is: true)
                try demand(try await contents(of: id, in: storage), is: Array(parts.joined()))
            },
            Contract("a single part, even an empty one, becomes a blob") { storage in
                for size in [0, 1, 100_000] {
                    let id = try await newBlob(in: storage)
                    let part = bytes([size])[0]
                    try await storage.join([try await store(part, 1, of: id, in: storage)], of: id)
                    try demand(try await contents(of: id, in: storage), is: part)
                }
            },
            Contract("parts of different sizes, with gaps between their numbers") { storage in
                let id = try await newBlob(in: storage)
                let parts = bytes([partSize + 1, partSize, partSize + 70_000, 5])
                var records: [PartRecord] = []
                for (part, number) in zip(parts, [2, 3, 700, 10_000]) {
                    records.append(try await store(part, number, of: id, in: storage))
                }
                try await storage.join(records, of: id)
                try demand(try await contents(of: id, in: storage), is: Array(parts.joined()))
            },
            Contract("parts whose size only their end reveals, before and after others") { storage in
                for sizes in [[partSize, 10], [partSize + 70_000, partSize], [0], [partSize, partSize, partSize, 5]] {
                    for known in [[], [1], [2]] where known.allSatisfy({ $0 <= sizes.count }) {
                        let id = try await newBlob(in: storage)
                        let parts = bytes(sizes)
                        var records: [PartRecord] = []
                        for (index, part) in parts.enumerated() {
                            let number = index + 1
                            let isKnown = known.contains(number)
                            records.append(try await store(part, number, of: id, isKnown: isKnown, in: storage))
                        }
                        // Other bytes: a store may know parts by their digest.
                        let other = parts[0].map { ~$0 }
                        let again = try await store(
                            other,
                            1,
                            of: id,
                            replacing: records[0],
                            isKnown: false,
                            in: storage
                        )
                        if !other.isEmpty { try demand(again.location == records[0].location, is: false) }
                        if again.location != records[0].location {
                            await storage.removePart(1, at: records[0].location, of: id)
                        }
                        records[0] = again
                        try await storage.join(records, of: id)
                        try demand(try await contents(of: id, in: storage), is: other + parts.dropFirst().joined())
                    }
                }
            },
            Contract("unlisted parts are not in the blob, wherever they are") { storage in
                let parts = bytes([partSize, partSize, partSize, partSize])
                for chosen in [[1, 2], [1, 3], [2, 4], [4], [2, 3, 4]] {
                    let id = try await newBlob(in: storage)
                    var records: [PartRecord] = []
                    for number in 1...4 {
                        let record = try await store(parts[number - 1], number, of: id, in: storage)
                        if chosen.contains(number) { records.append(record) }
                    }
                    do {
                        try await storage.join(records, of: id)
                        try demand(
                            try await contents(of: id, in: storage),
                            is: Array(chosen.map { parts[$0 - 1] }.joined())
                        )
                    } catch let error as UploadError where error.code == .invalidParts(.unnamed) {
                        // Some stores cannot leave out parts; the upload continues.
                        try demand(try await storage.isJoined(id), is: false)
                        let again = try await store(parts[0], 1, of: id, in: storage)
                        try demand(again.size, is: Int64(partSize))
                    }
                }
            },
        ]
    }

    private var repeated: [Contract<any PartStorage>] {
        [
            Contract(
                "a part that is sent again is stored separately, and the first stays complete until it is replaced"
            ) { storage in
                let id = try await newBlob(in: storage)
                let parts = bytes([partSize, partSize, 10])
                let first = try await store(parts[0], 1, of: id, in: storage)
                let last = try await store(parts[2], 2, of: id, in: storage)
                let again = try await store(parts[1], 1, of: id, replacing: first, in: storage)
                try demand(again.location == first.location, is: false)
                await storage.removePart(1, at: first.location, of: id)
                try await storage.join([again, last], of: id)
                try demand(try await contents(of: id, in: storage), is: parts[1] + parts[2])
            },
            Contract("an interrupted part leaves the first one unchanged") { storage in
                let id = try await newBlob(in: storage)
                let parts = bytes([partSize, 10])
                let first = try await store(parts[0], 1, of: id, in: storage)
                for failure in [SourceFailure.disconnected, .timedOut, .shuttingDown] {
                    let source = ScriptedSource([.bytes([UInt8](repeating: 0, count: partSize / 2)), .fail(failure)])
                    let code = await errorCode { () async throws(UploadError) in
                        try await storage.storePart(
                            NewPart(number: 1, size: Int64(partSize), minimumSize: minimumSize),
                            of: id,
                            replacing: first.location,
                            from: source,
                            verifying: { [] }
                        )
                    }
                    try demand(code, is: UploadError(failure).code)
                    let unknown = ScriptedSource(
                        [.bytes([UInt8](repeating: 0, count: partSize / 2)), .fail(failure)],
                        isLengthKnown: false
                    )
                    let same = await errorCode { () async throws(UploadError) in
                        try await storage.storePart(
                            NewPart(number: 1, size: nil, minimumSize: minimumSize),
                            of: id,
                            replacing: first.location,
                            from: unknown,
                            verifying: { [] }
                        )
                    }
                    try demand(same, is: UploadError(failure).code)
                }
                let last = try await store(parts[1], 2, of: id, in: storage)
                try await storage.join([first, last], of: id)
                try demand(try await contents(of: id, in: storage), is: parts[0] + parts[1])
            },
            Contract("a part with other bytes than announced is not stored, and leaves the first one unchanged") {
                storage in
                let id = try await newBlob(in: storage)
                let parts = bytes([partSize, partSize, 10])
                let first = try await store(parts[0], 1, of: id, in: storage)
                let code = await errorCode { () async throws(UploadError) in
                    try await store(parts[1], 1, of: id, at: first.location, in: storage) {
                        () async throws(UploadError) in throw UploadError(.checksumMismatch, "others")
                    }
                }
                try demand(code, is: .checksumMismatch)
                try await storage.join([first, try await store(parts[2], 2, of: id, in: storage)], of: id)
                try demand(try await contents(of: id, in: storage), is: parts[0] + parts[2])
            },
            Contract("concurrent parts do not affect each other") { storage in
                let id = try await newBlob(in: storage)
                let parts = bytes([partSize, partSize, partSize, 4321])
                let records = try await withThrowingTaskGroup(of: PartRecord.self) { group in
                    for (index, part) in parts.enumerated() {
                        group.addTask { try await store(part, index + 1, of: id, in: storage) }
                    }
                    var records: [PartRecord] = []
                    for try await record in group { records.append(record) }
                    return records.sorted { $0.number < $1.number }
                }
                try await storage.join(records, of: id)
                try demand(try await contents(of: id, in: storage), is: Array(parts.joined()))
            },
        ]
    }

    private var ended: [Contract<any PartStorage>] {
        [
            Contract("a part with fewer bytes than announced is not stored") { storage in
                let id = try await newBlob(in: storage)
                let code = await errorCode { () async throws(UploadError) in
                    try await storage.storePart(
                        NewPart(number: 1, size: 11, minimumSize: minimumSize),
                        of: id,
                        replacing: nil,
                        from: ScriptedSource([.bytes([UInt8](repeating: 1, count: 10))]),
                        verifying: { [] }
                    )
                }
                try demand(code, is: .lengthConflict(length: 11))
            },
            Contract("after a join no part is accepted, and joining again changes nothing") { storage in
                let id = try await newBlob(in: storage)
                let part = bytes([1000])[0]
                let record = try await store(part, 1, of: id, in: storage)
                try await storage.join([record], of: id)
                let code = await errorCode { () async throws(UploadError) in
                    let late = [UInt8](repeating: 1, count: 10)
                    return try await store(late, 2, of: id, at: nil, in: storage) { Digest.hash(late, .md5) }
                }
                try demand(code, is: .notFound)
                try await storage.join([record], of: id)
                try demand(try await contents(of: id, in: storage), is: part)
            },
            Contract("a part that is still arriving when the others are joined is aborted") { storage in
                let id = try await newBlob(in: storage)
                let part = bytes([1000])[0]
                let record = try await store(part, 1, of: id, in: storage)
                let source = ScriptedSource([.bytes([1, 2, 3]), .stall, .bytes([UInt8](repeating: 4, count: 7))])
                async let late = errorCode { () async throws(UploadError) in
                    try await storage.storePart(
                        NewPart(number: 2, size: 10, minimumSize: minimumSize),
                        of: id,
                        replacing: nil,
                        from: source,
                        verifying: { [] }
                    )
                }
                await source.waitUntilStalled()
                try await storage.join([record], of: id)
                source.proceed()
                try demand(await late == nil, is: false)
                try demand(try await contents(of: id, in: storage), is: part)
            },
            Contract("blobs that take parts are listed, and removed with all their parts") { storage in
                let id = try await newBlob(in: storage)
                let first = try await store(bytes([partSize])[0], 1, of: id, in: storage)
                _ = try await store(bytes([77])[0], 1, of: id, replacing: first, in: storage)
                try demand(try await storage.list(after: nil, limit: 10), is: [id])
                try await storage.remove(id)
                try demand(try await storage.list(after: nil, limit: 10), is: [])
                try demand(try await storage.isJoined(id), is: false)
                let stored = await errorCode { () async throws(UploadError) in
                    try await store([1], 1, of: id, at: nil, in: storage) { Digest.hash([1], .md5) }
                }
                try demand(stored, is: .notFound)
                try demand(
                    await errorCode { () async throws(UploadError) in try await storage.join([first], of: id) },
                    is: .notFound
                )
            },
        ]
    }

    // MARK: Steps

    private func newBlob(in storage: any PartStorage) async throws -> UploadID {
        let id = UploadID.generate(at: Date(timeIntervalSince1970: 1_750_000_000))
        try await storage.createForParts(NewBlob(id, createdAt: id.createdAt))
        return id
    }

    /// Different bytes for each part.
    private func bytes(_ sizes: [Int]) -> [[UInt8]] {
        sizes.enumerated().map { blocks($1, seed: UInt8($0 + 1)) }
    }

    /// Different blocks, generated fast enough for a debug build.
    private func blocks(_ count: Int, seed: UInt8) -> [UInt8] {
        let base = BlobStorageContract.pattern(4096, seed: seed)
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            for start in stride(from: 0, to: count, by: base.count) {
                let block = UnsafeMutableBufferPointer(rebasing: buffer[start..<min(count, start + base.count)])
                _ = block.initialize(fromContentsOf: base.prefix(block.count))
                block[0] = UInt8(truncatingIfNeeded: start / base.count)
            }
            initialized = count
        }
    }

    private func store(
        _ bytes: [UInt8],
        _ number: Int,
        of id: UploadID,
        replacing replaced: PartRecord? = nil,
        isKnown: Bool = true,
        in storage: any PartStorage
    ) async throws -> PartRecord {
        let location = try await store(
            bytes,
            number,
            of: id,
            at: replaced?.location,
            isKnown: isKnown,
            in: storage
        ) { Digest.hash(bytes, .md5) }
        return PartRecord(
            number: number,
            size: Int64(bytes.count),
            md5: Digest.hash(bytes, .md5),
            crc64: checksum(of: bytes),
            location: location,
            storedAt: id.createdAt
        )
    }

    private func store(
        _ bytes: [UInt8],
        _ number: Int,
        of id: UploadID,
        at replaced: String?,
        isKnown: Bool = true,
        in storage: any PartStorage,
        verifying verify: () async throws(UploadError) -> [UInt8]
    ) async throws(UploadError) -> String {
        let part = NewPart(number: number, size: isKnown ? Int64(bytes.count) : nil, minimumSize: minimumSize)
        guard isWhole, isKnown, let whole = storage.wholePartStorage else {
            return try await storage.storePart(
                part,
                of: id,
                replacing: replaced,
                from: ArraySource(bytes),
                verifying: verify
            )
        }
        let hashed = Mutex(0)
        let location = try await whole.storePart(
            part,
            of: id,
            replacing: replaced,
            content: bytes,
            hashing: { content in hashed.withLock { $0 += content == bytes ? 1 : 2 } },
            verifying: verify
        )
        guard hashed.withLock({ $0 }) == 1 else { throw UploadError(.storageFailure, "The part was not hashed once.") }
        return location
    }

    private func checksum(of bytes: [UInt8]) -> UInt64 {
        var checksum = CRC64XZ()
        checksum.update(bytes)
        return checksum.value
    }

    private func contents(of id: UploadID, in storage: any PartStorage) async throws -> [UInt8] {
        try await BlobStorageContract.contents(of: id, in: storage)
    }
}
