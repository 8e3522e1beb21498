internal import Bytes
package import Foundation
internal import Synchronization
package import Tracing
package import UploadModel

/// The limits of `PullService`.
package struct PullLimits: Sendable, Equatable {
    /// Number of concurrent pulls; at least 1.
    ///
    /// One user has at most all but one of them, if there are several.
    package var concurrency: Int
    /// Failures in a row without progress after which a pull is given up; at least 1.
    package var attempts: Int
    /// Seconds before the second attempt; doubles with each further failure in a row.
    package var retryDelay: TimeInterval
    /// Maximum delay in seconds, including a delay that the origin requests.
    package var longestDelay: TimeInterval
    /// Seconds after which another process takes over the pulls of one that died.
    package var claim: TimeInterval

    package init(
        concurrency: Int = 4,
        attempts: Int = 10,
        retryDelay: TimeInterval = 1,
        longestDelay: TimeInterval = 600,
        claim: TimeInterval = 30
    ) {
        self.concurrency = concurrency
        self.attempts = attempts
        self.retryDelay = retryDelay
        self.longestDelay = longestDelay
        self.claim = claim
    }
}

/// The outcome of an attempt, for metrics and logs.
package enum PullEvent: Sendable {
    case completed(PullJob)
    /// Will be tried again at `nextAttemptAt`.
    case interrupted(PullJob, PullJob.Reason)
    case failed(PullJob, PullJob.Reason)
    /// An upload has got so many bytes more than it ever had.
    case progressed(bytes: Int64)
    /// An attempt ended, in whatever way.
    case ended(after: Duration)
}

