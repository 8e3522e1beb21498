internal import Foundation
internal import Synchronization
internal import UploadCore
package import UploadModel

/// A state store in memory.
package final class InMemoryState: StateStore {
    struct Tables {
        var uploads: [UploadID: Upload] = [:]
        var media: [UploadID: Media] = [:]
        /// Expiry, by id.
        var usedGrants: [String: Date] = [:]
        var keys: [String: APIKey] = [:]
        /// By subject; `nil` for everybody.
        var revocations: [String?: Revocation] = [:]
        var pulls: [UploadID: PullJob] = [:]
        var turns: [PeriodicJob: Date] = [:]
        var pullClaims = ProcessClaims<UploadID>()
        var accounts: [Account: AccountRecord] = [:]
        var events: [EventRecord] = []
        var lastEvent: Int64 = 0
        /// By sequence number.
        var deliveryClaims = ProcessClaims<Int64>()
        /// The user whose events were claimed last.
        var lastDeliveryTurn = DeliveryTurns.noUser
        /// By upload and number.
        var objectParts: [UploadID: [Int: PartRecord]] = [:]
        /// By the bytes of the name.
        var buckets: [[UInt8]: BucketRecord] = [:]
        /// By the bytes of kind and key.
        var dialectRecords: [DialectRecordName: DialectRecord] = [:]
        var dialectTerms = DialectTermTable()
        var mark: StoreMark?
        var isSweepApproved = false

        /// Records the use of a one-time grant.
        mutating func use(_ grant: Grant) throws(UploadError) {
            if usedGrants[grant.id] != nil {
                throw UploadError.grantUsed
            }
            usedGrants[grant.id] = grant.expiresAt
        }

        func check(_ right: WritingRight?) throws(UploadError) {
            if let right, usedGrants[right.id] != nil { throw UploadError.rightEnded }
        }

        /// Checks the right under which an upload is completed, and ends it if that is all that it was given for.
        mutating func exercise(_ right: WritingRight?, by upload: Upload) throws(UploadError) {
            try check(right)
            guard let right, right.isEnded(by: upload) else { return }
            usedGrants[right.id] = WritingRight.recorded(from: upload.updatedAt)
        }

        mutating func charge(
            _ changes: Accounting.Changes,
            createdAt creation: Date,
            under effectiveLimits: EffectiveLimits?
        ) throws(UploadError) {
            for (account, change) in changes where change != UsageChange() {
                let start = effectiveLimits?.period.start ?? creation
                var record = accounts[account] ?? AccountRecord(usage: Usage(periodStart: start), policy: nil)
                if let effectiveLimits {
                    record.usage = try effectiveLimits.usage(
                        of: account,
                        record.usage,
                        adding: change,
                        createdAt: creation
                    )
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

        /// Ends an upload, except for the usage of its accounts and the event.
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

        /// Makes the first pending event of an upload due; later events wait for it.
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

    let clock: any WallClock

    package let sharesParts: Bool

    /// - Parameters:
    ///   - clock: Decides what is due.
    ///   - sharesParts: Whether a test uses it as several processes.
    package init(clock: any WallClock = SystemClock(), sharesParts: Bool = false) {
        self.clock = clock
        self.sharesParts = sharesParts
    }

    /// Runs `body`; its changes are kept only if it does not throw.
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
}
