package import Bytes
internal import Foundation

extension UploadService {
    /// Appends what `source` brings, taking over from a request that does the same.
    ///
    /// Whatever is thrown, bytes that came before are kept, except where a digest makes them unusable.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - offset: Bytes already stored, zero-based.
    ///   - contentLength: Bytes that `source` will bring, if that was announced.
    ///   - length: The final size in bytes, for an upload that was created without; it is recorded before a byte is read, and
    ///     stays whatever becomes of the bytes.
    ///   - finish: Whether the upload is complete afterwards.
    ///   - digest: What these bytes must hash to; if they do not, or if the source fails, none of them is kept.
    ///   - source: Pulled until its end or until the upload has all its bytes.
    ///   - progress: Told every few seconds while bytes come: what it is told is kept like what is returned. Not where a
    ///     digest is expected.
    /// - Returns: The upload with its new offset, durable as the settings ask.
    /// - Throws: `.notFound`, `.gone`, `.notOpen` for a final upload (and with `told` for a complete one), `.offsetMismatch`,
    ///   `.lengthConflict` and `.tooLarge` for a length that can not be, `.lengthExceeded` (before a byte is read if
    ///   `contentLength` tells; else after what there was room for is stored, and with `whenFull` complete),
    ///   `.checksumMismatch`, `.digestMismatch` and `.contentTypeRefused` (and then the upload has ended), `.quotaExceeded`,
    ///   `.rejected` when the app stopped it, `.storageFull`, `.storageFailure`, `.busy`, and for a source that fails
    ///   `.disconnected`,
    ///   `.interrupted`, `.timedOut`, `.unavailable`, `.invalidRequest` or `.tooLarge`.
    package func append(
        to id: UploadID,
        at offset: Int64,
        contentLength: Int64?,
        declaring length: Int64? = nil,
        finish: Finish = .whenFull,
        expecting digest: DigestExpectation?,
        from source: any ByteSource,
        progress: ((Upload) async -> Void)? = nil
    ) async throws(UploadError) -> Upload {
        try await reporting(id) { () async throws(UploadError) -> Upload in
            try checkWritable()
            let spared = try await sparing(writerOf: id, at: offset)
            let upload = try await leases.withLease(on: id, interrupter: source.interrupter, sparing: spared) {
                () async throws(UploadError) -> Upload in
                var upload = try await settled(id, finish)
                guard upload.concatenation?.parts == nil else { throw UploadError.finalUpload }
                guard !upload.takesParts else { throw UploadError.partsOnly }
                guard upload.offset == offset else {
                    throw UploadError(
                        .offsetMismatch(expected: upload.offset),
                        "The upload has \(upload.offset) bytes; go on from there."
                    )
                }
                if upload.state == .completed, finish != .whenFull { throw Self.alreadyComplete }
                if let length = try self.length(length, told: finish, at: offset, contentLength) {
                    upload = try await declare(length, for: upload, contentLength)
                }
                let room = try self.room(in: upload, for: contentLength)
                guard upload.state == .open else {
                    try await refuseMore(of: source, than: upload)
                    return upload
                }
                let terms = try await self.terms(for: upload.accounts)
                if upload.length == nil, terms.limitsBytes, let contentLength {
                    let wanted = upload.offset + contentLength
                    upload = try await reserve(wanted, for: upload, under: terms, isWhole: true)
                }
                let source = try await checkingContent(of: source, for: upload, under: terms)
                appends.begin(upload)
                defer { appends.end(id) }
                let report =
                    if upload.length == nil, terms.limitsBytes, contentLength == nil {
                        try await appendReserving(to: upload, room, source, digest, terms, progress)
                    } else {
                        await append(to: upload, limit: room, from: source, expecting: digest, progress)
                    }
                return try await conclude(upload, report, source, finish, digestOfAll(upload, digest, report))
            }
            await completeFinals(waitingFor: upload)
            return upload
        }
    }

    private func append(
        to upload: Upload,
        limit: Int64,
        from source: any ByteSource,
        expecting digest: DigestExpectation?,
        _ progress: ((Upload) async -> Void)?
    ) async -> AppendReport {
        if let progress, digest == nil, storage.isDurableAtEndOnly {
            return await appendInSegments(to: upload, limit: limit, from: source, progress)
        }
        return await storage.append(
            to: upload.id,
            at: upload.offset,
            from: source,
            limit: limit,
            of: upload.length,
            expecting: digest,
            confirming: confirming(progress, upload)
        )
    }

