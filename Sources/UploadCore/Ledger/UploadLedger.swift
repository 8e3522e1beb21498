internal import Foundation
internal import UploadModel

/// Counts stored bytes and bytes in flight in one place.
///
/// Services call it before they receive bytes. Only the ledger calls the methods that record reservations
/// (`SpaceReservations`, `putPart`), so each byte counts once per limit:
///
/// | limit | stored | in flight |
/// |---|---|---|
/// | size of an upload that is appended to | its offset, read with the lease | what the append may still bring: `room` |
/// | size of an upload in parts | recorded parts | parts in progress; one that replaces a recorded part counts only by the difference |
/// | quota of an account | `Usage.storedBytes` | `Usage.reservedBytes`: what open uploads have and may still receive |
///
/// The state updates accounts in the transaction that changes an upload (`Accounting`, `EffectiveLimits.usage`),
/// because several nodes add to one account. A reservation is a total, not an increment: reserving the same bytes twice
/// counts them once. Parts in progress are counted on the node that receives them.
final class UploadLedger: Sendable {
    typealias Records = UploadRecords & SpaceReservations & PartRecords & AccountRecords

    let state: any Records
    /// Serialises changes of uploads in parts, and of metadata, so that a completion runs between two parts.
    let turns: TurnTable<UploadID>
    let comingParts = ComingParts()
    private let policies: PolicyCache
    let limits: UploadLimits
    private let clock: any WallClock

    init(
        state: any Records,
        policies: PolicyCache,
        turns: TurnTable<UploadID>,
        limits: UploadLimits,
        clock: any WallClock
    ) {
        self.state = state
        self.policies = policies
        self.turns = turns
        self.limits = limits
        self.clock = clock
    }

    // MARK: Limits

    /// The policies of accounts, and the current period.
    ///
    /// - Throws: `.storageFailure`.
    func effectiveLimits(for accounts: [Account]) async throws(UploadError) -> EffectiveLimits {
        EffectiveLimits(
            policies: try await policies.policies(of: accounts),
            period: QuotaPeriod(around: clock.now.wholeMilliseconds, length: limits.quotaPeriod)
        )
    }

    /// The limits of what a grant admits: those of its accounts, and its own.
    ///
    /// - Throws: `.storageFailure`.
    func effectiveLimits(for grant: Grant) async throws(UploadError) -> EffectiveLimits {
        try await effectiveLimits(for: grant.accounts, upTo: grant.storedBytes)
    }

    /// The limits of an upload's accounts, and of what a grant allows its subject.
    ///
    /// - Parameters:
    ///   - accounts: Of the upload.
    ///   - most: Bytes that the subject may have stored in all; `nil` for no further limit.
    /// - Returns: The limits.
    /// - Throws: `.storageFailure`.
    func effectiveLimits(for accounts: [Account], upTo most: Int64?) async throws(UploadError) -> EffectiveLimits {
        var effectiveLimits = try await effectiveLimits(for: accounts)
        guard let most, let account = accounts.first(where: { $0.kind == .subject }) else { return effectiveLimits }
        var policy = effectiveLimits.policies[account] ?? Policy()
        policy.storedBytes = min(most, policy.storedBytes ?? most)
        effectiveLimits.policies[account] = policy
        return effectiveLimits
    }

    /// Checks that the quotas of accounts have room for new uploads together, without reserving anything.
    ///
    /// - Parameters:
    ///   - uploads: All of these accounts.
    ///   - accounts: The accounts of each upload.
    ///   - effectiveLimits: Their limits.
    /// - Throws: `.quotaExceeded`, `.tooLarge`.
    func checkQuotas(
        of uploads: [Upload],
        for accounts: [Account],
        under effectiveLimits: EffectiveLimits
    ) async throws(UploadError) {
        let accounts = accounts.filter { effectiveLimits.policies[$0].map { !$0.isEmpty } ?? false }
        if accounts.isEmpty { return }
        let records = try await state.accounts(accounts)
        for account in accounts {
            _ = try EffectiveLimits.usage(
                of: account,
                records[account]?.usage ?? Usage(periodStart: effectiveLimits.period.start),
                adding: uploads.map(Accounting.creating),
                createdAt: clock.now.wholeMilliseconds,
                under: effectiveLimits
            )
        }
    }

