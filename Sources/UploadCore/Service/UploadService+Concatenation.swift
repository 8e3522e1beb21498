extension UploadService {
    /// What a final upload will have, as far as its parts tell.
    ///
    /// - Returns: Bytes; `nil` while a part has no length.
    /// - Throws: `.invalidRequest` for a part that is no partial upload, `.notFound`, `.gone`, `.tooLarge`.
    func lengthOfFinal(_ parts: [UploadID]) async throws(UploadError) -> Int64? {
        guard !parts.isEmpty else {
            throw UploadError(.invalidRequest, "A final upload needs at least one partial upload.")
        }
        let known = try await state.uploads(parts)
        for (index, id) in parts.enumerated() {
            guard let part = known[id] else {
                throw UploadError(.notFound, "Part \(index + 1) of the final upload does not exist.")
            }
            guard part.concatenation?.role == .partial else {
                throw UploadError(.invalidRequest, "Part \(index + 1) of the final upload is no partial upload.")
            }
            guard part.state == .open || part.state == .completed, !isOver(part) else {
                throw UploadError(.gone, "Part \(index + 1) of the final upload has expired or was terminated.")
            }
        }
        return try Self.sum(parts.map { known[$0]?.length }, limit: limits.maximumBytes)
    }

    private static func sum(_ lengths: [Int64?], limit: Int64) throws(UploadError) -> Int64? {
        let known = lengths.compactMap { $0 }
        guard let sum = Int64.sum(known) else {
            throw UploadError(.tooLarge(limit: limit), "The parts together have more than \(limit) bytes.")
        }
        return known.count == lengths.count ? sum : nil
    }

    /// Joins the parts of an open final upload, if all are complete; goes on where a crash has stopped it.
    ///
    /// To be called with the lease of the final upload. Parts need none: complete ones do not change.
    ///
    /// - Parameters:
    ///   - upload: Open.
    ///   - parts: In their order.
    /// - Returns: Completed, or open with no bytes, and with its length as soon as all parts have one.
    /// - Throws: `.gone` when a part is gone, and then the final upload is, too; `.quotaExceeded`, `.storageFull`,
    ///   `.storageFailure`.
    func assembled(_ upload: Upload, of parts: [UploadID]) async throws(UploadError) -> Upload {
        let known = try await state.uploads(parts)
        var lengths: [Int64?] = []
        var isReady = true
        for id in parts {
            guard let part = known[id], part.state == .open || part.state == .completed, !isOver(part) else {
                try await end(upload, as: .terminated)
                throw Self.gone
            }
            lengths.append(part.length)
            if part.state == .open { isReady = false }
        }
        var upload = upload
        let length = try Self.sum(lengths, limit: limits.maximumBytes)
        upload.length = length
        guard isReady, let length else {
            upload.offset = 0
            return upload
        }
        // Lengths of parts may have been told after the final upload was created.
        try check(length: length, limit: mostBytes(of: upload))
        // What the parts hold for it becomes its own when it is complete.
        let held = Set(parts).reduce(Int64(0)) { $0.adding(known[$1]?.reservedBytes ?? 0) }
        let missing = max(0, length - held)
        if missing != upload.reservedBytes {
            let terms = try await terms(for: upload.accounts)
            upload = try await reserve(missing, for: upload, under: terms, isWhole: true)
        }
        upload.offset = try await bytesOf(upload.id) { id throws(UploadError) in
            try await storage.durableLength(of: id)
        }
        var start: Int64 = 0
        for (id, partLength) in zip(parts, lengths) {
            let end = start + (partLength ?? 0)
            if upload.offset < end {
                let range = upload.offset - start..<end - start
                try await bytesOf(id) { id throws(UploadError) in
                    try await storage.copy(range, of: id, to: upload.id, at: upload.offset)
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

    /// Completes the final uploads that waited for a partial one; what fails is reported, and done by the next request for
    /// the final upload or by the sweep.
    func completeFinals(waitingFor partial: Upload) async {
        guard partial.state == .completed, partial.concatenation?.role == .partial else { return }
        do throws(UploadError) {
            for id in try await state.openFinals(of: partial.id) {
                do throws(UploadError) {
                    _ = try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) -> Upload in
                        try await settled(id)
                    }
                } catch {
                    report(error, of: id)
                }
            }
        } catch {
            report(error, of: partial.id)
        }
    }
}
