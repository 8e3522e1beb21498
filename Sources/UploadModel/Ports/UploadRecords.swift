package import Foundation

/// Records of uploads, from creation to end.
///
/// The guarantees of `StateStore` hold for each of its ports.
///
/// An upload with a `writingRight` is recorded and completed only while the right lasts, and its completion may end it; if
/// not, `insert`, `insertComplete` and `complete` throw `.conditionFailed` with nothing recorded.
package protocol UploadRecords: Sendable {
    /// Ends a right to write: no transaction after this one records or completes an upload under it.
    ///
    /// - Parameters:
    ///   - id: See `WritingRight`; it may have ended before.
    ///   - end: Until when the end is recorded at least.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func endRight(_ id: String, recordedUntil end: Date) async throws(UploadError)

    /// Whether a right to write has ended.
    func hasEnded(right id: String) async throws(UploadError) -> Bool

    /// Records a new open upload and, with `consuming`, the use of a one-time grant; both or neither.
    ///
    /// - Throws: `.grantUsed` if the grant is already recorded; `.notFound` if the upload's bucket is not recorded;
    ///   `.quotaExceeded`; `.rejected` if the alias is taken; `.storageFull`, `.storageFailure`.
    func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording event: EventRecord
    ) async throws(UploadError)

    /// Like `insert(_:consuming:under:recording:)`, and also records the job that fills the upload: all or nothing.
    func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording event: EventRecord,
        pulling job: PullJob
    ) async throws(UploadError)

    /// Records a new upload that is already complete, with its media, in one transaction.
    ///
    /// The effect is that of `insert(_:consuming:under:recording:)` and then `complete(_:as:replacing:under:recording:)`;
    /// limits apply after each of the two.
    ///
    /// - Parameters:
    ///   - upload: Completed; an ordinary upload, which reserves nothing.
    ///   - media: Its media.
    ///   - replaced: See `complete`.
    ///   - grant: A one-time grant that is used; `nil` for others.
    ///   - effectiveLimits: The limits of its accounts.
    ///   - events: The events to record, in order.
    /// - Throws: The errors of both methods, with nothing recorded.
    func insertComplete(
        _ upload: Upload,
        as media: Media,
        replacing replaced: UploadID?,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording events: [EventRecord]
    ) async throws(UploadError)

    func upload(_ id: UploadID) async throws(UploadError) -> Upload?

    /// The upload with this app-assigned name.
    func upload(alias: String) async throws(UploadError) -> UploadID?

    /// Newest first.
    func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload]

    /// Where a search ends that reads no more than `count` records, not all of which need to match.
    ///
    /// - Returns: The oldest upload that is read, for `UploadQuery.oldest`; `nil` if all are read, or if each one that is read matches.
    func end(of query: UploadQuery, reading count: Int) async throws(UploadError) -> UploadID?

    /// The uploads among `ids` that exist.
    func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload]

    /// Open final uploads that contain this partial upload.
    func openFinals(of part: UploadID) async throws(UploadError) -> [UploadID]

    /// Completes an open upload as `media` in one transaction, and forgets its parts.
    ///
    /// - Parameters:
    ///   - upload: The new record: completed, with length, times, expiry and attributes.
    ///   - media: `nil` for a partial upload.
    ///   - replaced: The object that currently has the name of `media`, if any; it ends as `terminated` when `upload`
    ///     is completed.
    ///   - effectiveLimits: Checked for a final upload, whose bytes may not all have been reserved.
    ///   - events: The events to record, including those of the replaced object.
    /// - Returns: `false`, with nothing changed, if the upload is no longer open.
    /// - Throws: `.busy` if the recorded metadata differs from that of `upload`, or an object other than `replaced` has
    ///   the name; `.quotaExceeded`, `.storageFull`, `.storageFailure`.
    func complete(
        _ upload: Upload,
        as media: Media?,
        replacing replaced: UploadID?,
        under effectiveLimits: EffectiveLimits,
        recording events: [EventRecord]
    ) async throws(UploadError) -> Bool

    /// Ends an upload as `state` (`terminated` or `expired`), removes its media, forgets its parts and closes its pull.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - before: The expected current state: open or completed.
    ///   - state: The final state.
    ///   - now: The time of the end.
    ///   - received: Bytes that the upload received while it was open.
    ///   - event: The event to record.
    /// - Returns: `false`, with nothing changed, if the upload is no longer in the state `before`.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func end(
        _ id: UploadID,
        from before: Upload.State,
        as state: Upload.State,
        at now: Date,
        received: Int64,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool

    /// Replaces the metadata of an open or completed upload and of its media.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - before: The metadata as the caller read it.
    ///   - metadata: The new metadata.
    ///   - updatedAt: The time of the change.
    ///   - event: The event to record.
    /// - Returns: `false`, with nothing changed, if the upload is neither open nor completed.
    /// - Throws: `.busy` if the recorded metadata is no longer `before`; `.storageFull`, `.storageFailure`.
    func setMetadata(
        of id: UploadID,
        from before: UploadMetadata,
        to metadata: UploadMetadata,
        updatedAt: Date,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool

    /// Replaces the attributes of an open or completed upload and of its media.
    ///
    /// - Returns: `false`, with nothing changed, if the upload is neither open nor completed.
    func setAttributes(of id: UploadID, to attributes: ObjectAttributes) async throws(UploadError) -> Bool

    func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError)
}

