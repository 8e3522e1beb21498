package import Bytes
internal import Foundation
package import UploadModel

extension UploadService {
    /// Appends the bytes of `source`; takes over from a running append to the same upload.
    ///
    /// Whatever is thrown, bytes already received are kept, except where a digest makes them unusable.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - offset: Bytes already stored, zero-based.
    ///   - contentLength: Announced number of bytes in `source`, if any.
    ///   - length: The final size in bytes, for an upload created without one; recorded before any byte is read, and
    ///     kept whatever happens to the bytes.
    ///   - finish: Whether the upload is complete afterwards.
    ///   - digest: Expected digest of these bytes; if it does not match, or the source fails, none of them is kept.
    ///   - most: Bytes that the upload's subject may have stored in all, besides its policy; see `Grant.storedBytes`.
    ///   - source: Pulled until it ends or the upload has all its bytes.
    ///   - progress: Called every few seconds while bytes arrive, with an upload whose bytes are as durable as those of
    ///     the result. Not called if a digest is expected.
    /// - Returns: The upload with its new offset, as durable as the settings require.
    /// - Throws: `.notFound`, `.gone`, `.notOpen` for a final upload (and with `explicit` for a complete one),
    ///   `.offsetMismatch`, `.lengthConflict` and `.tooLarge` for an impossible length, `.lengthExceeded` (before a
    ///   byte is read if `contentLength` shows it; otherwise after the bytes that fit are stored, which with `whenFull`
    ///   complete the upload), `.checksumMismatch`, `.digestMismatch` and `.contentTypeRefused` (both end the upload),
    ///   `.quotaExceeded`, `.rejected` if the app stopped it, `.storageFull`, `.storageFailure`, `.busy`, and for a
    ///   failed source `.disconnected`, `.interrupted`, `.timedOut`, `.unavailable`, `.invalidRequest` or `.tooLarge`.
    package func append(
        to id: UploadID,
        at offset: Int64,
        contentLength: Int64?,
        declaring length: Int64? = nil,
        finish: Finish = .whenFull,
        expecting digest: DigestExpectation?,
        upTo most: Int64? = nil,
        from source: any ByteSource,
        progress: ((Upload) async -> Void)? = nil
    ) async throws(UploadError) -> Upload {
        try await context.reporting(id) { () async throws(UploadError) -> Upload in
            try context.checkWritable()
            var source = source
            if length == nil,
                let upload = try await appendSmall(
                    to: id,
                    at: offset,
                    contentLength,
                    finish,
                    expecting: digest,
                    upTo: most,
                    from: &source
                )
            {
                await lifecycle.completeFinals(waitingFor: upload)
                return upload
            }
            let spared = try await sparing(writerOf: id, at: offset)
            let upload = try await leases.withLease(on: id, interrupter: source.interrupter, sparing: spared) {
                () async throws(UploadError) -> Upload in
                var upload = try await lifecycle.reconciled(id, finish)
                try RequestMeter.identify(key: upload.issuer, subject: upload.subject)
                guard upload.concatenation?.parts == nil else { throw UploadError.finalUpload }
                guard !upload.takesParts else { throw UploadError.partsOnly }
                guard upload.offset == offset else {
                    throw UploadError(
                        .offsetMismatch(expected: upload.offset),
                        "The upload has \(upload.offset) bytes; continue from there."
                    )
                }
                if upload.state == .completed, finish != .whenFull { throw Self.alreadyComplete }
                if let length = try self.length(length, by: finish, at: offset, contentLength) {
                    upload = try await ledger.declare(length, for: upload, contentLength, upTo: most)
                }
                let room = try ledger.room(in: upload, for: contentLength)
                guard upload.state == .open else {
                    try await refuseMore(of: source, than: upload)
                    return upload
                }
                let effectiveLimits = try await ledger.effectiveLimits(for: upload.accounts, upTo: most)
                if upload.length == nil, effectiveLimits.limitsBytes, let contentLength {
                    let wanted = upload.offset + contentLength
                    upload = try await ledger.reserve(wanted, for: upload, under: effectiveLimits, isWhole: true)
                }
                let checked = try await lifecycle.checkingContent(of: source, for: upload, under: effectiveLimits)
                appends.begin(upload)
                defer { appends.end(id) }
                let report =
                    if upload.length == nil, effectiveLimits.limitsBytes, contentLength == nil {
                        try await appendReserving(to: upload, room, checked, digest, effectiveLimits, progress)
                    } else {
                        await append(to: upload, limit: room, from: checked, expecting: digest, progress)
                    }
                return try await conclude(upload, report, checked, finish, digestOfAll(upload, digest, report))
            }
            await lifecycle.completeFinals(waitingFor: upload)
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
        return await StorageUser.storing(for: upload.subject) {
            await storage.append(
                to: upload.id,
                at: upload.offset,
                from: source,
                limit: limit,
                of: upload.length,
                expecting: digest,
                confirming: confirming(progress, upload)
            )
        }
    }

    /// Reports to `progress` what the storage confirms.
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

    /// Appends to an upload without a length, from content without a length; reserves space before it reads.
    private func appendReserving(
        to upload: Upload,
        _ room: Int64,
        _ source: any ByteSource,
        _ digest: DigestExpectation?,
        _ effectiveLimits: EffectiveLimits,
        _ progress: ((Upload) async -> Void)?
    ) async throws(UploadError) -> AppendReport {
        var current = upload
        var stored: Int64 = 0
        while true {
            do throws(UploadError) {
                // Reserve everything at once if a digest is expected: such an append cannot be continued.
                current = try await ledger.reserveStep(
                    of: room - stored,
                    for: current,
                    under: effectiveLimits,
                    isWhole: digest != nil
                )
            } catch {
                if case .quotaExceeded = error.code, stored > 0 || upload.offset > 0 {
                    // The upload may have exactly all its bytes now.
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
                // Return what was not needed.
                await ledger.giveBack(current, under: effectiveLimits)
                return AppendReport(stored: stored, end: report.end)
            }
        }
    }

    /// Appends in segments of a few seconds; each is as durable as the settings require before `progress` is called.
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

    /// Seconds: frequent enough for a progress bar, rare enough for a disk that syncs each time.
    private static let progressInterval = 2.0
    /// Bytes in a segment from which a source counts as fast.
    private static let fastSegment: Int64 = 8 << 20

    /// The length that a request declares, as a number or by the end of its content.
    private func length(
        _ declared: Int64?,
        by finish: Finish,
        at offset: Int64,
        _ contentLength: Int64?
    ) throws(UploadError) -> Int64? {
        guard finish == .explicit(isLast: true), let contentLength else { return declared }
        let (total, overflow) = offset.addingReportingOverflow(contentLength)
        guard !overflow, declared == nil || declared == total else {
            throw UploadError(
                .lengthConflict(length: declared),
                "The content ends at \(total) bytes, which is not the declared length."
            )
        }
        return total
    }

    /// Records what the storage did, then returns or throws the outcome.
    func conclude(
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
            context.observer.observe(.appended(upload, bytes: report.stored))
            if hooks.wants(.progress) { await events.recordProgress(of: upload) }
        }
        if case .sourceFailed(let failure) = report.end {
            context.observer.observe(.brokenOff(upload.id, failure, bytes: report.stored))
        }
        let isFull = finish == .whenFull && upload.offset == upload.length
        if isFull {
            upload = try await lifecycle.complete(upload, knowing: digest, isSynchronized: report.isSynchronized)
        }
        if upload.state == .open, report.stored > 0 { upload.expiresAt = await lifecycle.renewedExpiry(of: upload) }
        switch report.end {
        case .endOfSource: break
        case .limitReached: try await refuseMore(of: source, than: upload)
        case .sourceFailed(.interrupted):
            guard let response = appends.stopResponse(of: upload.id) else {
                throw UploadError(SourceFailure.interrupted)
            }
            RequestContext.current?.refuse(with: response)
            throw UploadError(.rejected, "The server stopped the upload; create a new one if that makes sense.")
        case .sourceFailed(let failure): throw UploadError(failure)
        case .failed(let error): throw error
        }
        // Full but still open: the storage is still finishing it.
        if isFull { return upload }
        if upload.completesWhenFull, upload.offset == upload.length {
            return try await lifecycle.complete(upload, knowing: digest, isSynchronized: report.isSynchronized)
        }
        guard finish == .explicit(isLast: true), upload.state == .open else { return upload }
        if let length = upload.length, length != upload.offset {
            throw UploadError(
                .lengthConflict(length: length),
                "The content must end the upload at \(length) bytes, but ended at \(upload.offset)."
            )
        }
        return try await lifecycle.complete(upload, knowing: digest)
    }

    private static let alreadyComplete = UploadError(.notOpen, "The upload is complete and takes no more bytes.")

    /// Throws if a body without an announced length continues after the upload has all its bytes.
    private func refuseMore(of source: any ByteSource, than upload: Upload) async throws(UploadError) {
        guard source.remaining != 0 else { return }
        do throws(SourceFailure) {
            guard try await source.next(maximum: 1) != nil else { return }
        } catch {
            throw UploadError(error)
        }
        throw ledger.excess(in: upload)
    }

    /// The digest of the whole upload that an append has verified, if the appended bytes are the whole.
    func digestOfAll(_ upload: Upload, _ expectation: DigestExpectation?, _ report: AppendReport) -> ExpectedDigest? {
        guard upload.offset == 0, case .known(let digest)? = expectation else { return nil }
        switch report.end {
        case .endOfSource, .limitReached: return digest
        case .sourceFailed, .failed: return nil
        }
    }
}