    /// Tells `progress` of what the storage confirms.
    private func confirming(_ progress: ((Upload) async -> Void)?, _ upload: Upload) -> ((Int64) async -> Void)? {
        guard let progress else { return nil }
        var current = upload
        var last = ContinuousClock.now
        return { length in
            guard ContinuousClock.now - last >= .seconds(Self.progressInterval), length > current.offset else { return }
            last = .now
            current.offset = length
            await progress(current)
        }
    }

    /// Appends what comes to an upload without length, content without length, reserving before it reads.
    private func appendReserving(
        to upload: Upload,
        _ room: Int64,
        _ source: any ByteSource,
        _ digest: DigestExpectation?,
        _ terms: QuotaTerms,
        _ progress: ((Upload) async -> Void)?
    ) async throws(UploadError) -> AppendReport {
        var current = upload
        var stored: Int64 = 0
        while true {
            // All at once for a digest, which can not be continued.
            let step = digest == nil ? min(Self.reservationStep, room - stored) : room
            do throws(UploadError) {
                let (wanted, overflow) = current.offset.addingReportingOverflow(step)
                current = try await reserve(overflow ? .max : wanted, for: current, under: terms, isWhole: false)
            } catch {
                if case .quotaExceeded = error.code, stored > 0 || upload.offset > 0 {
                    // It may have all its bytes just so.
                    do throws(SourceFailure) {
                        guard try await source.next(maximum: 1) != nil else {
                            return AppendReport(stored: stored, end: .endOfSource)
                        }
                    } catch let failure {
                        return AppendReport(stored: stored, end: .sourceFailed(failure))
                    }
                }
                return AppendReport(stored: stored, end: .failed(error))
            }
            let limit = current.reservedBytes - current.offset
            let report = await append(to: current, limit: limit, from: source, expecting: digest, progress)
            stored += report.stored
            current.offset += report.stored
            guard case .limitReached = report.end, stored < room, digest == nil else {
                // What it does not need is for others; the next append reserves anew.
                _ = try? await reserve(current.offset, for: current, under: terms, isWhole: true)
                return AppendReport(stored: stored, end: report.end)
            }
        }
    }

    /// Bytes that are reserved at once where nobody knows how many come.
    private static let reservationStep: Int64 = 64 << 20

    /// Appends in segments of some seconds, each as durable as the settings ask when `progress` is told of it.
    private func appendInSegments(
        to upload: Upload,
        limit: Int64,
        from source: any ByteSource,
        _ progress: (Upload) async -> Void
    ) async -> AppendReport {
        var current = upload
        var stored: Int64 = 0
        var isFast = false
        while true {
            let segment = SourceSegment(of: source, seconds: Self.progressInterval, isFast: isFast)
            let report = await storage.append(
                to: upload.id,
                at: current.offset,
                from: segment,
                limit: limit - stored,
                of: upload.length,
                expecting: nil,
                confirming: nil
            )
            stored += report.stored
            guard case .endOfSource = report.end, !segment.hasSourceEnded else {
                return AppendReport(stored: stored, end: report.end)
            }
            current.offset += report.stored
            isFast = report.stored >= Self.fastSegment
            await progress(current)
        }
    }

    /// Seconds: often enough for a bar that moves, seldom enough for a disk that is synchronised each time.
    private static let progressInterval = 2.0
    /// Bytes of a segment that make a source fast.
    private static let fastSegment: Int64 = 8 << 20

    /// The length that a request tells, by itself or by the end of its content.
    private func length(
        _ declared: Int64?,
        told finish: Finish,
        at offset: Int64,
        _ contentLength: Int64?
    ) throws(UploadError) -> Int64? {
        guard finish == .told(isLast: true), let contentLength else { return declared }
        let (total, overflow) = offset.addingReportingOverflow(contentLength)
        guard !overflow, declared == nil || declared == total else {
            throw UploadError(
                .lengthConflict(length: declared),
                "The content ends at \(total) bytes, which is not the declared length."
            )
        }
        return total
    }

    /// Fixes the length of an upload that has none; the same length may be told again.
    private func declare(
        _ length: Int64,
        for upload: Upload,
        _ contentLength: Int64?
    ) async throws(UploadError) -> Upload {
        if let known = upload.length {
            guard known == length else {
                throw UploadError(
                    .lengthConflict(length: known),
                    "The upload has a length of \(known) bytes, which can not be changed to \(length)."
                )
            }
            return upload
        }
        guard length >= upload.offset else {
            throw UploadError(
                .lengthConflict(length: nil),
                "The upload has \(upload.offset) bytes already, so its length can not be \(length)."
            )
        }
        try check(length: length, limit: mostBytes(of: upload))
        var declared = upload
        declared.length = length
        declared.reservedBytes = length
        // Before it is recorded: a request that can not be right must leave nothing behind.
        _ = try room(in: declared, for: contentLength)
        declared.updatedAt = now
        let terms = try await terms(for: upload.accounts)
        let isSet = try await state.setLength(of: upload.id, to: length, updatedAt: declared.updatedAt, under: terms)
        guard isSet else { throw Self.gone }
        return declared
    }

