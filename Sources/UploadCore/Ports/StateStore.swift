package import Foundation

/// Where the records of uploads, media, keys and used grants are kept.
///
/// Each call is one transaction that is durable when it returns. May be called from any loop. Calls that change an upload
/// also change what its accounts use (`Accounting`) and record what happened, in the same transaction. Where several nodes share
/// it, what is called with a lease (see `LeaseAuthority`) is `.interrupted` when another node has that meanwhile.
///
/// Deliveries and pulls are claimed before somebody works on them, because many processes may share one store. What is due,
/// and when a claim is over, is told by the store's own clock: those of the processes may differ.
package protocol StateStore: ObjectRecords {
    // MARK: Uploads

    /// Records a new open upload; with `consuming`, also the use of that one-time grant, both or neither.
    ///
    /// - Throws: `.grantUsed` when the grant is recorded already; `.notFound` when it has a bucket that is not recorded;
    ///   `.quotaExceeded`; `.rejected` for an alias that is taken; `.storageFull`, `.storageFailure`.
    func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under terms: QuotaTerms,
        recording event: EventRecord
    ) async throws(UploadError)

    func upload(_ id: UploadID) async throws(UploadError) -> Upload?

    /// The upload that the app gave this name.
    func upload(alias: String) async throws(UploadError) -> UploadID?

    /// Newest first.
    func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload]

    /// Those of `ids` that are there.
    func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload]

    /// Open final uploads of which this partial upload is a part.
    func openFinals(of part: UploadID) async throws(UploadError) -> [UploadID]

    /// Turns an open upload into `media`, in one transaction, and forgets its parts.
    ///
    /// - Parameters:
    ///   - upload: As it is to be recorded: completed, with length, times, expiry and attributes.
    ///   - media: `nil` for a partial upload.
    ///   - replaced: The object that has the name of `media` now, if there is one; it is ended as `terminated` when `upload` is
    ///     complete.
    ///   - terms: What a final upload is checked against, whose bytes may not all have been reserved.
    ///   - events: What happened, to the replaced one as well.
    /// - Returns: `false`, with nothing changed, if the upload is not open any more.
    /// - Throws: `.busy` if the metadata that are recorded are not those of `upload`, or another object than `replaced` has the
    ///   name; `.quotaExceeded`, `.storageFull`, `.storageFailure`.
    func complete(
        _ upload: Upload,
        as media: Media?,
        replacing replaced: UploadID?,
        under terms: QuotaTerms,
        recording events: [EventRecord]
    ) async throws(UploadError) -> Bool

    /// Ends an upload in `state` (`terminated` or `expired`), removes its media, forgets its parts, and closes its pull.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - before: What it was when that was decided: open or completed.
    ///   - state: How it ends.
    ///   - now: When.
    ///   - received: Bytes that it got while it was open.
    ///   - event: What happened.
    /// - Returns: `false`, with nothing changed, if it is not that any more.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func end(
        _ id: UploadID,
        from before: Upload.State,
        as state: Upload.State,
        at now: Date,
        received: Int64,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool

    /// Fixes the length of an open upload that has none, and reserves as many bytes.
    ///
    /// - Returns: `false`, with nothing changed, if it is not open or has a length.
    /// - Throws: `.quotaExceeded`, `.storageFull`, `.storageFailure`.
    func setLength(
        of id: UploadID,
        to length: Int64,
        updatedAt: Date,
        under terms: QuotaTerms
    ) async throws(UploadError) -> Bool

    /// Lets an open upload hold `bytes`, more or fewer than before.
    ///
    /// - Returns: `false`, with nothing changed, if it is not open.
    /// - Throws: `.quotaExceeded`, `.storageFull`, `.storageFailure`.
    func reserve(_ bytes: Int64, for id: UploadID, under terms: QuotaTerms) async throws(UploadError) -> Bool

    /// Replaces the metadata of an open or completed upload and of its media.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - before: What they were when they were read.
    ///   - metadata: What they become.
    ///   - updatedAt: When.
    ///   - event: What happened.
    /// - Returns: `false`, with nothing changed, if it is neither.
    /// - Throws: `.busy` if they are not `before` any more; `.storageFull`, `.storageFailure`.
    func setMetadata(
        of id: UploadID,
        from before: UploadMetadata,
        to metadata: UploadMetadata,
        updatedAt: Date,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool

    func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError)

    /// Open and completed uploads whose expiry is not after `now`, at most `limit`.
    func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID]

    /// Forgets ended uploads (terminated, expired), used grants that ended before `date`, and events before it that nobody
    /// has to be told any more. It may be several transactions; what one of them leaves is forgotten the next time.
    func forgetEnded(before date: Date) async throws(UploadError)

    /// Those of `ids` whose bytes are needed: open or completed.
    func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID>

    // MARK: Pulls

    /// As `insert(_:consuming:under:recording:)`, and records the job that fills the upload: all or nothing.
    func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under terms: QuotaTerms,
        recording event: EventRecord,
        pulling job: PullJob
    ) async throws(UploadError)

    func pull(_ id: UploadID) async throws(UploadError) -> PullJob?

    /// Takes jobs to work on: those that are due and that nobody else has taken, the first ones first.
    ///
    /// - Parameters:
    ///   - limit: At most so many.
    ///   - duration: Seconds for which nobody else gets them; who works longer renews.
    /// - Returns: The jobs, each with a claim of its own.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func claimPulls(limit: Int, for duration: TimeInterval) async throws(UploadError) -> [PullJob]

    /// Keeps claims for `duration` seconds from now on.
    ///
    /// - Returns: Those that are still held; the other jobs are over, or somebody else has taken them.
    func renewPulls(_ jobs: [PullJob], for duration: TimeInterval) async throws(UploadError) -> Set<UploadID>

    /// Seconds until there is a job to take: one that is due, or one that is let go by then; `nil` if none is left.
    func nextPull() async throws(UploadError) -> TimeInterval?

    /// Records a job as it is now, and what comes next; its own `nextAttemptAt` does not count.
    ///
    /// With its upload a pull is closed: it has no next attempt and no request (`sealed`) any more.
    ///
    /// - Returns: `false`, with nothing changed, if it is over or forgotten, or somebody else has taken it since.
    func update(_ job: PullJob, _ next: PullJob.Next) async throws(UploadError) -> Bool

    // MARK: Media

    func media(_ id: UploadID) async throws(UploadError) -> Media?

    /// Keeps digests of media; does nothing if there are none with this id any more.
    func setDigests(of id: UploadID, to digests: DigestValues) async throws(UploadError)

    // MARK: Accounts

    /// What is known of accounts; those that were never used are missing.
    func accounts(_ accounts: [Account]) async throws(UploadError) -> [Account: AccountRecord]

    /// Gives an account a policy of its own, or takes it away.
    func setPolicy(_ policy: Policy?, of account: Account, at now: Date) async throws(UploadError)

    // MARK: Events

    /// Records an event by itself; a progress event takes the place of one that was not told yet, if that is the last event
    /// of its upload.
    func record(_ event: EventRecord) async throws(UploadError)

    func events(_ query: EventQuery) async throws(UploadError) -> [EventRecord]

    /// The sequence of the newest event; 0 if there is none.
    func lastEvent() async throws(UploadError) -> Int64

    /// Takes events to tell now: of each upload the first that is pending, if it is due and nobody else has taken it.
    ///
    /// - Parameters:
    ///   - limit: At most so many.
    ///   - duration: Seconds for which nobody else gets them; those that are not settled or released by then are due again.
    /// - Returns: The events; their `nextAttemptAt` is the end of the claim.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func claimDeliveries(limit: Int, for duration: TimeInterval) async throws(UploadError) -> [EventRecord]

    /// Seconds until there is a delivery to take: one that is due, or whose claim is over by then; `nil` if none is pending.
    func nextDelivery() async throws(UploadError) -> TimeInterval?

    /// Records an attempt to tell an event.
    ///
    /// - Parameters:
    ///   - event: As `claimDeliveries` gave it.
    ///   - outcome: An event that was told counts as told, whoever has taken it since; another outcome counts only while the
    ///     claim is still the caller's.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func settle(_ event: EventRecord, as outcome: DeliveryOutcome) async throws(UploadError)

    /// Gives an event back that was not told, as `claimDeliveries` gave it: it is due again, and nothing is counted.
    func release(_ event: EventRecord) async throws(UploadError)

    /// Events that were to be told, newest first.
    func deliveries(_ query: DeliveryQuery) async throws(UploadError) -> [EventRecord]

    /// Makes deliveries pending again, due at once, whatever became of them, with all their attempts.
    ///
    /// - Parameter ids: Ids of events; `nil` for all that are dead.
    /// - Returns: How many there were.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func redeliver(_ ids: [String]?) async throws(UploadError) -> Int

    // MARK: Keys

    func insert(_ key: APIKey) async throws(UploadError)

    func key(digest: [UInt8]) async throws(UploadError) -> APIKey?

    func key(id: String) async throws(UploadError) -> APIKey?

    func keys() async throws(UploadError) -> [APIKey]

    /// - Returns: `false` if there is no such key, or it was revoked before.
    func revokeKey(_ id: String, at now: Date) async throws(UploadError) -> Bool

    /// Records a revocation; of several for the same user the latest `issuedBefore` counts, and stays.
    ///
    /// - Throws: `.storageFull`, `.storageFailure`.
    func insert(_ revocation: Revocation) async throws(UploadError)

    /// What was revoked at this moment or later; all of it for `.distantPast`.
    ///
    /// It reads no more than it gives, so that it can be asked every second.
    func revoked(since date: Date) async throws(UploadError) -> Revocations

    // MARK: Duties

    /// Takes a turn at a duty that one of all processes does now and then.
    ///
    /// - Returns: Whether nobody took one in the last `interval` seconds.
    func takeTurn(at duty: Duty, every interval: TimeInterval) async throws(UploadError) -> Bool

    // MARK: Health

    func check() async throws(UploadError)
}

/// What one of all processes with the same state does now and then.
package enum Duty: String, Sendable, CaseIterable {
    case thoroughSweep = "thorough sweep"
}

/// Which uploads to list.
package struct UploadQuery: Sendable, Equatable {
    /// Only uploads in one of these; empty for all.
    package var states: Set<Upload.State>
    package var subject: String?
    /// See `Upload.issuer`.
    package var issuer: String?
    package var dialect: String?
    /// Only uploads that were created then or later.
    package var createdAfter: Date?
    /// Only uploads that were created earlier.
    package var createdBefore: Date?
    /// Only uploads older than this one: the last of the page before.
    package var before: UploadID?
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
