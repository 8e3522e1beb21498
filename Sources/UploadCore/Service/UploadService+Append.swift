package import Bytes
internal import Foundation

extension UploadService {
    /// Appends what `source` brings, taking over from a request that does the same.
    ///
    /// Whatever is thrown, bytes that came before are kept, except where a digest makes them unusable. An upload that has
    /// all its bytes afterwards is complete.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - offset: Bytes already stored, zero-based.
    ///   - contentLength: Bytes that `source` will bring, if that was announced.
    ///   - length: The final size in bytes, for an upload that was created without; it is recorded before a byte is read, and
    ///     stays whatever becomes of the bytes.
    ///   - digest: What these bytes must hash to; if they do not, or if the source fails, none of them is kept.
    ///   - source: Pulled until its end or until the upload is complete.
    /// - Returns: The upload with its new offset, durable as the settings ask.
    /// - Throws: `.notFound`, `.gone`, `.notOpen` for a final upload, `.offsetMismatch`, `.lengthConflict` and `.tooLarge` for a declared length that can
    ///   not be, `.lengthExceeded` (before a byte is read if `contentLength` tells;
    ///   else after the upload was completed with what it had room for), `.checksumMismatch`, `.storageFull`,
    ///   `.storageFailure`, `.busy`, and for a source that fails `.disconnected`, `.interrupted`, `.timedOut`,
    ///   `.unavailable`, `.invalidRequest` or `.tooLarge`.
    package func append(
        to id: UploadID,
        at offset: Int64,
        contentLength: Int64?,
        declaring length: Int64? = nil,
        expecting digest: ExpectedDigest?,
        from source: any ByteSource
    ) async throws(UploadError) -> Upload {
        try await reporting(id) { () async throws(UploadError) -> Upload in
            let upload = try await leases.withLease(on: id, interrupter: source.interrupter) {
                () async throws(UploadError) -> Upload in
                var upload = try await settled(id)
                guard upload.concatenation?.parts == nil else {
                    throw UploadError(.notOpen, "A final upload is made of its parts and takes no other bytes.")
                }
                guard upload.offset == offset else {
                    throw UploadError(
                        .offsetMismatch(expected: upload.offset),
                        "The upload has \(upload.offset) bytes; go on from there."
                    )
                }
                if let length { upload = try await declare(length, for: upload, contentLength) }
                let room = try self.room(in: upload, for: contentLength)
                guard upload.state == .open else {
                    try await refuseMore(of: source, than: upload)
                    return upload
                }
                let report = await storage.append(to: id, at: offset, from: source, limit: room, expecting: digest)
                return try await conclude(upload, report, source)
            }
            await completeFinals(waitingFor: upload)
            return upload
        }
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
        // Before it is recorded: a request that can not be right must leave nothing behind.
        _ = try room(in: declared, for: contentLength)
        declared.updatedAt = now
        guard try await state.setLength(of: upload.id, to: length, updatedAt: declared.updatedAt) else {
            throw Self.gone
        }
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
        _ source: any ByteSource
    ) async throws(UploadError) -> Upload {
        var upload = before
        upload.offset += report.stored
        if report.stored > 0 {
            upload.updatedAt = now
            observer.observe(.appended(upload, bytes: report.stored))
        }
        if case .sourceFailed(let failure) = report.end {
            observer.observe(.brokenOff(upload.id, failure, bytes: report.stored))
        }
        if upload.offset == upload.length {
            upload = try await complete(upload)
        } else if report.stored > 0 {
            upload.expiresAt = await renewedExpiry(of: upload)
        }
        switch report.end {
        case .endOfSource: break
        case .limitReached: try await refuseMore(of: source, than: upload)
        case .sourceFailed(let failure): throw UploadError(failure)
        case .failed(let error): throw error
        }
        return upload
    }

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
    private func renewedExpiry(of upload: Upload) async -> Date? {
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