    func mostBytes(of upload: Upload) -> Int64 { min(limits.maximumBytes, upload.maximumBytes ?? .max) }

    /// Bytes that the upload still takes.
    private func room(in upload: Upload, for contentLength: Int64?) throws(UploadError) -> Int64 {
        let room = (upload.length ?? mostBytes(of: upload)) - upload.offset
        if let contentLength, contentLength > room { throw excess(in: upload) }
        return max(0, room)
    }

    private func excess(in upload: Upload) -> UploadError {
        guard let length = upload.length else {
            let limit = mostBytes(of: upload)
            return UploadError(.tooLarge(limit: limit), "The upload may have at most \(limit) bytes.")
        }
        return UploadError(.lengthExceeded(length: length), "The body goes beyond the \(length) bytes of the upload.")
    }

    /// Records what the storage did, then says how it ended.
    private func conclude(
        _ before: Upload,
        _ report: AppendReport,
        _ source: any ByteSource,
        _ finish: Finish,
        _ digest: ExpectedDigest?
    ) async throws(UploadError) -> Upload {
        var upload = before
        upload.offset += report.stored
        if report.stored > 0 {
            upload.updatedAt = now
            observer.observe(.appended(upload, bytes: report.stored))
            if hooks.wants(.progress) { await recordProgress(of: upload) }
        }
        if case .sourceFailed(let failure) = report.end {
            observer.observe(.brokenOff(upload.id, failure, bytes: report.stored))
        }
        let isFull = finish == .whenFull && upload.offset == upload.length
        if isFull { upload = try await complete(upload, knowing: digest) }
        if upload.state == .open, report.stored > 0 { upload.expiresAt = await renewedExpiry(of: upload) }
        switch report.end {
        case .endOfSource: break
        case .limitReached: try await refuseMore(of: source, than: upload)
        case .sourceFailed(.interrupted):
            guard let answer = appends.stopAnswer(of: upload.id) else { throw UploadError(SourceFailure.interrupted) }
            RequestContext.current?.refuse(with: answer)
            throw UploadError(.rejected, "The server stopped the upload; create a new one if that makes sense.")
        case .sourceFailed(let failure): throw UploadError(failure)
        case .failed(let error): throw error
        }
        // Open still though it was full: the storage takes its time.
        if isFull { return upload }
        if upload.completesWhenFull, upload.offset == upload.length {
            return try await complete(upload, knowing: digest)
        }
        guard finish == .told(isLast: true), upload.state == .open else { return upload }
        if let length = upload.length, length != upload.offset {
            throw UploadError(
                .lengthConflict(length: length),
                "The content was to end the upload at \(length) bytes, and ended it at \(upload.offset)."
            )
        }
        return try await complete(upload, knowing: digest)
    }

    private static let alreadyComplete = UploadError(.notOpen, "The upload is complete and takes no more bytes.")

    /// Refuses a body without announced length that goes on when the upload has all its bytes.
    private func refuseMore(of source: any ByteSource, than upload: Upload) async throws(UploadError) {
        guard source.remaining != 0 else { return }
        do throws(SourceFailure) {
            guard try await source.next(maximum: 1) != nil else { return }
        } catch {
            throw UploadError(error)
        }
        throw excess(in: upload)
    }

    /// Moves the expiry on, unless it would move so little that a transaction is not worth it.
    ///
    /// The least step is 1 % of the lifetime, but at most 60 s: lifetime 24 h → 60 s; 10 min → 6 s; 10 s → 0.1 s.
    func renewedExpiry(of upload: Upload) async -> Date? {
        guard let lifetime = limits.lifetime else { return upload.expiresAt }
        let renewed = now.addingTimeInterval(lifetime).wholeMilliseconds
        if let expiresAt = upload.expiresAt, renewed.timeIntervalSince(expiresAt) <= min(lifetime / 100, 60) {
            return expiresAt
        }
        do throws(UploadError) {
            try await state.setExpiry(of: upload.id, to: renewed, updatedAt: upload.updatedAt)
            return renewed
        } catch {
            // The bytes are stored, which is what the client was promised; the next append tries again.
            report(error, of: upload.id)
            return upload.expiresAt
        }
    }
}