    /// Counts uploads that have no record here, if quotas have room for them; see `AccountRecords.charge`.
    func charge(
        _ changes: Accounting.Changes,
        createdAt creation: Date,
        under effectiveLimits: EffectiveLimits?
    ) async throws(UploadError) {
        try await state.charge(changes, createdAt: creation, under: effectiveLimits)
    }

    /// Maximum size of an upload in bytes.
    func mostBytes(of upload: Upload) -> Int64 { min(limits.maximumBytes, upload.maximumBytes ?? .max) }

    /// Checks a length that a client declares at creation or later.
    ///
    /// - Throws: `.invalidRequest`, `.tooLarge`.
    func check(length: Int64, limit: Int64) throws(UploadError) {
        guard length >= 0 else {
            throw UploadError(.invalidRequest, "The length of the upload must not be negative.")
        }
        guard length <= limit else {
            throw UploadError(.tooLarge(limit: limit), "The upload has \(length) bytes; at most \(limit) are allowed.")
        }
    }

    /// Number of bytes that an upload still accepts.
    ///
    /// - Parameters:
    ///   - upload: The upload with its durable offset.
    ///   - contentLength: Announced number of bytes.
    /// - Returns: Zero or more.
    /// - Throws: The error from `excess` if more bytes are announced.
    func room(in upload: Upload, for contentLength: Int64?) throws(UploadError) -> Int64 {
        let room = (upload.length ?? mostBytes(of: upload)) - upload.offset
        if let contentLength, contentLength > room { throw excess(in: upload) }
        return max(0, room)
    }

    /// The error for a client that sends more than there is room for: `.lengthExceeded`, or `.tooLarge` if the upload
    /// has no length.
    func excess(in upload: Upload) -> UploadError {
        guard let length = upload.length else { return .tooLarge(mostBytes(of: upload)) }
        return UploadError(.lengthExceeded(length: length), "The body exceeds the upload's length of \(length) bytes.")
    }

    // MARK: Reservations

    /// Sets the length of an open upload and reserves as many bytes; declaring the same length again is allowed.
    ///
    /// Requires the lease.
    ///
    /// - Parameters:
    ///   - length: Total length in bytes.
    ///   - upload: The upload, open, with its durable offset.
    ///   - contentLength: Number of bytes that the same request announces.
    ///   - most: Bytes that the upload's subject may have stored in all, besides its policy.
    /// - Returns: The upload with its length.
    /// - Throws: `.lengthConflict`, `.tooLarge`, `.lengthExceeded`, `.quotaExceeded`, `.gone`, `.storageFull`, `.storageFailure`.
    func declare(
        _ length: Int64,
        for upload: Upload,
        _ contentLength: Int64?,
        upTo most: Int64? = nil
    ) async throws(UploadError) -> Upload {
        if let known = upload.length {
            guard known == length else {
                throw UploadError(
                    .lengthConflict(length: known),
                    "The upload has a length of \(known) bytes, which cannot be changed to \(length)."
                )
            }
            return upload
        }
        guard length >= upload.offset else {
            throw UploadError(
                .lengthConflict(length: nil),
                "The upload has \(upload.offset) bytes already, so its length cannot be \(length)."
            )
        }
        try check(length: length, limit: mostBytes(of: upload))
        var declared = upload
        declared.length = length
        declared.reservedBytes = length
        // Check before recording: an impossible request must leave no trace.
        _ = try room(in: declared, for: contentLength)
        declared.updatedAt = clock.now.wholeMilliseconds
        let effectiveLimits = try await effectiveLimits(for: upload.accounts, upTo: most)
        return try await fixLength(of: declared, under: effectiveLimits)
    }

