internal import UploadModel

extension UploadLedger {
    /// An admitted part that is being received; counted until it is recorded or given up.
    struct ComingPart: Sendable {
        let upload: UploadID
        let number: Int
        /// The part stored under the same number; kept until this one is recorded.
        let stored: PartRecord?
        /// Whether a limit applied when the part was admitted.
        fileprivate let isLimited: Bool
        fileprivate let ticket: UInt64
    }

    /// Admits a part if there is room for it, and reserves space where bytes are limited.
    ///
    /// Where nothing is limited, nothing is read and no turn is taken. Otherwise the size of all parts is known from the
    /// check before, and read from the state only for the first one: see `ComingParts.total`. Joining checks the total
    /// again: `totalSize`.
    ///
    /// - Parameters:
    ///   - size: Bytes.
    ///   - number: See `PartRecord.numbers`.
    ///   - upload: Open, and takes parts.
    ///   - stored: Its part with this number, as recorded with it.
    /// - Returns: The part, which must be recorded or given up.
    /// - Throws: `.invalidRequest`, `.tooLarge`, `.quotaExceeded`, `.gone`, `.busy`, `.storageFull`, `.storageFailure`.
    func admit(
        _ size: Int64,
        as number: Int,
        of upload: Upload,
        replacing stored: PartRecord?
    ) async throws(UploadError) -> ComingPart {
        let limit = mostBytes(of: upload)
        guard size >= 0 else { throw UploadError(.invalidRequest, "The size of a part must not be negative.") }
        guard size <= limit else { throw UploadError.tooLarge(limit) }
        let id = upload.id
        let effectiveLimits = try await effectiveLimits(for: upload.accounts)
        guard effectiveLimits.limitsBytes || upload.maximumBytes != nil else {
            let part = ComingParts.Part(number: number, size: size, stored: stored?.size ?? 0)
            return ComingPart(
                upload: id,
                number: number,
                stored: stored,
                isLimited: false,
                ticket: comingParts.add(part, of: id)
            )
        }
        return try await turns.withTurn(at: id) { () async throws(UploadError) -> ComingPart in
            let (recorded, before, total) = try await total(of: id, with: size, as: number)
            guard let wanted = total, wanted <= limit else { throw UploadError.tooLarge(limit) }
            if effectiveLimits.limitsBytes, wanted > recorded.reservedBytes {
                _ = try await reserve(wanted, for: recorded, under: effectiveLimits, isWhole: true)
            }
            let part = ComingParts.Part(number: number, size: size, stored: before?.size ?? 0)
            let ticket = comingParts.add(part, of: id)
            return ComingPart(upload: id, number: number, stored: before, isLimited: true, ticket: ticket)
        }
    }

    /// Admits more bytes of a part whose size only its end reveals, in steps.
    ///
    /// - Parameters:
    ///   - count: Bytes that have arrived.
    ///   - coming: The part.
    ///   - upload: Its upload, as recorded when the part was admitted.
    /// - Returns: As many bytes or more; those that are not needed stay reserved until the upload is completed or ends.
    /// - Throws: As `admit(_:as:of:replacing:)`.
    func admit(_ count: Int64, more coming: ComingPart, of upload: Upload) async throws(UploadError) -> Int64 {
        let limit = mostBytes(of: upload)
        guard count <= limit else { throw UploadError.tooLarge(limit) }
        let wanted = min(count.adding(Self.partStep), limit)
        guard coming.isLimited else {
            comingParts.extend(coming.ticket, of: coming.upload, to: wanted)
            return wanted
        }
        let effectiveLimits = try await effectiveLimits(for: upload.accounts)
        return try await turns.withTurn(at: coming.upload) { () async throws(UploadError) -> Int64 in
            func take(_ bytes: Int64) async throws(UploadError) {
                let (recorded, _, total) = try await total(of: coming.upload, with: bytes, as: coming.number)
                guard let total, total <= limit else { throw UploadError.tooLarge(limit) }
                if effectiveLimits.limitsBytes, total > recorded.reservedBytes {
                    _ = try await reserve(total, for: recorded, under: effectiveLimits, isWhole: true)
                }
                comingParts.extend(coming.ticket, of: coming.upload, to: bytes)
            }
            do throws(UploadError) {
                try await take(wanted)
                return wanted
            } catch {
                switch error.code {
                case .tooLarge, .quotaExceeded: break
                default: throw error
                }
            }
            // Where little is left, just what is needed.
            try await take(count)
            return count
        }
    }

