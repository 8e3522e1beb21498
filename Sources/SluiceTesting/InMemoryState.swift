package import Foundation
internal import Synchronization
package import UploadCore

/// A state store that forgets everything with the process.
package final class InMemoryState: StateStore {
    struct Tables {
        var uploads: [UploadID: Upload] = [:]
        var media: [UploadID: Media] = [:]
        /// Expiry by id.
        var usedGrants: [String: Date] = [:]
        var keys: [String: APIKey] = [:]
        /// By subject; `nil` is everybody.
        var revocations: [String?: Revocation] = [:]
        var pulls: [UploadID: PullJob] = [:]
        var turns: [Duty: Date] = [:]
        var pullClaims = ProcessClaims<UploadID>()
        var accounts: [Account: AccountRecord] = [:]
        var events: [EventRecord] = []
        var lastEvent: Int64 = 0
        /// By sequence.
        var deliveryClaims = ProcessClaims<Int64>()
        /// By upload and number.
        var objectParts: [UploadID: [Int: PartRecord]] = [:]
        /// By the bytes of their names.
        var buckets: [[UInt8]: BucketRecord] = [:]
        var mark: StoreMark?
        var isSweepApproved = false

        mutating func charge(
            _ changes: Accounting.Changes,
            createdAt creation: Date,
            under terms: QuotaTerms?
        ) throws(UploadError) {
            for (account, change) in changes where change != UsageChange() {
                let start = terms?.period.start ?? creation
                var record = accounts[account] ?? AccountRecord(usage: Usage(periodStart: start), policy: nil)
                if let terms {
                    record.usage = try terms.usage(of: account, record.usage, adding: change, createdAt: creation)
                } else {
                    record.usage = try record.usage.adding(change, createdAt: creation)
                }
                accounts[account] = record
            }
        }

        mutating func add(_ event: EventRecord) {
            lastEvent += 1
            var recorded = event
            recorded.sequence = lastEvent
            let date = recorded.delivery?.nextAttemptAt
            recorded.delivery?.nextAttemptAt = nil
            events.append(recorded)
            if let date { schedule(event.upload.id, at: date) }
        }

        /// Ends an upload, but for what its accounts get back, and the event.
        mutating func end(_ before: Upload, as state: Upload.State, at now: Date) {
            var upload = before
            upload.state = state
            upload.offset = 0
            upload.reservedBytes = 0
            upload.updatedAt = now
            upload.endedAt = now
            upload.expiresAt = nil
            uploads[upload.id] = upload
            media[upload.id] = nil
            objectParts[upload.id] = nil
            pulls[upload.id]?.nextAttemptAt = nil
            pulls[upload.id]?.sealed = ""
        }

        /// Makes the first pending event of an upload due, and lets the others wait for it.
        mutating func schedule(_ upload: UploadID, at date: Date) {
            var isFirst = true
            for index in events.indices
            where events[index].upload.id == upload && events[index].delivery?.state == .pending {
                let before = events[index].delivery?.nextAttemptAt
                events[index].delivery?.nextAttemptAt = isFirst ? before ?? date : nil
                isFirst = false
            }
        }
    }

    let tables = Mutex(Tables())

    private let clock: any WallClock

    /// - Parameter clock: Tells what is due.
    package init(clock: any WallClock = SystemClock()) { self.clock = clock }

    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under terms: QuotaTerms,
        recording event: EventRecord
    ) async throws(UploadError) {
        try transaction { tables throws(UploadError) in
            if let grant {
                if tables.usedGrants[grant.id] != nil {
                    throw UploadError(.grantUsed, "This credential admits one upload, and it was used.")
                }
                tables.usedGrants[grant.id] = grant.expiresAt
            }
            if let alias = upload.alias, tables.uploads.values.contains(where: { $0.alias == alias }) {
                throw UploadError(.rejected, "The name that the app gave this upload belongs to another one.")
            }
            if let bucket = upload.bucket, tables.buckets[Array(bucket.utf8)] == nil { throw UploadError.noBucket }
            try tables.charge(Accounting.creating(upload), createdAt: upload.createdAt, under: terms)
            tables.uploads[upload.id] = upload
            tables.add(event)
        }
    }

    package func upload(alias: String) async throws(UploadError) -> UploadID? {
        tables.withLock { $0.uploads.values.first { $0.alias == alias }?.id }
    }

    /// Runs `body`; what it changes is kept only if it does not throw.
    func transaction<Success>(
        _ body: (inout Tables) throws(UploadError) -> Success
    ) throws(UploadError) -> Success {
        let result: Result<Success, UploadError> = tables.withLock { tables in
            var changed = tables
            do throws(UploadError) {
                let success = try body(&changed)
                tables = changed
                return .success(success)
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    package func upload(_ id: UploadID) async throws(UploadError) -> Upload? {
        tables.withLock { $0.uploads[id] }
    }

    package func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload] {
        tables.withLock { tables in
            let matching = tables.uploads.values.filter { upload in
                (query.states.isEmpty || query.states.contains(upload.state))
                    && (query.subject == nil || upload.subject == query.subject)
                    && (query.issuer == nil || upload.issuer == query.issuer)
                    && (query.dialect == nil || upload.dialect == query.dialect)
                    && query.before.map { upload.id.text < $0.text } ?? true
                    && query.createdAfter.map { upload.createdAt >= $0 } ?? true
                    && query.createdBefore.map { upload.createdAt < $0 } ?? true
            }
            return Array(matching.sorted { $0.id.text > $1.id.text }.prefix(query.limit))
        }
    }

    package func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload] {
        tables.withLock { tables in tables.uploads.filter { ids.contains($0.key) } }
    }

    package func openFinals(of part: UploadID) async throws(UploadError) -> [UploadID] {
        tables.withLock { tables in
            tables.uploads.values.filter { $0.state == .open && $0.concatenation?.parts?.contains(part) == true }
                .map(\.id).sorted { $0.text < $1.text }
        }
    }

    package func complete(
        _ completed: Upload,
        as media: Media?,
        replacing replaced: UploadID?,
        under terms: QuotaTerms,
        recording events: [EventRecord]
    ) async throws(UploadError) -> Bool {
        try transaction { tables throws(UploadError) in
            guard var upload = tables.uploads[completed.id], upload.state == .open else { return false }
            guard upload.metadata == completed.metadata else { throw UploadError.metadataChanged }
            let parts = Set(upload.concatenation?.parts ?? []).compactMap { tables.uploads[$0] }
            guard media?.objectName.flatMap(tables.object)?.id == replaced else { throw UploadError.objectChanged }
            let object = replaced.flatMap { tables.uploads[$0] }
            let size = completed.length ?? 0
            let changes = Accounting.completing(upload, size: size, parts: parts, replacing: object)
            try tables.charge(changes, createdAt: upload.createdAt, under: terms)
            if let object { tables.end(object, as: .terminated, at: completed.updatedAt) }
            for part in parts { tables.uploads[part.id]?.reservedBytes = 0 }
            upload.state = .completed
            upload.length = completed.length
            upload.offset = completed.length ?? 0
            upload.reservedBytes = completed.reservedBytes
            upload.updatedAt = completed.updatedAt
            upload.endedAt = completed.endedAt
            upload.expiresAt = completed.expiresAt
            upload.attributes = completed.attributes
            tables.uploads[upload.id] = upload
            tables.objectParts[upload.id] = nil
            tables.media[upload.id] = media
            for event in events { tables.add(event) }
            return true
        }
    }

    package func end(
        _ id: UploadID,
        from expected: Upload.State,
        as state: Upload.State,
        at now: Date,
        received: Int64,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool {
        try transaction { tables throws(UploadError) in
            guard let upload = tables.uploads[id], upload.isAlive, upload.state == expected else { return false }
            let changes = Accounting.ending(upload, received: received)
            try tables.charge(changes, createdAt: upload.createdAt, under: nil)
            tables.end(upload, as: state, at: now)
            tables.add(event)
            return true
        }
    }

    package func setLength(
        of id: UploadID,
        to length: Int64,
        updatedAt: Date,
        under terms: QuotaTerms
    ) async throws(UploadError) -> Bool {
        try transaction { tables throws(UploadError) in
            guard let upload = tables.uploads[id], upload.state == .open, upload.length == nil else { return false }
            let changes = Accounting.reserving(length, for: upload)
            try tables.charge(changes, createdAt: upload.createdAt, under: terms)
            tables.uploads[id]?.length = length
            tables.uploads[id]?.reservedBytes = length
            tables.uploads[id]?.updatedAt = updatedAt
            return true
        }
    }

    package func reserve(_ bytes: Int64, for id: UploadID, under terms: QuotaTerms) async throws(UploadError) -> Bool {
        try transaction { tables throws(UploadError) in
            guard let upload = tables.uploads[id], upload.state == .open else { return false }
            let changes = Accounting.reserving(bytes, for: upload)
            try tables.charge(changes, createdAt: upload.createdAt, under: terms)
            tables.uploads[id]?.reservedBytes = bytes
            return true
        }
    }

    package func setMetadata(
        of id: UploadID,
        from before: UploadMetadata,
        to metadata: UploadMetadata,
        updatedAt: Date,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool {
        try transaction { tables throws(UploadError) in
            guard let upload = tables.uploads[id], upload.state == .open || upload.state == .completed
            else { return false }
            guard upload.metadata == before else { throw UploadError.metadataChanged }
            tables.uploads[id]?.metadata = metadata
            tables.uploads[id]?.updatedAt = updatedAt
            tables.media[id]?.metadata = metadata.values
            tables.media[id]?.filename = metadata.filename
            tables.media[id]?.contentType = metadata.contentType
            tables.add(event)
            return true
        }
    }

    package func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError) {
        tables.withLock { tables in
            guard tables.uploads[id]?.state == .open else { return }
            tables.uploads[id]?.expiresAt = date
            tables.uploads[id]?.updatedAt = updatedAt
        }
    }

    package func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID] {
        tables.withLock { tables in
            let over = tables.uploads.values.compactMap { upload in
                upload.expiresAt.map { (upload.id, $0) }
            }
            return over.filter { $0.1 <= now }.sorted { $0.1 < $1.1 }.prefix(limit).map(\.0)
        }
    }

    package func forgetEnded(before date: Date) async throws(UploadError) {
        tables.withLock { tables in
            tables.uploads = tables.uploads.filter { _, upload in
                guard upload.state == .terminated || upload.state == .expired, let endedAt = upload.endedAt
                else { return true }
                return endedAt >= date
            }
            tables.pulls = tables.pulls.filter { tables.uploads[$0.key] != nil }
            tables.usedGrants = tables.usedGrants.filter { $0.value >= date }
            tables.events.removeAll { event in
                event.occurredAt < date && (event.delivery == nil || event.delivery?.state == .delivered)
            }
        }
    }

    package func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID> {
        tables.withLock { tables in
            Set(ids.filter { tables.uploads[$0]?.state == .open || tables.uploads[$0]?.state == .completed })
        }
    }

    package func setDigests(of id: UploadID, to digests: DigestValues) async throws(UploadError) {
        tables.withLock { $0.media[id]?.digests = digests }
    }

    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under terms: QuotaTerms,
        recording event: EventRecord,
        pulling job: PullJob
    ) async throws(UploadError) {
        try await insert(upload, consuming: grant, under: terms, recording: event)
        tables.withLock { $0.pulls[job.uploadID] = job }
    }

    package func pull(_ id: UploadID) async throws(UploadError) -> PullJob? {
        let now = clock.now
        return tables.withLock { tables in
            guard var job = tables.pulls[id] else { return nil }
            job.claim = tables.pullClaims.number(of: id) ?? 0
            job.isClaimed = tables.pullClaims.end(of: id, at: now) != nil
            return job
        }
    }

    package func claimPulls(limit: Int, for duration: TimeInterval) async throws(UploadError) -> [PullJob] {
        let now = clock.now
        return tables.withLock { tables in
            let due = tables.pulls.values.filter { job in
                job.nextAttemptAt.map { $0 <= now } ?? false && tables.pullClaims.end(of: job.uploadID, at: now) == nil
            }
            let first = due.sorted { left, right in
                (left.nextAttemptAt ?? now, left.uploadID.text) < (right.nextAttemptAt ?? now, right.uploadID.text)
            }
            return first.prefix(limit).map { job in
                var job = job
                job.claim = tables.pullClaims.take(job.uploadID, until: now.addingTimeInterval(duration))
                job.isClaimed = true
                return job
            }
        }
    }

    package func renewPulls(_ jobs: [PullJob], for duration: TimeInterval) async throws(UploadError) -> Set<UploadID> {
        let end = clock.now.addingTimeInterval(duration)
        return tables.withLock { tables in
            let held = jobs.filter { job in
                tables.pullClaims.holds(job.uploadID, job.claim) && tables.pulls[job.uploadID]?.nextAttemptAt != nil
            }
            for job in held { tables.pullClaims.renew(job.uploadID, until: end) }
            return Set(held.map(\.uploadID))
        }
    }

    package func nextPull() async throws(UploadError) -> TimeInterval? {
        let now = clock.now
        return tables.withLock { tables in
            tables.pulls.values.compactMap { job in
                job.nextAttemptAt.map { max($0, tables.pullClaims.end(of: job.uploadID, at: now) ?? $0) }
            }.min()?.timeIntervalSince(now)
        }
    }

    package func update(_ job: PullJob, _ next: PullJob.Next) async throws(UploadError) -> Bool {
        let now = clock.now
        return tables.withLock { tables in
            let id = job.uploadID
            guard tables.pullClaims.holds(id, job.claim) else { return false }
            guard let before = tables.pulls[id]?.nextAttemptAt else {
                tables.pullClaims.drop(id)
                return false
            }
            var job = job
            (job.claim, job.isClaimed) = (0, false)
            switch next {
            case .working: job.nextAttemptAt = before
            case .due(let seconds): job.nextAttemptAt = now.addingTimeInterval(seconds)
            case .never: job.nextAttemptAt = nil
            }
            tables.pulls[id] = job
            if next != .working { tables.pullClaims.drop(id) }
            return true
        }
    }

    package func media(_ id: UploadID) async throws(UploadError) -> Media? {
        tables.withLock { $0.media[id] }
    }

    package func accounts(_ accounts: [Account]) async throws(UploadError) -> [Account: AccountRecord] {
        tables.withLock { tables in tables.accounts.filter { accounts.contains($0.key) } }
    }

    package func setPolicy(_ policy: Policy?, of account: Account, at now: Date) async throws(UploadError) {
        tables.withLock { tables in
            var record = tables.accounts[account] ?? AccountRecord(usage: Usage(periodStart: now), policy: nil)
            record.policy = policy
            tables.accounts[account] = record
        }
    }

    package func record(_ event: EventRecord) async throws(UploadError) {
        let now = clock.now
        tables.withLock { tables in
            if event.kind == .progress,
                let index = tables.events.lastIndex(where: { $0.upload.id == event.upload.id }),
                tables.events[index].kind == .progress, tables.events[index].delivery?.state == .pending,
                tables.events[index].delivery?.attempts == 0,
                tables.deliveryClaims.end(of: tables.events[index].sequence, at: now) == nil
            {
                tables.events[index].upload = event.upload
                tables.events[index].request = event.request
                tables.events[index].occurredAt = event.occurredAt
            } else {
                tables.add(event)
            }
        }
    }

    package func events(_ query: EventQuery) async throws(UploadError) -> [EventRecord] {
        tables.withLock { tables in
            let matching = tables.events.filter { event in
                event.sequence > query.after && event.sequence <= query.through ?? .max
                    && (query.upload == nil || event.upload.id == query.upload)
                    && (query.subject == nil || event.upload.subject == query.subject)
                    && query.kinds?.contains(event.kind) ?? true
            }
            return Array(matching.prefix(query.limit))
        }
    }

    package func lastEvent() async throws(UploadError) -> Int64 { tables.withLock { $0.lastEvent } }

    package func claimDeliveries(limit: Int, for duration: TimeInterval) async throws(UploadError) -> [EventRecord] {
        let now = clock.now
        return tables.withLock { tables in
            let due = tables.events.filter { event in
                event.delivery?.nextAttemptAt.map { $0 <= now } ?? false
                    && tables.deliveryClaims.end(of: event.sequence, at: now) == nil
            }
            let first = due.sorted { left, right in
                (left.delivery?.nextAttemptAt ?? now, left.sequence)
                    < (right.delivery?.nextAttemptAt ?? now, right.sequence)
            }
            let end = now.addingTimeInterval(duration)
            return first.prefix(limit).map { event in
                var event = event
                _ = tables.deliveryClaims.take(event.sequence, until: end)
                event.delivery?.nextAttemptAt = end
                return event
            }
        }
    }

    package func nextDelivery() async throws(UploadError) -> TimeInterval? {
        let now = clock.now
        return tables.withLock { tables in
            tables.events.compactMap { event in
                event.delivery?.nextAttemptAt.map {
                    max($0, tables.deliveryClaims.end(of: event.sequence, at: now) ?? $0)
                }
            }.min()?.timeIntervalSince(now)
        }
    }

    package func settle(_ event: EventRecord, as outcome: DeliveryOutcome) async throws(UploadError) {
        let now = clock.now
        tables.withLock { tables in
            let isHeld = tables.deliveryClaims.holds(event.sequence, until: event.delivery?.nextAttemptAt)
            guard isHeld || outcome == .delivered else { return }
            tables.deliveryClaims.drop(event.sequence)
            guard let index = tables.events.firstIndex(where: { $0.sequence == event.sequence }),
                var delivery = tables.events[index].delivery, delivery.state == .pending
            else { return }
            delivery.attempts += 1
            delivery.nextAttemptAt = nil
            delivery.lastError = nil
            switch outcome {
            case .delivered:
                delivery.state = .delivered
                delivery.settledAt = now
            case .retry(let seconds, let error):
                delivery.nextAttemptAt = now.addingTimeInterval(seconds)
                delivery.lastError = error
            case .dead(let error):
                delivery.state = .dead
                delivery.settledAt = now
                delivery.lastError = error
            }
            tables.events[index].delivery = delivery
            if delivery.state != .pending { tables.schedule(tables.events[index].upload.id, at: now) }
        }
    }

    package func release(_ event: EventRecord) async throws(UploadError) {
        tables.withLock { tables in
            guard tables.deliveryClaims.holds(event.sequence, until: event.delivery?.nextAttemptAt) else { return }
            tables.deliveryClaims.drop(event.sequence)
        }
    }

    package func deliveries(_ query: DeliveryQuery) async throws(UploadError) -> [EventRecord] {
        tables.withLock { tables in
            let matching = tables.events.filter { event in
                guard let delivery = event.delivery else { return false }
                return (query.state == nil || delivery.state == query.state)
                    && query.before.map { event.sequence < $0 } ?? true
            }
            return Array(matching.reversed().prefix(query.limit))
        }
    }

    package func redeliver(_ ids: [String]?) async throws(UploadError) -> Int {
        let now = clock.now
        return tables.withLock { tables in
            var count = 0
            for index in tables.events.indices {
                guard let delivery = tables.events[index].delivery,
                    ids?.contains(tables.events[index].id) ?? (delivery.state == .dead)
                else { continue }
                tables.events[index].delivery = EventRecord.Delivery(nextAttemptAt: nil)
                tables.deliveryClaims.drop(tables.events[index].sequence)
                count += 1
            }
            for id in Set(tables.events.map(\.upload.id)) { tables.schedule(id, at: now) }
            return count
        }
    }

    package func insert(_ key: APIKey) async throws(UploadError) {
        let isNew = tables.withLock { tables in
            let isTaken = tables.keys.values.contains { $0.id == key.id || $0.digest == key.digest }
            if !isTaken { tables.keys[key.id] = key }
            return !isTaken
        }
        if !isNew { throw UploadError(.invalidRequest, "There is a key with this id or secret already.") }
    }

    package func key(digest: [UInt8]) async throws(UploadError) -> APIKey? {
        tables.withLock { $0.keys.values.first { $0.digest == digest } }
    }

    package func key(id: String) async throws(UploadError) -> APIKey? {
        tables.withLock { $0.keys[id] }
    }

    package func keys() async throws(UploadError) -> [APIKey] {
        tables.withLock { $0.keys.values.sorted { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) } }
    }

    package func revokeKey(_ id: String, at now: Date) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            guard let key = tables.keys[id], key.revokedAt == nil else { return false }
            tables.keys[id]?.revokedAt = now
            return true
        }
    }

    package func insert(_ revocation: Revocation) async throws(UploadError) {
        tables.withLock { tables in
            var revocation = revocation
            if let before = tables.revocations[revocation.subject] {
                revocation.issuedBefore = max(before.issuedBefore, revocation.issuedBefore)
            }
            tables.revocations[revocation.subject] = revocation
        }
    }

    package func revoked(since date: Date) async throws(UploadError) -> Revocations {
        tables.withLock { tables in
            Revocations(
                keys: tables.keys.values.filter { $0.revokedAt.map { $0 >= date } ?? false }.map(\.id),
                bulk: tables.revocations.values.filter { $0.createdAt >= date }
            )
        }
    }

    package func takeTurn(at duty: Duty, every interval: TimeInterval) async throws(UploadError) -> Bool {
        let now = clock.now
        return tables.withLock { tables in
            if let last = tables.turns[duty], now.timeIntervalSince(last) < interval { return false }
            tables.turns[duty] = now
            return true
        }
    }

    package func check() async throws(UploadError) {}
}
