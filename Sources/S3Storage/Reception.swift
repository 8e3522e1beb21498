internal import Bytes
internal import Digests
internal import Foundation
internal import Synchronization
internal import UploadCore

/// One append: receives bytes, makes parts of them, and has these sent while they come.
///
/// It belongs to the task of its append. Parts are recorded in their order, each as soon as the store has confirmed it and
/// all before it; nothing is recorded before the end where a digest must be right first.
final class Reception {
    /// A part while its bytes come, and until it is recorded.
    private final class Part {
        let number: Int
        /// Bytes that it has when it is whole; the last one of a blob may have fewer.
        let size: Int64
        let buffer = PartBuffer()
        /// Bytes of side objects that come before those in the buffer.
        var missing: Int64
        /// Bytes that it got from the source.
        var received: Int64 = 0
        /// CRC-32C of the blob up to its end.
        var crc32c: UInt32?
        var sending: Sending?

        init(number: Int, size: Int64, missing: Int64) {
            self.number = number
            self.size = size
            self.missing = missing
        }

        var room: Int64 { max(0, size - missing - buffer.count) }
    }

    private let storage: S3Storage
    private let limit: Int64
    private let total: Int64?
    private let expectation: DigestExpectation?
    private let confirming: ((Int64) async -> Void)?
    /// Length of the blob before.
    private let base: Int64
    private let beganAt = ContinuousClock.now

    private(set) var record: BlobRecord
    /// Length of the blob that is recorded.
    private var recorded: Int64
    /// Bytes that came.
    private var taken: Int64 = 0
    private var crc: CRC32C?
    private var digests: [RunningDigest] = []
    /// Confirmed parts that are recorded when the digest was right.
    private var withheld: [BlobPart] = []
    /// Whole, in their order.
    private var parts: [Part] = []
    private var current: Part?

    init(
        _ storage: S3Storage,
        _ record: BlobRecord,
        limit: Int64,
        of total: Int64?,
        expecting expectation: DigestExpectation? = nil,
        confirming: ((Int64) async -> Void)? = nil
    ) {
        self.confirming = confirming
        self.storage = storage
        self.record = record
        self.limit = limit
        self.total = total
        self.expectation = expectation
        base = record.length
        recorded = record.length
        crc = record.crc32c.map { CRC32C(resuming: $0) }
        switch expectation {
        case nil: break
        case .known(let expected): digests = [RunningDigest(expected.algorithm)]
        // By which algorithm it will be is told at the end.
        case .told: digests = DigestAlgorithm.allCases.map { RunningDigest($0) }
        }
    }

    private var settings: S3Settings { storage.settings }
    private var stored: Int64 { recorded - base }

    func run(_ source: any ByteSource) async -> AppendReport {
        do throws(UploadError) {
            let end = try await receive(source)
            if let refusal = await refusal(after: end, source) {
                await giveUp()
                return AppendReport(stored: 0, end: refusal)
            }
            try await finish()
            if let part = current { storage.memory.giveBack(part.buffer.discard()) }
            return AppendReport(stored: stored, end: end)
        } catch {
            await giveUp()
            return AppendReport(stored: stored, end: .failed(error))
        }
    }

    // MARK: Receiving

    /// Bytes that are taken from the source at once.
    private static let pieceSize: Int64 = 128 << 10

    private func receive(_ source: any ByteSource) async throws(UploadError) -> AppendReport.End {
        while taken < limit {
            let part = try await currentPart(source)
            let piece: [UInt8]
            do throws(SourceFailure) {
                let most = min(Self.pieceSize, limit - taken, part.room)
                guard let next = try await source.next(maximum: Int(most)) else { return .endOfSource }
                piece = next
            } catch {
                return .sourceFailed(error)
            }
            guard try await keep(piece, in: part) else { return .failed(Self.tooSlow) }
            part.received += Int64(piece.count)
            crc?.update(piece)
            for digest in digests { digest.update(piece) }
            taken += Int64(piece.count)
            let (id, length) = (record.id, base + taken)
            storage.active.withLock { $0[id] = length }
            if part.room == 0 || length == total {
                try await close(part)
            } else if part.sending == nil, isDue(part) {
                try await send(part)
            }
            while parts.count > settings.parallelParts { try await recordFirst() }
            try await recordEnded()
        }
        return .limitReached
    }

    static let tooSlow = UploadError(
        .unavailable,
        "The store of the server does not keep up; go on from the offset in a few seconds."
    )

