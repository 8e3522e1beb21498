internal import Foundation
internal import Synchronization

extension UploadService {
    /// Ends what is over, forgets what ended long ago, and finishes what a crash left unfinished.
    ///
    /// Disturbs no request: what is in use is left for the next sweep. The parts that look at every open upload and every
    /// blob run in the first sweep of a process and then once an hour; of several processes with one state, in one of them.
    package func sweep() async -> SweepReport {
        var report = SweepReport()
        // What is no pair tells nothing about what may go.
        if refusal != nil { return report }
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
            let unknown = now.addingTimeInterval(-max(limits.orphanAge, limits.quarantine))
            await removeOrphans(olderThan: date, unknownFrom: unknown, &report)
            var leftovers = 0
            await attempt(nil, &report) { () async throws(UploadError) in
                leftovers = try await storage.removeLeftovers(from: date, ofUnknownFrom: unknown)
                leftovers += try await storage.removeOrphans(setAsideBefore: unknown)
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

    /// What a look at all blobs found of those that no record needs.
    private struct Orphans {
        /// Their end was recorded.
        var ended: [UploadID] = []
        /// There is no record of them.
        var unknown: [UploadID] = []
        var unknownCount = 0
        var blobCount = 0
        var isComplete = false

        /// At most so many in one sweep.
        static let most = 100_000

        /// More than requests leave that a crash cut off: that many without a record are rather media that lost theirs.
        var isSuspicious: Bool { unknownCount > 20 && unknownCount > blobCount / 20 }
    }

    /// Removes blobs whose end was recorded, and sets those aside that have no record.
    ///
    /// - Parameters:
    ///   - date: What is younger may be about to be recorded.
    ///   - unknown: Where nothing can be set aside, younger ones without a record stay where they are.
    ///   - report: Gets what was done.
    private func removeOrphans(olderThan date: Date, unknownFrom unknown: Date, _ report: inout SweepReport) async {
        let orphans = await findOrphans(olderThan: date, unknownFrom: storage.keepsOrphans ? date : unknown, &report)
        report.orphansRemoved += await forEach(orphans.ended, &report) { id throws(UploadError) in
            try await storage.remove(id)
        }
        // Of what was not looked at nobody knows how much it is.
        guard orphans.isComplete else { return }
        var isAllowed = !orphans.isSuspicious
        if !isAllowed {
            await attempt(nil, &report) { () async throws(UploadError) in isAllowed = try await isSweepApproved() }
        }
        if isAllowed {
            let (now, isKept) = (self.now, limits.quarantine > 0)
            report.orphansSetAside += await forEach(orphans.unknown, &report) { id throws(UploadError) in
                if isKept { try await storage.setAside(id, at: now) } else { try await storage.remove(id) }
            }
        } else {
            report.orphansLeft = orphans.unknownCount
        }
        observer.observe(
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
                // Looked at before the records: what is recorded after this is still among them.
                let unrecorded = unrecorded.withLock { $0 }
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

    /// - Returns: With how many `work` was done: those that nobody uses.
    private func forEach(
        _ ids: [UploadID],
        _ report: inout SweepReport,
        _ work: (UploadID) async throws(UploadError) -> Void
    ) async -> Int {
        var count = 0
        for id in ids {
            await attempt(id, &report) { () async throws(UploadError) in
                let done: Void? = try await leases.withLeaseIfFree(on: id) { () async throws(UploadError) in
                    try await work(id)
                }
                if done != nil { count += 1 }
            }
        }
        return count
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
