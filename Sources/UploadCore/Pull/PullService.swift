internal import Bytes
package import Foundation
internal import Synchronization
package import Tracing
package import UploadModel

/// The limits of `PullService`.
package struct PullLimits: Sendable, Equatable {
    /// Number of concurrent pulls; at least 1.
    ///
    /// One user has at most all but one of them, if there are several, and none has two while another user waits with none.
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
        let startedAt = ContinuousClock.now
        /// When the claim ends unless it is renewed.
        var claimEnd: ContinuousClock.Instant
        /// Whether it was stopped to give its place to another user, and has not ended yet.
        var isGivingWay = false
    }

    private let running = Mutex<[UploadID: Attempt]>([:])
    /// Users who have had a turn since all who wait had one.
    private let round = Mutex<Set<SubjectName>>([])
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
                let room = room
                // When a pull ends, the loop is woken.
                if room.count == 0 { return try await makeRoom(room) }
                let claimEnd = ContinuousClock.now + .seconds(limits.claim)
                if let job = try await claim(room) {
                    start(job, until: claimEnd, &group)
                    continue
                }
                let next = try await pulls.nextPull(except: room.full) ?? Self.longestWait
                return min(Self.longestWait, max(Self.shortestWait, next))
            }
            return Self.longestWait
        } catch {
            uploads.context.report(error, of: nil)
            return Self.longestWait
        }
    }

    private var room: PullRoom {
        running.withLock { PullRoom(limits, running: $0.values.map(\.job.subject)) }
    }

    /// The earliest job that is due, of those users who have the fewest places, and among them of one whose turn it is.
    private func claim(_ room: PullRoom) async throws(UploadError) -> PullJob? {
        for others in room.turns {
            let all = round.withLock { $0.union(others.map { SubjectName($0) }) }
            if all.count > others.count, let job = try await claim(except: all.map(\.text)) {
                noteTurn(of: job)
                return job
            }
            if let job = try await claim(except: others) {
                // All others who wait have had theirs.
                if all.count > others.count { round.withLock { $0 = [] } }
                noteTurn(of: job)
                return job
            }
        }
        return nil
    }

    private func claim(except others: [String]) async throws(UploadError) -> PullJob? {
        try await pulls.claimPulls(limit: 1, except: others, for: limits.claim).first
    }

    private func noteTurn(of job: PullJob) {
        guard let subject = job.subject else { return }
        round.withLock { round in
            if round.count >= Self.longestRound { round = [] }
            round.insert(SubjectName(subject))
        }
    }

    /// Stops a pull of a user who has several places, if a user who has none waits for one.
    ///
    /// It is the last of those of the user with the most places, and goes on later like one that the process stopped.
    ///
    /// - Parameter room: Without a free place.
    /// - Returns: Seconds until a pull for which this may have to be done is due.
    /// - Throws: `.storageFailure`.
    private func makeRoom(_ room: PullRoom) async throws(UploadError) -> TimeInterval {
        guard let most = room.largest, !running.withLock({ $0.values.contains(where: \.isGivingWay) }) else {
            return Self.longestWait
        }
        let next = try await pulls.nextPull(except: room.served) ?? Self.longestWait
        if next > 0 { return min(Self.longestWait, max(Self.shortestWait, next)) }
        let task = running.withLock { running -> Task<Void, Never>? in
            let theirs = running.filter { $0.value.job.subject?.isSameSubject(as: most) ?? false }
            guard theirs.count > 1, let last = theirs.max(by: { $0.value.startedAt < $1.value.startedAt }) else {
                return nil
            }
            running[last.key]?.isGivingWay = true
            return last.value.task
        }
        task?.cancel()
        return Self.longestWait
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
    /// Most users of a round; each claim names them all.
    private static let longestRound = 256
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
        await TraceScope.$current.with(scope) { await attempt(job) }
        scope.end("pull", .work, [FinishedSpan.Attribute("sluice.upload.id", job.uploadID.text)])
    }
}

/// Whose pulls may start next, in turns by user.
///
/// An origin that sends just fast enough occupies its place for weeks. So no user has all places, whichever dialects their
/// pulls come from, those who have fewer places come before those who have more, and a user has more than one only while
/// nobody else waits with none. Pulls of no user are the app's own: each has its turn like that of a user with no place.
struct PullRoom {
    /// The number of free places.
    let count: Int
    /// Users whose pulls wait, by turn: first all who have a place, then all who have more than the fewest, at last `full`.
    let turns: [[String]]
    /// The user with the most places, if they are several.
    let largest: String?

    /// Users that have their share.
    var full: [String] { turns[turns.count - 1] }
    /// Users that have a place.
    var served: [String] { turns[0] }

    /// - Parameters:
    ///   - limits: The number of all places.
    ///   - running: The users of the running pulls, each as often as they have one.
    init(_ limits: PullLimits, running: [String?]) {
        let most = max(1, limits.concurrency - 1)
        var counts: [SubjectName: Int] = [:]
        for subject in running { if let subject { counts[SubjectName(subject), default: 0] += 1 } }
        count = max(0, limits.concurrency - running.count)
        let steps = Set(counts.values.filter { $0 < most }).sorted() + [most]
        turns = steps.map { least in counts.filter { $0.value >= least }.keys.map(\.text) }
        let first = counts.max { ($0.value, $1.key.text) < ($1.value, $0.key.text) }
        largest = first.flatMap { $0.value > 1 ? $0.key.text : nil }
    }
}
