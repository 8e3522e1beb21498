package import Foundation
internal import Synchronization
internal import UploadCore
package import UploadModel

extension InMemoryState {
    package func pull(_ id: UploadID) async throws(UploadError) -> PullJob? {
        let now = clock.now
        return tables.withLock { tables in
            guard var job = tables.pulls[id] else { return nil }
            job.claim = tables.pullClaims.number(of: id) ?? 0
            job.isClaimed = tables.pullClaims.end(of: id, at: now) != nil
            return job
        }
    }

    package func claimPulls(limit: Int, except subjects: [String], for duration: TimeInterval)
        async throws(UploadError) -> [PullJob]
    {
        let now = clock.now
        return tables.withLock { tables in
            let due = tables.pulls.values.filter { job in
                !job.isOf(subjects) && job.nextAttemptAt.map { $0 <= now } ?? false
                    && tables.pullClaims.end(of: job.uploadID, at: now) == nil
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

    package func nextPull(except subjects: [String]) async throws(UploadError) -> TimeInterval? {
        let now = clock.now
        return tables.withLock { tables in
            tables.pulls.values.filter { !$0.isOf(subjects) }.compactMap { job in
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

    package func explain(_ id: UploadID, _ reason: PullJob.Reason) async throws(UploadError) -> Bool {
        tables.withLock { tables in
            guard let job = tables.pulls[id], job.nextAttemptAt == nil, !job.isFailed else { return false }
            guard tables.uploads[id]?.state != .completed else { return false }
            tables.pulls[id]?.isFailed = true
            tables.pulls[id]?.lastError = reason
            return true
        }
    }
}

extension PullJob {
    fileprivate func isOf(_ subjects: [String]) -> Bool {
        subjects.contains { subject.isSameSubject(as: $0) }
    }
}
