internal import Foundation
internal import Synchronization
internal import UploadModel

/// Ends expired uploads, removes old records, and repairs what a crash left behind.
package final class SweepService: Sendable {
    typealias Records = UploadRecords & RetentionRecords & DialectRecords & JobClaims

    private let context: ServiceContext
    private let state: any Records
    private let storage: any BlobStorage
    private let lifecycle: UploadLifecycle
    private let unrecorded: UnrecordedBlobs
    private let isFirst = Atomic(true)
    /// Consumes the approval for one sweep to remove more blobs than usual, if there is one.
    private let isApproved: @Sendable () async throws(UploadError) -> Bool

    init(
        _ context: ServiceContext,
        state: any Records,
        storage: any BlobStorage,
        lifecycle: UploadLifecycle,
        unrecorded: UnrecordedBlobs,
        isApproved: @escaping @Sendable () async throws(UploadError) -> Bool
    ) {
        self.context = context
        self.state = state
        self.storage = storage
        self.lifecycle = lifecycle
        self.unrecorded = unrecorded
        self.isApproved = isApproved
    }

    /// Ends expired uploads, removes old records, and repairs what a crash left behind.
    ///
    /// Disturbs no request: uploads in use are left for the next sweep. Checks of all open uploads and all blobs run in
    /// the first sweep of a process and then once an hour; if several processes share a state, only one of them runs
    /// these checks.
    package func run() async -> SweepReport {
        await FreeingWork.$isRunning.with(true) { await sweep() }
    }

    private func sweep() async -> SweepReport {
        var report = SweepReport()
        // If state and storage are not a pair, the records do not show what may be removed.
        if context.refusal != nil { return report }
        let now = context.now
        let isFirst = self.isFirst.exchange(false, ordering: .relaxed)
        var isThorough = isFirst
        await attempt(nil, &report) { () async throws(UploadError) in
            let isOurTurn = try await state.claimJob(at: .thoroughSweep, every: Self.thoroughInterval)
            if isOurTurn { isThorough = true }
        }
        // First, so that an upload with all its bytes does not expire because its completion was not recorded.
        if isThorough { await completeUnrecorded(&report) }
        await expire(&report)
        await removeAgain(&report)
        if isThorough {
            let date = now.addingTimeInterval(-context.limits.orphanAge)
            let unknown = now.addingTimeInterval(-max(context.limits.orphanAge, context.limits.quarantine))
            await removeOrphans(olderThan: date, unknownFrom: unknown, &report)
            var leftovers = 0
            await attempt(nil, &report) { () async throws(UploadError) in
                leftovers = try await storage.removeLeftovers(from: date, ofUnknownFrom: unknown)
                leftovers += try await storage.removeOrphans(setAsideBefore: unknown)
            }
            report.orphansRemoved += leftovers
        }
        await attempt(nil, &report) { () async throws(UploadError) in
            try await state.forgetEnded(
                before: now.addingTimeInterval(-context.limits.recordRetention),
                dead: now.addingTimeInterval(-context.limits.deadRetention)
            )
        }
        await attempt(nil, &report) { () async throws(UploadError) in
            try await state.forgetRecords(expiredBefore: now)
        }
        return report
    }

    /// Seconds between two full checks.
    private static let thoroughInterval: TimeInterval = 3600
    private static let pageSize = 500
    /// The most expired uploads that one sweep passes over.
    private static let mostLeft = 10_000

    private func expire(_ report: inout SweepReport) async {
        // In use, or failing: they stay at the front, and must not hide those behind them.
        var left: Set<UploadID> = []
        while true {
            let limit = Self.pageSize + left.count
            var page: [UploadID] = []
            await attempt(nil, &report) { () async throws(UploadError) in
                page = try await state.expiredUploads(at: context.now, limit: limit)
            }
            var ended = 0
            for id in page where left.insert(id).inserted {
                await attempt(id, &report) { () async throws(UploadError) in
                    let didEnd = try await lifecycle.leases.withLeaseIfFree(on: id) {
                        () async throws(UploadError) -> Bool in
                        // Read again: it may have been renewed since the page was read.
                        guard let upload = try await state.upload(id), lifecycle.isOver(upload) else { return false }
                        try await lifecycle.end(upload, as: .expired)
                        return true
                    }
                    if didEnd == true {
                        ended += 1
                        left.remove(id)
                    }
                }
            }
            report.expired += ended
            if page.count < limit || left.count >= Self.mostLeft { return }
        }
    }

    private func completeUnrecorded(_ report: inout SweepReport) async {
        var query = UploadQuery(states: [.open], limit: Self.pageSize)
        while true {
            var page: [Upload] = []
            var lengths: [UploadID: Int64] = [:]
            await attempt(nil, &report) { () async throws(UploadError) in
                let found = try await state.uploads(query)
                let appended = found.filter { $0.isAppended && $0.length != nil }.map(\.id)
                if !appended.isEmpty { lengths = try await storage.currentLengths(of: appended) }
                page = found
            }
            for upload in page {
                var completed = false
                await attempt(upload.id, &report) { () async throws(UploadError) in
                    if upload.takesParts {
                        guard upload.attributes?.completing != nil else { return }
                    } else if upload.isAppended {
                        guard let wanted = upload.length else { return }
                        var length = lengths[upload.id]
                        // To report why it is not known.
                        if length == nil { length = try await storage.currentLength(of: upload.id) }
                        guard length == wanted else { return }
                    }
                    let reconciled = try await lifecycle.leases.withLeaseIfFree(on: upload.id) {
                        () async throws(UploadError) -> Upload in
                        try await lifecycle.reconciled(upload.id)
                    }
                    completed = reconciled?.state == .completed
                }
                if completed { report.completed += 1 }
            }
            guard page.count == Self.pageSize, let last = page.last else { return }
            query.before = last.id
        }
    }

    /// Retries removals that failed before; another process finds these blobs among the orphans.
    private func removeAgain(_ report: inout SweepReport) async {
        var removed = 0
        for id in lifecycle.unremovedUploads {
            await attempt(id, &report) { () async throws(UploadError) in
                let isRemoved: Void? = try await lifecycle.leases.withLeaseIfFree(on: id) {
                    () async throws(UploadError) in
                    try await storage.remove(id)
                }
                guard isRemoved != nil else { return }
                lifecycle.noteRemoved(id)
                removed += 1
            }
        }
        report.orphansRemoved += removed
    }

    /// Blobs without a living record, found by a check of all blobs.
    private struct Orphans {
        /// Blobs whose end was recorded.
        var ended: [UploadID] = []
        /// Blobs without a record.
        var unknown: [UploadID] = []
        var unknownCount = 0
        var blobCount = 0
        var isComplete = false

        /// Maximum number per sweep.
        static let most = 100_000

        /// More than interrupted requests would leave: the blobs are probably media whose records were lost.
        var isSuspicious: Bool { unknownCount > 20 && unknownCount > blobCount / 20 }
    }

    /// Removes blobs whose end was recorded, and sets aside blobs without a record.
    ///
    /// - Parameters:
    ///   - date: Younger blobs are left, because they may be about to be recorded.
    ///   - unknown: If nothing can be set aside, younger blobs without a record are left.
    ///   - report: Updated with the result.
    private func removeOrphans(olderThan date: Date, unknownFrom unknown: Date, _ report: inout SweepReport) async {
        let orphans = await findOrphans(olderThan: date, unknownFrom: storage.keepsOrphans ? date : unknown, &report)
        report.orphansRemoved += await forEach(orphans.ended, &report) { id throws(UploadError) in
            try await storage.remove(id)
        }
        // After an incomplete check, the number of orphans is unknown.
        guard orphans.isComplete else { return }
        var isAllowed = !orphans.isSuspicious
        if !isAllowed {
            await attempt(nil, &report) { () async throws(UploadError) in isAllowed = try await isApproved() }
        }
        if isAllowed {
            let (now, isKept) = (context.now, context.limits.quarantine > 0)
            report.orphansSetAside += await forEach(orphans.unknown, &report) { id throws(UploadError) in
                if isKept { try await storage.setAside(id, at: now) } else { try await storage.remove(id) }
            }
        } else {
            report.orphansLeft = orphans.unknownCount
        }
        context.observer.observe(
            .swept(blobs: orphans.blobCount, setAside: report.orphansSetAside, left: report.orphansLeft)
        )
    }

    private func findOrphans(
        olderThan date: Date,
        unknownFrom unknown: Date,
        _ report: inout SweepReport
    ) async -> Orphans {
        var orphans = Orphans()
        var last: UploadID?
        while true {
            var page: [UploadID]?
            await attempt(nil, &report) { () async throws(UploadError) in
                let found = try await storage.list(after: last, limit: Self.pageSize)
                // Read before the records: an upload that is recorded later is still in this set.
                let unrecorded = unrecorded.ids
                let old = found.filter { $0.createdAt <= date && !unrecorded.contains($0) }
                let needed = try await state.needed(old)
                let unneeded = old.filter { !needed.contains($0) }
                let known = unneeded.isEmpty ? [:] : try await state.uploads(unneeded)
                orphans.ended += unneeded.filter { known[$0] != nil }
                let others = unneeded.filter { known[$0] == nil && $0.createdAt <= unknown }
                orphans.unknown += others.prefix(Orphans.most - orphans.unknown.count)
                orphans.unknownCount += others.count
                orphans.blobCount += found.count
                page = found
            }
            guard let page else { return orphans }
            guard let final = page.last else {
                orphans.isComplete = true
                return orphans
            }
            last = final
        }
    }

    /// - Returns: How many were processed: those not in use.
    private func forEach(
        _ ids: [UploadID],
        _ report: inout SweepReport,
        _ work: (UploadID) async throws(UploadError) -> Void
    ) async -> Int {
        var count = 0
        for id in ids {
            await attempt(id, &report) { () async throws(UploadError) in
                let done: Void? = try await lifecycle.leases.withLeaseIfFree(on: id) { () async throws(UploadError) in
                    try await work(id)
                }
                if done != nil { count += 1 }
            }
        }
        return count
    }

    /// Runs one step; a failure is reported and does not stop the other steps.
    private func attempt(
        _ id: UploadID?,
        _ report: inout SweepReport,
        _ step: () async throws(UploadError) -> Void
    ) async {
        do throws(UploadError) {
            try await step()
        } catch {
            // It ended, elsewhere or in this step, or its finishing continues until a later sweep: no failure.
            if [.gone, .notFound, .digestMismatch, .finishing].contains(error.code) { return }
            report.failures += 1
            context.report(error, of: id)
        }
    }
}

extension Upload {
    /// Whether its bytes are appended to one blob, rather than put in parts or joined from other uploads.
    fileprivate var isAppended: Bool { !takesParts && concatenation?.parts == nil }
}
