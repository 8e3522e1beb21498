internal import UploadModel

extension UploadLifecycle {
    /// The length of a new final upload, from its parts, and what it must reserve when it is created.
    ///
    /// One whose parts are complete is joined at once; it reserves then what it needs, so that a quota refuses it before
    /// there is anything to count. Others reserve when their last part is complete.
    ///
    /// - Parameters:
    ///   - parts: The parts in order.
    ///   - subject: Whose the final upload is; `nil` if it is of no user, and may have parts of any.
    /// - Returns: The length in bytes, `nil` if a part has no length yet; and the bytes that its parts do not hold.
    /// - Throws: `.invalidRequest` if a part is not a partial upload, `.forbidden` if it is of another user, whose bytes the
    ///   URL of a part does not let read, `.notFound`, `.gone`, `.tooLarge`.
    func sizeOfFinal(_ parts: [UploadID], for subject: String?)
        async throws(UploadError) -> (length: Int64?, reserved: Int64)
    {
        guard !parts.isEmpty else {
            throw UploadError(.invalidRequest, "A final upload needs at least one partial upload.")
        }
        let known = try await state.uploads(parts)
        for (index, id) in parts.enumerated() {
            guard let part = known[id] else {
                throw UploadError(.notFound, "Part \(index + 1) of the final upload does not exist.")
            }
            guard part.concatenation?.role == .partial else {
                throw UploadError(.invalidRequest, "Part \(index + 1) of the final upload is not a partial upload.")
            }
            guard subject == nil || part.subject.isSameSubject(as: subject) else {
                throw UploadError(
                    .forbidden(scope: nil),
                    "Part \(index + 1) of the final upload is of another user; join only what was uploaded for the same one."
                )
            }
            guard part.state == .open || part.state == .completed, !isOver(part) else {
                throw UploadError(.gone, "Part \(index + 1) of the final upload has expired or was terminated.")
            }
        }
        let length = try ledger.totalLength(of: parts.map { known[$0]?.length })
        guard let length, known.values.allSatisfy({ $0.state == .completed }) else { return (length, 0) }
        return (length, UploadLedger.missing(length, heldBy: known.values))
    }

    /// Joins the parts of an open final upload if all are complete; resumes where a crash interrupted it.
    ///
    /// Requires the lease of the final upload. Parts need none: complete ones do not change.
    ///
    /// - Parameters:
    ///   - upload: The final upload, open.
    ///   - parts: The parts in order.
    /// - Returns: The completed upload; or the open one without bytes, and with its length once all parts have one.
    /// - Throws: `.gone` if a part is gone, which ends the final upload too; `.quotaExceeded`, `.storageFull`,
    ///   `.storageFailure`.
    func assembled(_ upload: Upload, of parts: [UploadID]) async throws(UploadError) -> Upload {
        let known = try await state.uploads(parts)
        var lengths: [Int64?] = []
        var isReady = true
        for id in parts {
            guard let part = known[id], part.state == .open || part.state == .completed, !isOver(part) else {
                try await end(upload, as: .terminated)
                throw UploadError.uploadEnded
            }
            lengths.append(part.length)
            if part.state == .open { isReady = false }
        }
        var upload = upload
        let length = try ledger.totalLength(of: lengths)
        upload.length = length
        guard isReady, let length else {
            upload.offset = 0
            return upload
        }
        // Parts may have got their lengths after the final upload was created.
        try ledger.check(length: length, limit: ledger.mostBytes(of: upload))
        upload = try await ledger.reserve(length, heldBy: Set(parts).compactMap { known[$0] }, for: upload)
        upload.offset = try await bytesOf(upload.id) { id throws(UploadError) in
            try await storage.durableLength(of: id)
        }
        var start: Int64 = 0
        for (id, partLength) in zip(parts, lengths) {
            let end = start + (partLength ?? 0)
            if upload.offset < end {
                let range = upload.offset - start..<end - start
                try await bytesOf(id) { id throws(UploadError) in
                    try await StorageUser.storing(for: upload.subject) { () async throws(UploadError) in
                        try await storage.copy(range, of: id, to: upload.id, at: upload.offset)
                    }
                }
                upload.offset = end
            }
            start = end
        }
        guard upload.offset == length else {
            throw UploadError(.storageFailure, "The storage holds more bytes than this upload has.")
        }
        return try await complete(upload)
    }

    /// Completes final uploads that waited for a partial one.
    ///
    /// A failure is reported; the next request for the final upload or the sweep tries again.
    func completeFinals(waitingFor partial: Upload) async {
        guard partial.state == .completed, partial.concatenation?.role == .partial else { return }
        do throws(UploadError) {
            for id in try await state.openFinals(of: partial.id) {
                do throws(UploadError) {
                    _ = try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) -> Upload in
                        try await reconciled(id)
                    }
                } catch {
                    context.report(error, of: id)
                }
            }
        } catch {
            context.report(error, of: partial.id)
        }
    }
}