    private func currentPart(_ source: any ByteSource) async throws(UploadError) -> Part {
        if let current { return current }
        let number = record.partCount + withheld.count + parts.count + 1
        guard number <= settings.maximumParts else {
            throw UploadError(
                .tooLarge(limit: base + taken),
                "The store takes no more than \(settings.maximumParts) parts; tell the length when the upload is created."
            )
        }
        let isFirst = parts.isEmpty && withheld.isEmpty
        let part = Part(
            number: number,
            size: settings.size(ofPart: number, base: record.partSize),
            missing: isFirst ? record.sideBytes : 0
        )
        // If enough is announced its length is known now, and it can be sent from its first byte on.
        if let remaining = source.remaining {
            let coming = min(limit - taken, remaining)
            let isLast = total.map { base + taken + coming == $0 } ?? false
            if coming >= part.room || isLast && coming > 0 {
                let length = min(part.size, part.missing + coming)
                try await loadSides(into: part)
                part.buffer.settle(length: length)
            }
        }
        current = part
        return part
    }

    /// Puts bytes that are in side objects in front of a part that is going to be whole.
    private func loadSides(into part: Part) async throws(UploadError) {
        guard part.missing > 0 else { return }
        let kept = part.buffer.memory(adding: Int(clamping: part.missing))
        // They are there twice until they are in the buffer. Taken before they are asked for: else all that resume at the same time
        // hold theirs beside the pool.
        let passing = max(0, min(Int(clamping: part.missing), storage.memory.capacity - kept))
        guard await storage.memory.take(kept + passing, within: settings.retryTime) else { throw Self.tooSlow }
        do throws(UploadError) {
            part.buffer.prepend(try await storage.bytes(of: record.sides, in: record))
        } catch {
            storage.memory.giveBack(kept + passing)
            throw error
        }
        storage.memory.giveBack(passing)
        part.missing = 0
    }

    /// - Returns: `false` when there is no room for the piece in time.
    private func keep(_ piece: [UInt8], in part: Part) async throws(UploadError) -> Bool {
        try await storage.keep(piece, in: part.buffer) { () async throws(UploadError) -> Bool in
            if parts.isEmpty { return false }
            // Its memory is free again soon: the client has to wait for the store.
            try await recordFirst()
            return true
        }
    }

    // MARK: Sending

    /// Whether to begin with a part of which bytes are still to come: not if they come so slowly that the store would have
    /// to wait for them.
    private func isDue(_ part: Part) -> Bool {
        guard part.buffer.isLengthKnown, !settings.sendsContentMD5, !mustVerifyFirst(part) else { return false }
        return S3Storage.comesSoon(part.room, after: taken, since: beganAt)
    }

    /// The whole blob is in this part, so that it is sent as an object.
    private func isObject(_ part: Part) -> Bool {
        part.number == 1 && record.multipart == nil && part.buffer.isLengthKnown && part.buffer.length == total
    }

    /// An object would be there at once, a part only once it is recorded.
    private func mustVerifyFirst(_ part: Part) -> Bool { expectation != nil && isObject(part) }

    private func send(_ part: Part) async throws(UploadError) {
        guard part.sending == nil else { return }
        if isObject(part) {
            part.sending = Sending(object: part.buffer, record, storage)
        } else {
            record = try await storage.withMultipart(record)
            part.sending = Sending(part: part.number, part.buffer, record, storage)
        }
    }

    /// A part that has all its bytes.
    private func close(_ part: Part) async throws(UploadError) {
        try await loadSides(into: part)
        part.crc32c = crc?.value
        part.buffer.close()
        if settings.needsDigests { storage.hashes.add(part.buffer) } else { part.buffer.tell(md5: []) }
        current = nil
        parts.append(part)
        if !mustVerifyFirst(part) { try await send(part) }
    }

    // MARK: Recording

    private func update(adding parts: [BlobPart] = []) async throws(UploadError) {
        record.version = try await storage.records.update(record, adding: parts, droppingFrom: nil)
        recorded = record.length
    }

    private func recordEnded() async throws(UploadError) {
        while let first = parts.first, first.sending?.hasEnded == true { try await recordFirst() }
    }

