internal import Bytes
internal import Digests
internal import Foundation
internal import Synchronization
internal import UploadModel

/// One append: receives bytes, splits them into parts, and uploads these while bytes arrive.
///
/// It belongs to the task of its append. Parts are recorded in order, each as soon as the store has confirmed it and
/// all parts before it. If a digest must be verified first, nothing is recorded before the end.
final class AppendSession {
    /// A part from its first byte until it is recorded.
    private final class Part {
        let number: Int
        /// Size of the complete part in bytes; the last part of a blob can be smaller.
        let size: Int64
        let buffer = PartBuffer()
        /// Bytes from tail objects that belong before the bytes in the buffer; they are read once all others are there.
        var missing: Int64
        /// Bytes received from the source.
        var received: Int64 = 0
        /// CRC-32C of the blob up to the end of this part.
        var crc32c: UInt32?
        var upload: PartUpload?

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
    /// Length of the blob before the append.
    private let base: Int64
    private let beganAt = ContinuousClock.now

    private(set) var record: BlobRecord
    /// Recorded length of the blob.
    private var recorded: Int64
    /// Bytes received so far.
    private var taken: Int64 = 0
    private var crc: CRC32C?
    private let digests: StreamDigests
    /// Confirmed parts that are recorded only if the digest is correct.
    private var withheld: [BlobPart] = []
    /// Complete parts, in order.
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
        let algorithms: [DigestAlgorithm] =
            switch expectation {
            case nil: []
            case .known(let expected): [expected.algorithm]
            // The algorithm is only known at the end.
            case .atEnd: DigestAlgorithm.allCases
            }
        digests = StreamDigests(algorithms, on: storage.spool.pool)
    }

    private var settings: S3Settings { storage.settings }
    private var stored: Int64 { recorded - base }

    func run(_ source: any ByteSource) async -> AppendReport {
        do throws(UploadError) {
            let end = try await receive(source)
            if let refusal = await refusal(after: end, source) {
                await cancelUploads()
                return AppendReport(stored: 0, end: refusal)
            }
            try await finish()
            if let part = current { storage.memory.release(part.buffer.discard()) }
            return AppendReport(stored: stored, end: end)
        } catch {
            await cancelUploads()
            return AppendReport(stored: stored, end: .failed(error))
        }
    }

    // MARK: Receiving

    /// Maximum bytes per pull from the source.
    private static let pieceSize: Int64 = 128 << 10

    private func receive(_ source: any ByteSource) async throws(UploadError) -> AppendReport.End {
        let arrival = storage.arrivals.begin(source)
        defer { storage.arrivals.end(arrival) }
        while taken < limit {
            let part = try await currentPart(source)
            let piece: [UInt8]
            do throws(SourceFailure) {
                let most = min(Self.pieceSize, limit - taken, part.room)
                arrival.wait()
                guard let next = try await source.next(maximum: Int(most)) else { return .endOfSource }
                arrival.add(next.count)
                piece = next
            } catch {
                return .sourceFailed(error)
            }
            if part.received == 0, let first = parts.first, first.missing > 0 {
                // It needs its tail objects in any case now. Later, the parts after it would hold the memory for them, and are
                // recorded only after it.
                try await send(first)
            }
            guard try await keep(piece, in: part) else { return .failed(Self.tooSlow) }
            part.received += Int64(piece.count)
            crc?.update(piece)
            await digests.update(piece)
            taken += Int64(piece.count)
            let (id, length) = (record.id, base + taken)
            storage.active.withLock { $0[id] = length }
            if part.room == 0 || length == total {
                arrival.closePart()
                try await close(part)
            } else if part.upload == nil, isDue(part) {
                try await send(part)
            }
            while parts.count > settings.parallelParts { try await recordFirst() }
            try await recordEnded()
        }
        return .limitReached
    }

    static let tooSlow = UploadError(
        .unavailable,
        "The server's store is too slow at the moment; resume from the offset in a few seconds."
    )

