package import Foundation
package import UploadModel

/// A state store that fails where a test wants it to, and otherwise forwards to `base`.
package final class FaultyState: StateStore {
    package enum Operation: Hashable, Sendable {
        case insertPull, pull, claimPulls, renewPulls, nextPull, updatePull, explainPull
        case insertUpload, insertComplete, upload, uploads, uploadsByID, openFinals, complete, end, setLength,
            setExpiry,
            expiredUploads, forgetEnded, needed, media, uploadByAlias, reserve, setMetadata, setDigests, endRight
        case accounts, totals, setPolicy, charge, record, events, lastEvent, claimDeliveries, nextDelivery, settle,
            release,
            deliveries,
            redeliver
        case insertKey, key, keys, revokeKey, rotateKey, recordUses, claimJob, check
        case putPart, objectParts, objectPart, partBytes, setAttributes, partUploads, object, objects, insertBucket,
            bucket,
            buckets, setDocument, removeBucket
        case insertRecord, dialectRecord, replaceRecord, removeRecord, applyChanges, dialectRecords, forgetRecords
    }

    package let plan: FaultPlan<Operation>
    let base: any StateStore

    package init(_ base: any StateStore, fuse: Fuse? = nil) {
        self.base = base
        plan = FaultPlan(fuse: fuse)
    }

    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording event: EventRecord
    ) async throws(UploadError) {
        try await plan.step(.insertUpload)
        try await base.insert(upload, consuming: grant, under: effectiveLimits, recording: event)
        try plan.response(.insertUpload)
    }

    package func insertComplete(
        _ upload: Upload,
        as media: Media,
        replacing replaced: UploadID?,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording events: [EventRecord]
    ) async throws(UploadError) {
        try await plan.step(.insertComplete)
        try await base.insertComplete(
            upload,
            as: media,
            replacing: replaced,
            consuming: grant,
            under: effectiveLimits,
            recording: events
        )
        try plan.response(.insertComplete)
    }

    package func endRight(_ id: String, recordedUntil end: Date) async throws(UploadError) {
        try await plan.step(.endRight)
        try await base.endRight(id, recordedUntil: end)
        try plan.response(.endRight)
    }

    package func hasEnded(right id: String) async throws(UploadError) -> Bool {
        try await plan.step(.uploads)
        return try await base.hasEnded(right: id)
    }

    package func upload(alias: String) async throws(UploadError) -> UploadID? {
        try await plan.step(.uploadByAlias)
        return try await base.upload(alias: alias)
    }

    package func upload(_ id: UploadID) async throws(UploadError) -> Upload? {
        try await plan.step(.upload)
        return try await base.upload(id)
    }

    package func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload] {
        try await plan.step(.uploads)
        return try await base.uploads(query)
    }

    package func end(of query: UploadQuery, reading count: Int) async throws(UploadError) -> UploadID? {
        try await plan.step(.uploads)
        return try await base.end(of: query, reading: count)
    }

    package func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload] {
        try await plan.step(.uploadsByID)
        return try await base.uploads(ids)
    }

    package func openFinals(of part: UploadID) async throws(UploadError) -> [UploadID] {
        try await plan.step(.openFinals)
        return try await base.openFinals(of: part)
    }

    package func complete(
        _ upload: Upload,
        as media: Media?,
        replacing replaced: UploadID?,
        under effectiveLimits: EffectiveLimits,
        recording events: [EventRecord]
    ) async throws(UploadError) -> Bool {
        try await plan.step(.complete)
        return try await base.complete(
            upload,
            as: media,
            replacing: replaced,
            under: effectiveLimits,
            recording: events
        )
    }

    package func end(
        _ id: UploadID,
        from before: Upload.State,
        as state: Upload.State,
        at now: Date,
        received: Int64,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool {
        try await plan.step(.end)
        return try await base.end(id, from: before, as: state, at: now, received: received, recording: event)
    }

    package func setLength(
        of id: UploadID,
        to length: Int64,
        updatedAt: Date,
        under effectiveLimits: EffectiveLimits
    ) async throws(UploadError) -> Bool {
        try await plan.step(.setLength)
        return try await base.setLength(of: id, to: length, updatedAt: updatedAt, under: effectiveLimits)
    }

    package func reserve(_ bytes: Int64, for id: UploadID, under effectiveLimits: EffectiveLimits)
        async throws(UploadError) -> Bool
    {
        try await plan.step(.reserve)
        return try await base.reserve(bytes, for: id, under: effectiveLimits)
    }

    package func setMetadata(
        of id: UploadID,
        from before: UploadMetadata,
        to metadata: UploadMetadata,
        updatedAt: Date,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool {
        try await plan.step(.setMetadata)
        return try await base.setMetadata(of: id, from: before, to: metadata, updatedAt: updatedAt, recording: event)
    }

    package func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError) {
        try await plan.step(.setExpiry)
        try await base.setExpiry(of: id, to: date, updatedAt: updatedAt)
    }

    package func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID] {
        try await plan.step(.expiredUploads)
        return try await base.expiredUploads(at: now, limit: limit)
    }

    package func forgetEnded(before date: Date, dead deadDate: Date) async throws(UploadError) {
        try await plan.step(.forgetEnded)
        try await base.forgetEnded(before: date, dead: deadDate)
    }

    package func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID> {
        try await plan.step(.needed)
        return try await base.needed(ids)
    }

    package func setDigests(of id: UploadID, to digests: DigestValues) async throws(UploadError) {
        try await plan.step(.setDigests)
        try await base.setDigests(of: id, to: digests)
    }

    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording event: EventRecord,
        pulling job: PullJob
    ) async throws(UploadError) {
        try await plan.step(.insertPull)
        try await base.insert(upload, consuming: grant, under: effectiveLimits, recording: event, pulling: job)
    }

    package func pull(_ id: UploadID) async throws(UploadError) -> PullJob? {
        try await plan.step(.pull)
        return try await base.pull(id)
    }

    package func claimPulls(limit: Int, except subjects: [String], for duration: TimeInterval)
        async throws(UploadError) -> [PullJob]
    {
        try await plan.step(.claimPulls)
        return try await base.claimPulls(limit: limit, except: subjects, for: duration)
    }

    package func renewPulls(_ jobs: [PullJob], for duration: TimeInterval) async throws(UploadError) -> Set<UploadID> {
        try await plan.step(.renewPulls)
        return try await base.renewPulls(jobs, for: duration)
    }

    package func nextPull(except subjects: [String]) async throws(UploadError) -> TimeInterval? {
        try await plan.step(.nextPull)
        return try await base.nextPull(except: subjects)
    }

    package func update(_ job: PullJob, _ next: PullJob.Next) async throws(UploadError) -> Bool {
        try await plan.step(.updatePull)
        return try await base.update(job, next)
    }

    package func explain(_ id: UploadID, _ reason: PullJob.Reason) async throws(UploadError) -> Bool {
        try await plan.step(.explainPull)
        return try await base.explain(id, reason)
    }

    package func media(_ id: UploadID) async throws(UploadError) -> Media? {
        try await plan.step(.media)
        return try await base.media(id)
    }

    package func accounts(_ accounts: [Account]) async throws(UploadError) -> [Account: AccountRecord] {
        try await plan.step(.accounts)
        return try await base.accounts(accounts)
    }

    package func totals(of kind: Account.Kind) async throws(UploadError) -> UsageTotals {
        try await plan.step(.totals)
        return try await base.totals(of: kind)
    }

    package func setPolicy(_ policy: Policy?, of account: Account, at now: Date) async throws(UploadError) {
        try await plan.step(.setPolicy)
        try await base.setPolicy(policy, of: account, at: now)
    }

    package func charge(
        _ changes: Accounting.Changes,
        createdAt creation: Date,
        under effectiveLimits: EffectiveLimits?
    ) async throws(UploadError) {
        try await plan.step(.charge)
        try await base.charge(changes, createdAt: creation, under: effectiveLimits)
        try plan.response(.charge)
    }

    package func record(_ event: EventRecord) async throws(UploadError) {
        try await plan.step(.record)
        try await base.record(event)
    }

    package func events(_ query: EventQuery) async throws(UploadError) -> [EventRecord] {
        try await plan.step(.events)
        return try await base.events(query)
    }

    package func lastEvent() async throws(UploadError) -> Int64 {
        try await plan.step(.lastEvent)
        return try await base.lastEvent()
    }

    package func keepEvents(until end: Date, at now: Date) async throws(UploadError) {
        try await plan.step(.record)
        try await base.keepEvents(until: end, at: now)
    }

    package func eventsKeptSince() async throws(UploadError) -> Int64 {
        try await plan.step(.lastEvent)
        return try await base.eventsKeptSince()
    }

    package func eventCount() async throws(UploadError) -> Int64 {
        try await plan.step(.lastEvent)
        return try await base.eventCount()
    }

    package func claimDeliveries(limit: Int, for duration: TimeInterval) async throws(UploadError) -> [EventRecord] {
        try await plan.step(.claimDeliveries)
        return try await base.claimDeliveries(limit: limit, for: duration)
    }

    package func nextDelivery() async throws(UploadError) -> TimeInterval? {
        try await plan.step(.nextDelivery)
        return try await base.nextDelivery()
    }

    package func pendingDeliveries() async throws(UploadError) -> PendingDeliveries {
        try await plan.step(.nextDelivery)
        return try await base.pendingDeliveries()
    }

    package func settle(_ event: EventRecord, as outcome: DeliveryOutcome) async throws(UploadError) {
        try await plan.step(.settle)
        try await base.settle(event, as: outcome)
    }

    package func release(_ event: EventRecord) async throws(UploadError) {
        try await plan.step(.release)
        try await base.release(event)
    }

    package func deliveries(_ query: DeliveryQuery) async throws(UploadError) -> [EventRecord] {
        try await plan.step(.deliveries)
        return try await base.deliveries(query)
    }

    package func redeliver(_ ids: [String]?) async throws(UploadError) -> Int {
        try await plan.step(.redeliver)
        return try await base.redeliver(ids)
    }

    package func insert(_ key: APIKey) async throws(UploadError) {
        try await plan.step(.insertKey)
        try await base.insert(key)
    }

    package func key(digest: [UInt8]) async throws(UploadError) -> APIKey? {
        try await plan.step(.key)
        return try await base.key(digest: digest)
    }

    package func key(id: String) async throws(UploadError) -> APIKey? {
        try await plan.step(.key)
        return try await base.key(id: id)
    }

    package func keys() async throws(UploadError) -> [APIKey] {
        try await plan.step(.keys)
        return try await base.keys()
    }

    package func revokeKey(_ id: String, at now: Date) async throws(UploadError) -> Bool {
        try await plan.step(.revokeKey)
        return try await base.revokeKey(id, at: now)
    }

    package func rotateKey(
        _ id: String,
        to digest: [UInt8],
        overlapEnd: Date?,
        at now: Date
    ) async throws(UploadError) -> APIKey? {
        try await plan.step(.rotateKey)
        return try await base.rotateKey(id, to: digest, overlapEnd: overlapEnd, at: now)
    }

    package func recordUses(_ uses: [String: Date]) async throws(UploadError) {
        try await plan.step(.recordUses)
        try await base.recordUses(uses)
    }

    package func insert(_ revocation: Revocation) async throws(UploadError) {
        try await plan.step(.revokeKey)
        try await base.insert(revocation)
    }

    package func revoked(since date: Date) async throws(UploadError) -> Revocations {
        try await plan.step(.key)
        return try await base.revoked(since: date)
    }

    package func claimJob(at job: PeriodicJob, every interval: TimeInterval) async throws(UploadError) -> Bool {
        try await plan.step(.claimJob)
        return try await base.claimJob(at: job, every: interval)
    }

    package func check() async throws(UploadError) {
        try await plan.step(.check)
        try await base.check()
    }
}
