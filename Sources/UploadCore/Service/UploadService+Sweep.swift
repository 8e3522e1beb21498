internal import Foundation
internal import Synchronization

extension UploadService {
    /// Ends what is over, forgets what ended long ago, and finishes what a crash left unfinished.
    ///
    /// Disturbs no request: what is in use is left for the next sweep. The parts that look at every open upload and every
    /// blob run in the first sweep of a process and then once an hour; of several processes with one state, in one of them.
    package func sweep() async -> SweepReport {
        var report = SweepReport()
        let now = self.now
        let isFirst = isFirstSweep.exchange(false, ordering: .relaxed)
        var isThorough = isFirst
        await attempt(nil, &report) { () async throws(UploadError) in
            let isOurTurn = try await state.takeTurn(at: .thoroughSweep, every: Self.thoroughInterval)
            if isOurTurn { isThorough = true }
        }
        // First: an upload that has all its bytes must not expire for want of a record.
        if isThorough { await completeUnrecorded(&report) }
        await expire(&report)
        await removeAgain(&report)
        if isThorough {
            let date = now.addingTimeInterval(-limits.orphanAge)
            await removeOrphans(olderThan: date, &report)
            var leftovers = 0
            await attempt(nil, &report) { () async throws(UploadError) in
                leftovers = try await storage.removeLeftovers(from: date)
            }
            report.orphansRemoved += leftovers
        }
        await attempt(nil, &report) { () async throws(UploadError) in
            try await state.forgetEnded(before: now.addingTimeInterval(-limits.recordRetention))
        }
        return report
    }

    /// Seconds between two looks at everything.
    private static let thoroughInterval: TimeInterval = 3600
    private static let pageSize = 500

    private func expire(_ report: inout SweepReport) async {
        while true {
            var page: [UploadID] = []
            await attempt(nil, &report) { () async throws(UploadError) in
                page = try await state.expiredUploads(at: now, limit: Self.pageSize)
            }
            var ended = 0
            for id in page {
                await attempt(id, &report) { () async throws(UploadError) in
                    let didEnd = try await leases.withLeaseIfFree(on: id) { () async throws(UploadError) -> Bool in
                        // Read again: it may have been renewed since the page was read.
                        guard let upload = try await state.upload(id), isOver(upload) else { return false }
                        try await end(upload, as: .expired)
                        return true
                    }
                    if didEnd == true { ended += 1 }
                }
            }
            report.expired += ended
            // A page of which nothing could be ended would come again and again.
            if page.count < Self.pageSize || ended == 0 { return }
        }
    }

    private func completeUnrecorded(_ report: inout SweepReport) async {
        var query = UploadQuery(states: [.open], limit: Self.pageSize)
        while true {
            var page: [Upload] = []
            await attempt(nil, &report) { () async throws(UploadError) in page = try await state.uploads(query) }
            for upload in page {
                var completed = false
                await attempt(upload.id, &report) { () async throws(UploadError) in
                    if upload.takesParts {
                        guard upload.attributes?.completing != nil else { return }
                    } else if upload.concatenation?.parts == nil {
                        guard try await storage.currentLength(of: upload.id) == upload.length else { return }
                    }
                    let settled = try await leases.withLeaseIfFree(on: upload.id) {
                        () async throws(UploadError) -> Upload in
                        try await self.settled(upload.id)
                    }
                    completed = settled?.state == .completed
                }
                if completed { report.completed += 1 }
            }
            guard page.count == Self.pageSize, let last = page.last else { return }
            query.before = last.id
        }
    }

    /// Removes what could not be removed before; another process finds it among the orphans.
    private func removeAgain(_ report: inout SweepReport) async {
        var removed = 0
        for id in unremoved.withLock({ $0 }) {
            await attempt(id, &report) { () async throws(UploadError) in
                let isRemoved: Void? = try await leases.withLeaseIfFree(on: id) { () async throws(UploadError) in
                    try await storage.remove(id)
                }
                guard isRemoved != nil else { return }
                unremoved.withLock { _ = $0.remove(id) }
                removed += 1
            }
        }
        report.orphansRemoved += removed
    }

    private func removeOrphans(olderThan date: Date, _ report: inout SweepReport) async {
        var last: UploadID?
        while true {
            var page: [UploadID] = []
            var orphans: [UploadID] = []
            await attempt(nil, &report) { () async throws(UploadError) in
                page = try await storage.list(after: last, limit: Self.pageSize)
                // Looked at before the records: what is recorded after this is still among them.
                let unrecorded = unrecorded.withLock { $0 }
                let old = page.filter { $0.createdAt <= date && !unrecorded.contains($0) }
                let needed = try await state.needed(old)
                orphans = old.filter { !needed.contains($0) }
            }
            for id in orphans {
                var removed = false
                await attempt(id, &report) { () async throws(UploadError) in
                    removed =
                        try await leases.withLeaseIfFree(on: id) { () async throws(UploadError) in
                            try await storage.remove(id)
                        } != nil
                }
                if removed { report.orphansRemoved += 1 }
            }
            guard let final = page.last else { return }
            last = final
        }
    }

    /// Runs one step; a failure is reported and does not keep the others from being done.
    private func attempt(
        _ id: UploadID?,
        _ report: inout SweepReport,
        _ step: () async throws(UploadError) -> Void
    ) async {
        do throws(UploadError) {
            try await step()
        } catch {
            // Ended, by somebody else or by what was found: nothing is left to do. Or it goes on, and comes again.
            if [.gone, .notFound, .digestMismatch, .finishing].contains(error.code) { return }
            report.failures += 1
            self.report(error, of: id)
        }
    }
}
