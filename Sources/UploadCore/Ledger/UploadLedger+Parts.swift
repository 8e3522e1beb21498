extension UploadLedger {
    /// An admitted part that is being received; counted until it is recorded or given up.
    struct ComingPart: Sendable {
        let upload: UploadID
        let number: Int
        /// The part stored under the same number; kept until this one is recorded.
        let stored: PartRecord?
        fileprivate let ticket: UInt64
    }

    /// Admits a part if there is room for it, and reserves space where bytes are limited.
    ///
    /// The size of the other parts is checked only where it can matter, because the state reads each of them. Joining
    /// checks the total again: `totalSize`.
    ///
    /// - Parameters:
    ///   - size: Bytes.
    ///   - number: See `PartRecord.numbers`.
    ///   - upload: Open, and takes parts.
    /// - Returns: The part, which must be recorded or given up.
    /// - Throws: `.invalidRequest`, `.tooLarge`, `.quotaExceeded`, `.gone`, `.busy`, `.storageFull`, `.storageFailure`.
    func admit(_ size: Int64, as number: Int, of upload: Upload) async throws(UploadError) -> ComingPart {
        let limit = mostBytes(of: upload)
        guard size >= 0 else { throw UploadError(.invalidRequest, "The size of a part must not be negative.") }
        guard size <= limit else { throw UploadError.tooLarge(limit) }
        let effectiveLimits = try await effectiveLimits(for: upload.accounts)
        return try await turns.withTurn(at: upload.id) { () async throws(UploadError) -> ComingPart in
            let before = try await state.objectPart(number, of: upload.id)
            let part = ComingParts.Part(number: number, size: size, stored: before?.size ?? 0)
            if effectiveLimits.limitsBytes || upload.maximumBytes != nil {
                let stored = try await state.partBytes(of: upload.id)
                guard let wanted = comingParts.total(of: upload.id, having: stored, with: part), wanted <= limit else {
                    throw UploadError.tooLarge(limit)
                }
                if effectiveLimits.limitsBytes, let recorded = try await state.upload(upload.id),
                    wanted > recorded.reservedBytes
                {
                    _ = try await reserve(wanted, for: recorded, under: effectiveLimits, isWhole: true)
                }
            }
            let ticket = comingParts.add(part, of: upload.id)
            return ComingPart(upload: upload.id, number: number, stored: before, ticket: ticket)
        }
    }

    /// Records a received part; in the same turn, it stops counting as being received.
    ///
    /// - Returns: The part that it replaces, if any.
    /// - Throws: The errors of `PartRecords.putPart`; `.busy`. The part then still counts as being received.
    func record(_ part: PartRecord, _ coming: ComingPart) async throws(UploadError) -> PartRecord? {
        try await turns.withTurn(at: coming.upload) { () async throws(UploadError) -> PartRecord? in
            let replaced = try await state.putPart(part, of: coming.upload)
            comingParts.remove(coming.ticket, of: coming.upload, isStored: true)
            return replaced
        }
    }

    /// Stops counting a part that will not be recorded; has no effect after `record`.
    func giveUp(_ coming: ComingPart) { comingParts.remove(coming.ticket, of: coming.upload, isStored: false) }

    /// Total size in bytes of the parts to be joined.
    ///
    /// - Throws: `.tooLarge` if it exceeds the upload's limit.
    func totalSize(of parts: [PartRecord], in upload: Upload) throws(UploadError) -> Int64 {
        let limit = mostBytes(of: upload)
        guard let size = Int64.sum(parts.map(\.size)), size <= limit else { throw UploadError.tooLarge(limit) }
        return size
    }

    /// Total length in bytes of the parts of a final upload.
    ///
    /// - Returns: `nil` if a part has no length yet.
    /// - Throws: `.tooLarge` if the sum does not fit.
    func totalLength(of lengths: [Int64?]) throws(UploadError) -> Int64? {
        let known = lengths.compactMap { $0 }
        guard let sum = Int64.sum(known) else {
            let limit = limits.maximumBytes
            throw UploadError(.tooLarge(limit: limit), "The parts together have more than \(limit) bytes.")
        }
        return known.count == lengths.count ? sum : nil
    }

    /// Reserves space for a final upload, beyond what its parts already hold.
    ///
    /// Requires its lease, and that all parts are complete.
    ///
    /// - Parameters:
    ///   - length: Total length of all parts in bytes.
    ///   - parts: Each part once; their reservations pass to the final upload when it completes.
    ///   - upload: The final upload, open.
    /// - Returns: The upload with its new reservation.
    /// - Throws: The errors of `reserve`.
    func reserve(_ length: Int64, heldBy parts: some Sequence<Upload>, for upload: Upload)
        async throws(UploadError) -> Upload
    {
        let held = parts.reduce(Int64(0)) { $0.adding($1.reservedBytes) }
        let missing = max(0, length - held)
        if missing == upload.reservedBytes { return upload }
        let effectiveLimits = try await effectiveLimits(for: upload.accounts)
        return try await reserve(missing, for: upload, under: effectiveLimits, isWhole: true)
    }
}