    private func currentPart(_ source: any ByteSource) async throws(UploadError) -> Part {
        if let current { return current }
        let isFirst = parts.isEmpty && withheld.isEmpty
        if isFirst, record.tailBytes >= settings.size(ofPart: record.partCount + 1, base: record.partSize) {
            // Of an earlier append that ended before it could make the part.
            try await makePartOfTails()
        }
        let number = record.partCount + withheld.count + parts.count + 1
        guard number <= settings.maximumParts else {
            throw UploadError(
                .tooLarge(limit: base + taken),
                "The store accepts at most \(settings.maximumParts) parts; declare the length when you create the upload."
            )
        }
        let part = Part(
            number: number,
            size: settings.size(ofPart: number, base: record.partSize),
            missing: isFirst ? record.tailBytes : 0
        )
        // If the source announces enough bytes, the length is known now and the part can be sent from its first byte. Not
        // if tail objects belong before it: a client that brings one byte, or one byte a minute, must not make the gateway
        // read and hold a whole part.
        if part.missing == 0, let remaining = source.remaining {
            let coming = min(limit - taken, remaining)
            let isLast = total.map { base + taken + coming == $0 } ?? false
            if coming >= part.room || isLast && coming > 0 {
                part.buffer.setLength(min(part.size, coming))
            }
        }
        current = part
        return part
    }

    /// Puts the bytes of tail objects at the start of a part that has all others.
    ///
    /// - Parameters:
    ///   - part: Its buffer has not been read.
    ///   - waits: Whether to wait for memory.
    /// - Returns: `false` if there is none.
    /// - Throws: `.unavailable`, `.storageFailure`.
    private func loadTails(into part: Part, waits: Bool) async throws(UploadError) -> Bool {
        let kept = part.buffer.memory(adding: Int(clamping: part.missing))
        // They take memory twice until they are in the buffer. Reserve it before the request, otherwise all uploads
        // that resume at the same time use memory outside the pool.
        let rest = storage.memory.capacity - part.buffer.memory - kept
        let passing = max(0, min(Int(clamping: part.missing), rest))
        let isTaken =
            waits
            ? await storage.takeMemory(kept + passing, within: settings.retryTime)
            : storage.memory.take(kept + passing)
        guard isTaken else { return false }
        do throws(UploadError) {
            part.buffer.prepend(try await storage.bytes(of: record.tails, in: record))
        } catch {
            storage.memory.release(kept + passing)
            throw error
        }
        storage.memory.release(passing)
        part.missing = 0
        return true
    }

    /// Records the bytes of a part as a further tail object, because there is no memory for the tail objects before it.
    ///
    /// So nobody who waits for memory here holds any: many uploads that resume at once would wait for one another.
    private func keepAsTail(_ part: Part) async throws(UploadError) {
        defer { storage.memory.release(part.buffer.discard()) }
        let tail = try await storage.putTail(copy(of: part), of: record).get()
        record.tails.append(tail)
        record.crc32c = part.crc32c
        try await update()
        await confirming?(recorded)
    }

    /// Makes the next part of the tail objects alone.
    private func makePartOfTails() async throws(UploadError) {
        record = try await storage.withMultipart(record)
        let obsolete = record.tails
        let part = try await storage.part(
            record.partCount + 1,
            of: obsolete,
            in: record,
            within: settings.retryTime
        )
        record.partCount += 1
        record.partBytes += part.size
        record.tails = []
        try await update(adding: [part])
        storage.removeInBackground(obsolete, of: record)
    }

    /// A copy of the bytes that a part has now, whose digest is being computed.
    private func copy(of part: Part) -> PartBuffer {
        let content = part.buffer.copy()
        storage.hashes.add(content)
        storage.hashes.hashNow(content)
        return content
    }

