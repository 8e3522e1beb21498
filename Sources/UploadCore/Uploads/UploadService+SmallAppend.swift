internal import Bytes
internal import Digests
internal import UploadModel

/// Small contents that have arrived when they are appended: one look at the record, one call of the storage.
///
/// The result is the same as that of `append`; whatever is not usual goes that way.
extension UploadService {
    /// Largest content in bytes that is appended at once.
    private static let largestSmall: Int64 = 64 << 10

    /// Appends all bytes of `source` at once.
    ///
    /// - Parameters: See `append`; `source` is replaced by a source with the same bytes if it was pulled in vain.
    /// - Returns: The upload with its new offset; `nil`, with nothing changed, if the content has to be appended as it arrives, or
    ///   something else than an append has to be done or refused first.
    /// - Throws: The errors of `append`.
    func appendSmall(
        to id: UploadID,
        at offset: Int64,
        _ contentLength: Int64?,
        _ finish: Finish,
        expecting digest: DigestExpectation?,
        upTo most: Int64?,
        from source: inout any ByteSource
    ) async throws(UploadError) -> Upload? {
        guard let storage = storage.smallAppendStorage, let contentLength, source.remaining == contentLength,
            (1...Self.largestSmall).contains(contentLength), offset >= 0, finish != .explicit(isLast: true)
        else { return nil }
        let expected: ExpectedDigest?
        switch digest {
        case nil: expected = nil
        case .known(let digest): expected = digest
        case .atEnd: return nil
        }
        guard await source.arrives(Int(contentLength)), wholeContents.take(contentLength) else { return nil }
        defer { wholeContents.giveBack(contentLength) }
        var current = source
        defer { source = current }
        let result = try await leases.withLeaseIfFree(on: id, interrupter: source.interrupter, isNoted: false) {
            () async throws(UploadError) -> Upload? in
            let known = lifecycle.recents.begin(id)
            var kept: Upload?
            defer { lifecycle.recents.end(id, with: kept) }
            guard let upload = try await openUpload(id, known, at: offset), room(in: upload) >= contentLength else {
                return nil
            }
            try RequestMeter.identify(key: upload.issuer, subject: upload.subject)
            let effectiveLimits = try await ledger.effectiveLimits(for: upload.accounts, upTo: most)
            guard RequestMeter.current?.delays(contentLength) != true, !effectiveLimits.checksContent,
                upload.length != nil || !effectiveLimits.limitsBytes
            else { return nil }
            let (bytes, failure) = await current.gather(Int(contentLength))
            guard bytes.count == contentLength, failure == nil,
                expected.map({ constantTimeEquals(Digest.hash(bytes, $0.algorithm), $0.value) }) ?? true
            else {
                current = PrefixedSource(bytes, before: current, failure)
                return nil
            }
            let end = offset + contentLength
            let isLast = end == upload.length && (finish == .whenFull || upload.completesWhenFull)
            let report = await storage.append(bytes, to: id, at: offset, isLast: isLast)
            if case .failed(let error) = report.end, case .offsetMismatch = error.code {
                current = PrefixedSource(bytes, before: current)
                return nil
            }
            // Not before: others rely on the offset, which the storage has checked only now.
            appends.begin(upload)
            defer { appends.end(id) }
            let outcome = try await conclude(
                upload,
                report,
                current,
                finish,
                digestOfAll(upload, digest, report)
            )
            kept = outcome
            return outcome
        }
        return result ?? nil
    }

    /// The upload, if its record says that bytes can be appended at this offset.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - known: Its record with its offset, if it is known.
    ///   - offset: Where the content begins.
    /// - Returns: With `offset`, which the storage checks; `nil` if anything has to be done or refused first.
    /// - Throws: `.storageFailure`.
    private func openUpload(
        _ id: UploadID,
        _ known: Upload?,
        at offset: Int64
    ) async throws(UploadError) -> Upload? {
        if let known { return known.offset == offset && !lifecycle.isOver(known) ? known : nil }
        guard var upload = try await state.upload(id), RecentUploads.takesAppends(upload), !lifecycle.isOver(upload)
        else { return nil }
        upload.offset = offset
        return upload
    }

    private func room(in upload: Upload) -> Int64 {
        (upload.length ?? ledger.mostBytes(of: upload)) - upload.offset
    }
}