/// Fetches the bytes of uploads from their origins, several at a time, until each is complete or given up.
///
/// It appends like any client, so the same limits, leases, expiry and durability apply. Wherever the process dies, the
/// recorded rows determine what happens next:
///
/// | died after | what is found | what happens |
/// |---|---|---|
/// | some bytes stored | a job with validator, an open upload | the rest is requested if the content is still the same |
/// | all bytes stored | the same, with as many bytes as the job says | the upload is completed |
/// | old bytes removed, new validator not recorded | an empty upload | the fetch starts again |
/// | completed | a job whose upload is complete | the job ends |
/// | given up, upload not ended | a job that has failed | the upload is terminated |
///
/// The end of an upload closes its job in the same transaction.
///
/// A worker claims a job and renews the claim while it works, so that processes that share a state work on different
/// jobs. A worker that has lost its claim, because it was frozen or cut off from the state, can no longer record
/// anything.
package final class PullService: Sendable {
    let uploads: UploadService
    let pulls: any PullRecords
    let origin: any PullOrigin
    let sealer: PullSealer
    let limits: PullLimits
    let revoked: RevocationList
    let endsWithKey: Bool
    let observe: @Sendable (PullEvent) -> Void
    private let tracer: (any SpanRecorder)?
    private struct Attempt {
        let job: PullJob
        let task: Task<Void, Never>
        /// When the claim ends unless it is renewed.
        var claimEnd: ContinuousClock.Instant
    }

    private let running = Mutex<[UploadID: Attempt]>([:])
    private let wakeUps: AsyncStream<Void>
    private let wakeUp: AsyncStream<Void>.Continuation

    /// - Parameters:
    ///   - uploads: Appends the bytes.
    ///   - pulls: The jobs.
    ///   - origin: Fetches.
    ///   - sealer: Decrypts the requests.
    ///   - limits: See `PullLimits`.
    ///   - revoked: Is asked before each request for the key and the user that admitted the upload; a pull of a revoked
    ///     one reaches only public addresses.
    ///   - endsWithKey: Whether such a pull ends instead, as upload URLs do (`uploads.revokeWithKey`).
    ///   - tracer: Begins a trace for each attempt.
    ///   - observe: Called on any thread; must return quickly.
    package init(
        uploads: UploadService,
        pulls: any PullRecords,
        origin: any PullOrigin,
        sealer: PullSealer,
        limits: PullLimits,
        revoked: RevocationList,
        endsWithKey: Bool = false,
        tracer: (any SpanRecorder)? = nil,
        observe: @escaping @Sendable (PullEvent) -> Void
    ) {
        self.uploads = uploads
        self.pulls = pulls
        self.origin = origin
        self.sealer = sealer
        self.limits = limits
        self.revoked = revoked
        self.endsWithKey = endsWithKey
        self.observe = observe
        self.tracer = tracer
        (wakeUps, wakeUp) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Starts a pull: records the upload and its job, both or neither.
    ///
    /// - Throws: The same errors as `UploadService.create`.
    package func begin(_ new: NewUpload, under grant: Grant) async throws(UploadError) -> Upload {
        let upload = try await uploads.create(new, under: grant)
        wakeUp.yield()
        return upload
    }

    /// The job of an upload; `nil` for an upload that is not pulled.
    package func job(of id: UploadID) async throws(UploadError) -> PullJob? {
        guard var job = try await pulls.pull(id) else { return nil }
        job.url = sealer.open(job.sealed)?.shown ?? ""
        return job
    }

    /// Number of pulls that this process works on.
    package var runningCount: Int { running.withLock { $0.count } }

    package func isRunning(_ id: UploadID) -> Bool { running.withLock { $0[id] != nil } }

    /// Stops the fetch of an upload that was ended.
    package func cancel(_ id: UploadID) {
        running.withLock { $0[id]?.task }?.cancel()
        wakeUp.yield()
    }

    // MARK: Running

    /// Runs until the task is cancelled, then lets running pulls save what they have.
    package func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.keepClaims() }
            while !Task.isCancelled {
                let delay = await startDue(&group)
                let timer = Task { [wakeUp] in
                    try? await Task.sleep(for: .seconds(delay))
                    if !Task.isCancelled { wakeUp.yield() }
                }
                var iterator = wakeUps.makeAsyncIterator()
                _ = await iterator.next()
                timer.cancel()
            }
        }
    }

    /// Starts jobs that are due, up to the concurrency limit and the share of each user.
    ///
    /// - Returns: Seconds until the next job is due.
    private func startDue(_ group: inout DiscardingTaskGroup) async -> TimeInterval {
        do throws(UploadError) {
            while !Task.isCancelled {
                let room = running.withLock { PullRoom(limits, running: $0.values.map(\.job.subject)) }
                // When a pull ends, the loop is woken.
                if room.count == 0 { return Self.longestWait }
                let claimEnd = ContinuousClock.now + .seconds(limits.claim)
                let jobs = try await pulls.claimPulls(limit: room.count, except: room.full, for: limits.claim)
                for job in jobs { start(job, until: claimEnd, &group) }
                if jobs.count == room.count { continue }
                let full = running.withLock { PullRoom(limits, running: $0.values.map(\.job.subject)) }.full
                let next = try await pulls.nextPull(except: full) ?? Self.longestWait
                return min(Self.longestWait, max(Self.shortestWait, next))
            }
            return Self.longestWait
        } catch {
            uploads.context.report(error, of: nil)
            return Self.longestWait
        }
    }

    /// Renews the claims of running pulls, and cancels pulls whose claim was lost.
    private func keepClaims() async {
        while (try? await Task.sleep(for: .seconds(limits.claim / 3))) != nil {
            let jobs = running.withLock { $0.values.map(\.job) }
            if jobs.isEmpty { continue }
            let claimEnd = ContinuousClock.now + .seconds(limits.claim)
            var held: Set<UploadID>?
            do throws(UploadError) {
                held = try await pulls.renewPulls(jobs, for: limits.claim)
            } catch {
                uploads.context.report(error, of: nil)
            }
            let lost = running.withLock { running in
                var lost: [Task<Void, Never>] = []
                for job in jobs {
                    guard let attempt = running[job.uploadID], attempt.job.claim == job.claim else { continue }
                    if held?.contains(job.uploadID) ?? (attempt.claimEnd > .now) {
                        if held != nil { running[job.uploadID]?.claimEnd = claimEnd }
                    } else {
                        lost.append(attempt.task)
                    }
                }
                return lost
            }
            for task in lost { task.cancel() }
        }
    }

    /// Maximum number of seconds between two checks of the state.
    private static let longestWait: TimeInterval = 30
    /// Seconds to wait after another process has just claimed what was due.
    private static let shortestWait: TimeInterval = 0.01

    private func start(_ job: PullJob, until claimEnd: ContinuousClock.Instant, _ group: inout DiscardingTaskGroup) {
        let id = job.uploadID
        // Unstructured, so that it can be cancelled on its own; the group's task waits for it and forwards
        // cancellation.
        let work = Task { await tracedAttempt(job) }
        let former = running.withLock { $0.updateValue(Attempt(job: job, task: work, claimEnd: claimEnd), forKey: id) }
        // This process lost the claim while it was frozen, and has claimed the job again.
        former?.task.cancel()
        group.addTask { [self] in
            await withTaskCancellationHandler {
                await work.value
            } onCancel: {
                work.cancel()
            }
            running.withLock { running in
                if running[id]?.job.claim == job.claim { running[id] = nil }
            }
            wakeUp.yield()
        }
    }

    /// Like `attempt`, as a trace of its own: it can come long after the request that asked for it.
    private func tracedAttempt(_ job: PullJob) async {
        guard let tracer else { return await attempt(job) }
        let scope = tracer.scope(continuing: nil)
        await TraceScope.$current.withValue(scope) { await attempt(job) }
        scope.end("pull", .work, [FinishedSpan.Attribute("sluice.upload.id", job.uploadID.text)])
    }
}

/// How many pulls may start next, and whose may not.
///
/// An origin that sends just fast enough occupies its place for weeks. So no user has all places, whichever dialects their
/// pulls come from. Pulls of no user are the app's own.
struct PullRoom {
    /// As many as may start whosever they are, except of `full`; 0 if there is no place.
    let count: Int
    /// Users that have their share.
    let full: [String]

    /// - Parameters:
    ///   - limits: The number of all places.
    ///   - running: The users of the running pulls, each as often as they have one.
    init(_ limits: PullLimits, running: [String?]) {
        let most = max(1, limits.concurrency - 1)
        var counts: [SubjectName: Int] = [:]
        for subject in running { if let subject { counts[SubjectName(subject), default: 0] += 1 } }
        full = counts.filter { $0.value >= most }.keys.map(\.text)
        // All that start next may belong to the user with the most places.
        let left = most - (counts.values.filter { $0 < most }.max() ?? 0)
        count = max(0, min(limits.concurrency - running.count, left))
    }
}