    /// Records the length of an upload that had none, and its reservation.
    ///
    /// - Parameters:
    ///   - upload: The record to write; open.
    ///   - effectiveLimits: The limits of its accounts.
    /// - Returns: The same upload.
    /// - Throws: `.quotaExceeded`, `.gone`, `.storageFull`, `.storageFailure`.
    func fixLength(of upload: Upload, under effectiveLimits: EffectiveLimits) async throws(UploadError) -> Upload {
        let isSet = try await state.setLength(
            of: upload.id,
            to: upload.reservedBytes,
            updatedAt: upload.updatedAt,
            under: effectiveLimits
        )
        guard isSet else { throw UploadError.uploadEnded }
        return upload
    }

    /// Reserves space for an upload of unknown length before its bytes are read.
    ///
    /// - Parameters:
    ///   - bytes: Total reservation, counted from the first byte.
    ///   - upload: The open upload.
    ///   - effectiveLimits: The limits of its accounts.
    ///   - isWhole: Whether to reserve all or nothing; otherwise reserves what is left, but at least one byte more than
    ///     the upload has.
    /// - Returns: The upload with its new reservation.
    /// - Throws: `.quotaExceeded`, `.gone`, `.storageFailure`.
    func reserve(
        _ bytes: Int64,
        for upload: Upload,
        under effectiveLimits: EffectiveLimits,
        isWhole: Bool
    ) async throws(UploadError) -> Upload {
        var upload = upload
        var bytes = bytes
        while true {
            do throws(UploadError) {
                guard try await state.reserve(bytes, for: upload.id, under: effectiveLimits) else {
                    throw UploadError.uploadEnded
                }
                upload.reservedBytes = bytes
                return upload
            } catch {
                // Others may reserve what is left between two attempts; each attempt is smaller than the last.
                guard !isWhole, case .quotaExceeded(let refusal) = error.code else { throw error }
                let possible = upload.reservedBytes.adding(refusal.left)
                guard possible > upload.offset, possible < bytes else { throw error }
                bytes = possible
            }
        }
    }

    /// Reserves space for the next step of an append of unknown length.
    ///
    /// - Parameters:
    ///   - room: Number of bytes that the upload still accepts.
    ///   - upload: The open upload with its offset.
    ///   - effectiveLimits: The limits of its accounts.
    ///   - isWhole: Whether all of `room` is one step, because the append cannot be continued.
    /// - Returns: The upload with its new reservation, which may be smaller than requested.
    /// - Throws: The errors of `reserve`.
    func reserveStep(
        of room: Int64,
        for upload: Upload,
        under effectiveLimits: EffectiveLimits,
        isWhole: Bool
    ) async throws(UploadError) -> Upload {
        let step = isWhole ? room : min(Self.step, room)
        let wanted = upload.offset.adding(step)
        return try await reserve(wanted, for: upload, under: effectiveLimits, isWhole: false)
    }

    /// Returns what an append did not use; if that fails, the next append reserves again.
    ///
    /// - Parameters:
    ///   - upload: The open upload with its offset and reservation.
    ///   - effectiveLimits: The limits of its accounts.
    func giveBack(_ upload: Upload, under effectiveLimits: EffectiveLimits) async {
        _ = try? await reserve(upload.offset, for: upload, under: effectiveLimits, isWhole: true)
    }

    /// Bytes reserved per step for content of unknown length.
    private static let step: Int64 = 64 << 20
}

extension EffectiveLimits {
    /// Whether any policy limits bytes.
    var limitsBytes: Bool { policies.values.contains { $0.storedBytes != nil || $0.periodBytes != nil } }

    /// Maximum size of one upload in bytes under these policies.
    var uploadBytes: Int64? { policies.values.compactMap(\.uploadBytes).min() }
}

extension UploadError {
    static func tooLarge(_ limit: Int64) -> UploadError {
        UploadError(.tooLarge(limit: limit), "The upload may have at most \(limit) bytes.")
    }
}