    /// - Returns: `false` if there is no room for the piece in time.
    private func keep(_ piece: [UInt8], in part: Part) async throws(UploadError) -> Bool {
        try await storage.keep(piece, in: part.buffer) { () async throws(UploadError) -> Bool in
            if parts.isEmpty { return false }
            // Its memory is free soon, but the client has to wait for the store.
            try await recordFirst()
            return true
        }
    }

    // MARK: Sending

    /// Whether to start sending a part before all its bytes have arrived: not if they arrive so slowly that the store
    /// would have to wait for them.
    private func isDue(_ part: Part) -> Bool {
        guard part.buffer.isLengthKnown, !settings.sendsContentMD5, !mustVerifyFirst(part) else { return false }
        return S3Storage.arrivesSoon(part.room, after: taken, since: beganAt)
    }

    /// Whether this part contains the whole blob, so that it is sent as an object.
    private func isObject(_ part: Part) -> Bool {
        part.number == 1 && record.multipart == nil && part.buffer.isLengthKnown && part.buffer.length == total
    }

    /// Whether a part is sent only if the expected digest is correct.
    ///
    /// An object exists as soon as it is sent, a part only once it is recorded. And a client must not make the gateway read
    /// tail objects with wrong bytes, as often as it likes.
    private func mustVerifyFirst(_ part: Part) -> Bool { expectation != nil && (part.missing > 0 || isObject(part)) }

    private func send(_ part: Part) async throws(UploadError) {
        guard part.upload == nil else { return }
        if part.missing > 0 {
            guard try await loadTails(into: part, waits: true) else { throw Self.tooSlow }
            seal(part)
        }
        if isObject(part) {
            part.upload = PartUpload(object: part.buffer, record, storage)
        } else {
            record = try await storage.withMultipart(record)
            part.upload = PartUpload(part: part.number, part.buffer, record, storage)
        }
    }

    /// Handles a part that has all its bytes.
    private func close(_ part: Part) async throws(UploadError) {
        part.crc32c = crc?.value
        if part.missing > 0, expectation == nil {
            guard try await loadTails(into: part, waits: false) else {
                current = nil
                try await keepAsTail(part)
                // The last bytes are joined at the completion.
                if base + taken != total { try await makePartOfTails() }
                return
            }
        }
        if part.missing == 0 { seal(part) }
        current = nil
        parts.append(part)
        if !mustVerifyFirst(part) { try await send(part) }
    }

    /// No bytes come before or after those of the part any more.
    private func seal(_ part: Part) {
        part.buffer.close()
        if settings.needsDigests { storage.hashes.add(part.buffer) } else { part.buffer.setMD5([]) }
    }

    // MARK: Recording

    private func update(adding parts: [BlobPart] = []) async throws(UploadError) {
        record.version = try await storage.records.update(record, adding: parts, droppingFrom: nil)
        recorded = record.length
    }

    private func recordEnded() async throws(UploadError) {
        while let first = parts.first, first.upload?.hasEnded == true { try await recordFirst() }
    }

    /// Waits for the first part, and records it with the confirmed parts after it.
    private func recordFirst() async throws(UploadError) {
        var confirmed: [BlobPart] = []
        // What was to be verified first may not have been sent yet.
        if let first = parts.first { try await send(first) }
        repeat {
            let part = parts.removeFirst()
            storage.hashes.hashNow(part.buffer)
            defer { storage.memory.release(part.buffer.discard()) }
            guard let upload = part.upload else { throw Self.tooSlow }
            confirmed.append(
                BlobPart(number: part.number, size: part.buffer.count, entityTag: try await upload.entityTag())
            )
            guard expectation == nil else { continue }
            record.crc32c = part.crc32c
            if upload.isObject {
                record.state = .complete
                record.entityTag = confirmed.removeLast().entityTag
                record.partBytes = part.buffer.count
            } else {
                record.partCount += 1
                record.partBytes += part.buffer.count
            }
        } while parts.first?.upload?.hasEnded == true
        guard expectation == nil else {
            withheld += confirmed
            return
        }
        let obsolete = record.tails
        record.tails = []
        try await update(adding: confirmed)
        storage.removeInBackground(obsolete, of: record)
        await confirming?(recorded)
    }