/// Which uploads to list.
package struct UploadQuery: Sendable, Equatable {
    /// Only uploads in one of these states; empty for all.
    package var states: Set<Upload.State>
    package var subject: String?
    /// See `Upload.issuer`.
    package var issuer: String?
    package var dialect: String?
    /// Only uploads created at this time or later.
    package var createdAfter: Date?
    /// Only uploads created before this time.
    package var createdBefore: Date?
    /// Only uploads older than this one, which is the last of the previous page.
    package var before: UploadID?
    /// Only this upload and newer ones.
    package var oldest: UploadID?
    /// At least 1.
    package var limit: Int

    package init(
        states: Set<Upload.State> = [],
        subject: String? = nil,
        issuer: String? = nil,
        dialect: String? = nil,
        createdAfter: Date? = nil,
        createdBefore: Date? = nil,
        before: UploadID? = nil,
        limit: Int = 50
    ) {
        self.states = states
        self.subject = subject
        self.issuer = issuer
        self.dialect = dialect
        self.createdAfter = createdAfter
        self.createdBefore = createdBefore
        self.before = before
        self.limit = limit
    }
}

extension UploadQuery {
    /// The condition by which uploads are found; others are checked for each of them.
    package enum Order: Sendable, Equatable {
        case subject(String)
        /// Each has an order of its own.
        case states([Upload.State])
        case issuer(String)
        case dialect(String)
        case all
    }

    /// One user has few uploads, while nearly all uploads are completed.
    package var order: Order {
        let states = selectedStates
        if let subject { return .subject(subject) }
        if !states.isEmpty, !states.contains(.completed) { return .states(states) }
        if let issuer { return .issuer(issuer) }
        if let dialect { return .dialect(dialect) }
        return states.isEmpty ? .all : .states(states)
    }

    /// The states by name; none if all are meant.
    package var selectedStates: [Upload.State] {
        states.count == Upload.State.allCases.count ? [] : states.sorted { $0.rawValue < $1.rawValue }
    }

    /// Whether the order has other uploads as well as those sought.
    package var readsOthers: Bool {
        [subject != nil, issuer != nil, dialect != nil, !selectedStates.isEmpty].count { $0 } > 1
    }

    /// The condition of the order, as columns of equal names with their values; the records of each have an order.
    package var orders: [(column: String, value: String)] {
        switch order {
        case .subject(let subject): [("subject", subject)]
        case .states(let states): states.map { ("state", $0.rawValue) }
        case .issuer(let issuer): [("issuer", issuer)]
        case .dialect(let dialect): [("dialect", dialect)]
        case .all: []
        }
    }

    /// The lowest id that an upload may have.
    package var lowestID: String? {
        // Ids sort by creation time.
        [oldest, createdAfter.map(UploadID.first(at:))].compactMap { $0?.text }.max()
    }

    /// The id below which an upload's must be.
    package var endOfIDs: String? { [before, createdBefore.map(UploadID.first(at:))].compactMap { $0?.text }.min() }
}