    /// Bytes per step: each costs a turn and, with limits, a transaction.
    private static let partStep: Int64 = 4 << 20

    /// Counts an upload with all its parts, stored and in progress, and one more; call it during a turn.
    ///
    /// The state reads each part to know the sum, which would cost n² for n parts. So the sum is kept from one count to
    /// the next, unless other processes can add parts.
    ///
    /// - Returns: The upload, its stored part with this number, and bytes; no bytes if the sum does not fit.
    private func total(
        of id: UploadID,
        with size: Int64,
        as number: Int
    ) async throws(UploadError) -> (Upload, PartRecord?, Int64?) {
        defer { comingParts.endCounting(of: id) }
        while true {
            await comingParts.beginCounting(of: id)
            guard let (recorded, before) = try await state.upload(id, withPart: number) else {
                throw UploadError.uploadEnded
            }
            let part = ComingParts.Part(number: number, size: size, stored: before?.size ?? 0)
            let known = comingParts.storedBytes(of: id)
            let stored = if let known { known } else { try await state.partBytes(of: id) }
            switch comingParts.total(of: id, having: stored, isKept: !state.sharesParts, with: part) {
            case .bytes(let bytes): return (recorded, before, bytes)
            case .tooMany: return (recorded, before, nil)
            // Only parts that were admitted before a limit applied are recorded without a turn, so this ends.
            case .outdated: continue
            }
        }
    }

    /// Records a received part; from then on, it does not count as being received.
    ///
    /// Where a limit applies, this takes a turn: between recording and counting no other part is admitted.
    ///
    /// - Returns: The part that it replaces, if any.
    /// - Throws: The errors of `PartRecords.putPart`; `.busy`. The part then still counts as being received.
    func record(_ part: PartRecord, _ coming: ComingPart) async throws(UploadError) -> PartRecord? {
        guard coming.isLimited else {
            comingParts.beginRecording(of: coming.upload)
            defer { comingParts.endRecording(of: coming.upload) }
            return try await recordCounted(part, coming)
        }
        return try await turns.withTurn(at: coming.upload) { () async throws(UploadError) -> PartRecord? in
            try await recordCounted(part, coming)
        }
    }

    private func recordCounted(_ part: PartRecord, _ coming: ComingPart) async throws(UploadError) -> PartRecord? {
        let replaced: PartRecord?
        do throws(UploadError) {
            replaced = try await state.putPart(part, of: coming.upload)
        } catch {
            // It may have been recorded nevertheless.
            comingParts.forgetStoredBytes(of: coming.upload)
            throw error
        }
        let growth = part.size - (replaced?.size ?? 0)
        comingParts.remove(coming.ticket, of: coming.upload, storing: (part.size, growth))
        return replaced
    }

    /// Stops counting a part that will not be recorded; has no effect after `record`.
    func giveUp(_ coming: ComingPart) { comingParts.remove(coming.ticket, of: coming.upload, storing: nil) }

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
        let missing = Self.missing(length, heldBy: parts)
        if missing == upload.reservedBytes { return upload }
        let effectiveLimits = try await effectiveLimits(for: upload.accounts)
        return try await reserve(missing, for: upload, under: effectiveLimits, isWhole: true)
    }

    /// Bytes of a final upload that its parts do not hold.
    ///
    /// - Parameters:
    ///   - length: Its length.
    ///   - parts: Each part once.
    /// - Returns: What the final upload must reserve itself.
    static func missing(_ length: Int64, heldBy parts: some Sequence<Upload>) -> Int64 {
        max(0, length - parts.reduce(Int64(0)) { $0.adding($1.reservedBytes) })
    }
}