    /// Waits for the first part, and records it with those behind it that are confirmed too.
    private func recordFirst() async throws(UploadError) {
        var confirmed: [BlobPart] = []
        repeat {
            let part = parts.removeFirst()
            storage.hashes.hurry(part.buffer)
            defer { storage.memory.giveBack(part.buffer.discard()) }
            guard let sending = part.sending else { throw Self.tooSlow }
            confirmed.append(
                BlobPart(number: part.number, size: part.buffer.count, entityTag: try await sending.entityTag())
            )
            guard expectation == nil else { continue }
            record.crc32c = part.crc32c
            if sending.isObject {
                record.state = .complete
                record.entityTag = confirmed.removeLast().entityTag
                record.partBytes = part.buffer.count
            } else {
                record.partCount += 1
                record.partBytes += part.buffer.count
            }
        } while parts.first?.sending?.hasEnded == true
        guard expectation == nil else {
            withheld += confirmed
            return
        }
        let obsolete = record.sides
        record.sides = []
        try await update(adding: confirmed)
        storage.forget(obsolete, of: record)
        await confirming?(recorded)
    }

    /// Looks at the digest that the bytes must have.
    ///
    /// - Returns: How the append ends without having stored anything; `nil` if all is well.
    private func refusal(after end: AppendReport.End, _ source: any ByteSource) async -> AppendReport.End? {
        guard let expectation else { return nil }
        switch end {
        case .sourceFailed, .failed: return end
        case .endOfSource, .limitReached: break
        }
        if case .told = expectation, case .limitReached = end {
            // Nothing is told before the end; and bytes beyond the limit are among those that it is told of.
            do throws(SourceFailure) {
                if try await source.next(maximum: 1) != nil { return .limitReached }
            } catch {
                return .sourceFailed(error)
            }
        }
        do throws(UploadError) {
            let expected = try expectation.value()
            let found = digests.first { $0.algorithm == expected.algorithm }?.finish() ?? []
            return constantTimeEquals(found, expected.value) ? nil : .failed(Self.mismatch)
        } catch {
            return .failed(error)
        }
    }

    private static let mismatch = UploadError(
        .checksumMismatch,
        "The bytes do not have the announced checksum; send them again from the same offset."
    )

    // MARK: The end

    /// Keeps what came: waits for all parts, and puts what makes no part into a side object.
    private func finish() async throws(UploadError) {
        var side: Task<Result<SideObject, UploadError>, Never>?
        var isCombined = false
        if let part = current, part.received > 0 {
            // What was sent of it is of no use: the store wants the length that it was told.
            part.buffer.stopReaders()
            await part.sending?.wait()
            isCombined = part.missing == 0
            let (content, record) = (part.buffer.copy(), record)
            storage.hashes.add(content)
            storage.hashes.hurry(content)
            side = Task { [storage] in await storage.putSide(content, of: record) }
        }
        for part in parts where part.sending == nil { try await send(part) }
        while !parts.isEmpty { try await recordFirst() }
        let sideObject = try await side?.value.get()
        guard sideObject != nil || !withheld.isEmpty else { return }
        var obsolete: [SideObject] = []
        let isFirst = withheld.isEmpty
        if !withheld.isEmpty {
            if record.multipart == nil {
                record.state = .complete
                record.entityTag = withheld[0].entityTag
                record.partBytes = withheld[0].size
                withheld = []
            } else {
                record.partCount += withheld.count
                record.partBytes += withheld.reduce(0) { $0 + $1.size }
            }
            obsolete = record.sides
            record.sides = []
        }
        if let sideObject {
            if isCombined, isFirst {
                obsolete += record.sides
                record.sides = []
            }
            record.sides.append(sideObject)
        }
        record.crc32c = crc?.value
        try await update(adding: withheld)
        storage.forget(obsolete, of: record)
        if record.sides.count >= Self.mostSides { try await joinSides() }
    }

    /// Many small pieces would take many requests when the part is made.
    private static let mostSides = 16

    private func joinSides() async throws(UploadError) {
        let sides = record.sides
        let before = record
        let joined = try await storage.withMemory(for: sides) { () async throws(UploadError) in
            let content = PartBuffer(whole: try await storage.bytes(of: sides, in: before))
            return try await storage.putSide(content, of: before).get()
        }
        record.sides = [joined]
        try await update()
        storage.forget(sides, of: record)
    }

    /// Ends what is on its way; what is recorded stays.
    private func giveUp() async {
        for part in parts + [current].compactMap({ $0 }) {
            part.buffer.stopReaders()
            part.sending?.cancel()
        }
        for part in parts + [current].compactMap({ $0 }) {
            await part.sending?.wait()
            storage.memory.giveBack(part.buffer.discard())
        }
        parts = []
        current = nil
    }
}