    /// Verifies the expected digest.
    ///
    /// - Returns: How the append ends without storing anything; `nil` if the digest is correct.
    private func refusal(after end: AppendReport.End, _ source: any ByteSource) async -> AppendReport.End? {
        guard let expectation else { return nil }
        switch end {
        case .sourceFailed, .failed: return end
        case .endOfSource, .limitReached: break
        }
        if case .atEnd = expectation, case .limitReached = end {
            // The digest comes only after the end of the content, and it covers bytes beyond the limit, too.
            do throws(SourceFailure) {
                if try await source.next(maximum: 1) != nil { return .limitReached }
            } catch {
                return .sourceFailed(error)
            }
        }
        do throws(UploadError) {
            let expected = try expectation.value()
            let found = digests.value(expected.algorithm)
            return constantTimeEquals(found ?? [], expected.value) ? nil : .failed(Self.mismatch)
        } catch {
            return .failed(error)
        }
    }

    private static let mismatch = UploadError(
        .checksumMismatch,
        "The bytes do not have the announced checksum; send them again from the same offset."
    )

    // MARK: The end

    /// Keeps received bytes: waits for all parts, and stores the bytes after the last complete part as a tail object.
    private func finish() async throws(UploadError) {
        var tail: Task<Result<TailObject, UploadError>, Never>?
        if let part = current, part.received > 0 {
            // What was sent of it is useless: the store expects the announced length.
            part.buffer.stopReaders()
            await part.upload?.wait()
            let (content, record) = (copy(of: part), record)
            tail = Task { [storage] in await storage.putTail(content, of: record) }
        }
        for part in parts where part.upload == nil { try await send(part) }
        while !parts.isEmpty { try await recordFirst() }
        let tailObject = try await tail?.value.get()
        guard tailObject != nil || !withheld.isEmpty else { return }
        var obsolete: [TailObject] = []
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
            obsolete = record.tails
            record.tails = []
        }
        if let tailObject { record.tails.append(tailObject) }
        record.crc32c = crc?.value
        try await update(adding: withheld)
        storage.removeInBackground(obsolete, of: record)
        guard record.tails.count >= Self.maximumTails else { return }
        // The next one waits for memory.
        if let part = current { storage.memory.release(part.buffer.discard()) }
        current = nil
        try await joinTails()
    }

    /// With many tail objects, making a part of them would take many requests.
    private static let maximumTails = 16

    /// Joins the last tail objects.
    ///
    /// A larger one before them is left alone until they have grown, so that small appends do not copy it again and again.
    private func joinTails() async throws(UploadError) {
        let first = Self.firstToJoin(record.tails)
        let tails = Array(record.tails[first...])
        let before = record
        let joined = try await storage.withMemory(for: tails) { () async throws(UploadError) in
            let content = PartBuffer(whole: try await storage.bytes(of: tails, in: before))
            return try await storage.putTail(content, of: before).get()
        }
        record.tails[first...] = [joined]
        try await update()
        storage.removeInBackground(tails, of: record)
    }

    /// The index of the first of at least two tail objects, none of them more than twice as large as all after it.
    static func firstToJoin(_ tails: [TailObject]) -> Int {
        var (first, size) = (tails.count, Int64(0))
        while first > 0, first > tails.count - 2 || tails[first - 1].length <= 2 * size {
            first -= 1
            size += tails[first].length
        }
        return first
    }

    /// Cancels running uploads; recorded parts stay.
    private func cancelUploads() async {
        for part in parts + [current].compactMap({ $0 }) {
            part.buffer.stopReaders()
            part.upload?.cancel()
        }
        for part in parts + [current].compactMap({ $0 }) {
            await part.upload?.wait()
            storage.memory.release(part.buffer.discard())
        }
        parts = []
        current = nil
    }
}
