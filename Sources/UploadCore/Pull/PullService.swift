internal import Bytes
package import Foundation
internal import Synchronization

/// What `PullService` allows itself.
package struct PullLimits: Sendable, Equatable {
    /// At the same time; at least 1.
    package var concurrency: Int
    /// Failures in a row, without a byte of progress, after which a pull is given up; at least 1.
    package var attempts: Int
    /// Seconds before the second attempt; doubled for each further failure in a row.
    package var retryDelay: TimeInterval
    /// Seconds that a delay has at most, what the origin asks for included.
    package var longestDelay: TimeInterval
    /// Seconds after which another process goes on with the pulls of one that died.
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

/// How an attempt of a pull ended, for metrics and logs.
package enum PullEvent: Sendable {
    case completed(PullJob)
    /// Is tried again at `nextAttemptAt`.
    case interrupted(PullJob, PullJob.Reason)
    case failed(PullJob, PullJob.Reason)
}

/// Fetches the bytes of uploads from where they are, some at a time, until each is complete or given up.
///
/// It appends as any client does, so limits, leases, expiry and durability are those of all uploads. Wherever the process
/// dies, the rows tell what is to be done:
///
/// | died after | what is found | what happens |
/// |---|---|---|
/// | some bytes stored | a job with validator, an open upload | the rest is asked for, if the content is still the same |
/// | all bytes stored | the same, as long as the job says | the upload is completed |
/// | old bytes taken back, new validator not recorded | an empty upload | it begins anew |
/// | completed | a job whose upload is complete | the job ends |
/// | given up, upload not ended | a job that has failed | the upload is terminated |
///
/// The end of an upload closes its job in the same transaction.
///
/// Who works on a job has claimed it, and renews the claim while the work goes on, so that of several processes with one state
/// each works on other jobs. Who has lost a claim, because they were frozen or cut off from the state, can record nothing more.
package final class PullService: Sendable {
    private let service: UploadService
    private let origin: any PullOrigin
    private let sealer: PullSealer
    private let limits: PullLimits
    private let observe: @Sendable (PullEvent) -> Void
    private struct Attempt {
        let job: PullJob
        let task: Task<Void, Never>
        /// When the claim ends, unless it is renewed.
        var claimEnd: ContinuousClock.Instant
    }

    private let running = Mutex<[UploadID: Attempt]>([:])
    private let wakeUps: AsyncStream<Void>
    private let wakeUp: AsyncStream<Void>.Continuation

    /// `observe` is called on any thread, and must be quick.
    package init(
        service: UploadService,
        origin: any PullOrigin,
        sealer: PullSealer,
        limits: PullLimits,
        observe: @escaping @Sendable (PullEvent) -> Void
    ) {
        self.service = service
        self.origin = origin
        self.sealer = sealer
        self.limits = limits
        self.observe = observe
        (wakeUps, wakeUp) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Begins a pull: records the upload and that its bytes are to be fetched, both or neither.
    ///
    /// - Throws: As `UploadService.create`.
    package func begin(_ new: NewUpload, under grant: Grant) async throws(UploadError) -> Upload {
        let upload = try await service.create(new, under: grant)
        wakeUp.yield()
        return upload
    }

    /// The job of an upload; `nil` for an upload that is not pulled.
    package func job(of id: UploadID) async throws(UploadError) -> PullJob? {
        guard var job = try await service.state.pull(id) else { return nil }
        job.url = sealer.open(job.sealed)?.shown ?? ""
        return job
    }

    package func isRunning(_ id: UploadID) -> Bool { running.withLock { $0[id] != nil } }

    /// Stops fetching, because the upload was ended.
    package func cancel(_ id: UploadID) {
        running.withLock { $0[id]?.task }?.cancel()
        wakeUp.yield()
    }

    // MARK: Running

    /// Works until the task is cancelled, then lets what runs save what it has.
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

    /// Starts what is due, as far as there is room.
    ///
    /// - Returns: Seconds until something else is due.
    private func startDue(_ group: inout DiscardingTaskGroup) async -> TimeInterval {
        let room = limits.concurrency - running.withLock { $0.count }
        // An end makes room, and is heard.
        if room <= 0 { return Self.longestWait }
        do throws(UploadError) {
            let claimEnd = ContinuousClock.now + .seconds(limits.claim)
            let jobs = try await service.state.claimPulls(limit: room, for: limits.claim)
            for job in jobs { start(job, until: claimEnd, &group) }
            if jobs.count == room { return Self.longestWait }
            let next = try await service.state.nextPull() ?? Self.longestWait
            return min(Self.longestWait, max(Self.shortestWait, next))
        } catch {
            service.report(error, of: nil)
            return Self.longestWait
        }
    }

    /// Renews the claims of what runs, and ends what is not ours any more.
    private func keepClaims() async {
        while (try? await Task.sleep(for: .seconds(limits.claim / 3))) != nil {
            let jobs = running.withLock { $0.values.map(\.job) }
            if jobs.isEmpty { continue }
            let claimEnd = ContinuousClock.now + .seconds(limits.claim)
            var held: Set<UploadID>?
            do throws(UploadError) {
                held = try await service.state.renewPulls(jobs, for: limits.claim)
            } catch {
                service.report(error, of: nil)
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

    /// Seconds between two looks at the state, where nothing says that there is something new.
    private static let longestWait: TimeInterval = 30
    /// What is due was taken by somebody else just now.
    private static let shortestWait: TimeInterval = 0.01

    private func start(_ job: PullJob, until claimEnd: ContinuousClock.Instant, _ group: inout DiscardingTaskGroup) {
        let id = job.uploadID
        // A task of its own, so that it can be ended by itself; the group's task waits for it and hands cancellation on.
        let work = Task { await attempt(job) }
        let former = running.withLock { $0.updateValue(Attempt(job: job, task: work, claimEnd: claimEnd), forKey: id) }
        // The claim was lost while this process was frozen, and has come back to it.
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

    // MARK: One attempt

    /// Why an attempt ends.
    private enum End: Error {
        case completed
        /// The upload has ended: there is nothing to fetch it for.
        case over
        case failure(PullFailure)
        /// What is stored can not be continued; it is to begin anew.
        case outdated(PullJob.Reason)
    }

    func attempt(_ before: PullJob) async {
        var job = before
        var end: End
        do throws(End) {
            if job.isFailed { throw .over }
            try await fetch(&job)
            end = .completed
        } catch {
            end = error
        }
        // A request that the end of the upload, or of the process, cut short is nobody's failure.
        if Task.isCancelled, case .failure = end { end = .failure(PullFailure("stopped", "stopped", .none)) }
        do throws(UploadError) {
            try await conclude(job, end)
        } catch {
            // The row says what it said before, and is read again; not at once, as it may be so for a while.
            service.report(error, of: job.uploadID)
            try? await Task.sleep(for: .seconds(limits.retryDelay))
        }
    }

    /// Fetches everything that is missing, with as many requests as the origin wants.
    private func fetch(_ job: inout PullJob) async throws(End) {
        let id = job.uploadID
        guard let request = sealer.open(job.sealed) else {
            throw .failure(
                PullFailure("request_unreadable", "the master secret has changed since; pull it again", .final)
            )
        }
        while true {
            let upload = try await core { () throws(UploadError) in
                try await service.status(of: id, .told(isLast: false))
            }
            if upload.state == .completed { return }
            note(progress: upload.offset, &job)
            // Stored bytes always belong to one content, the one whose size is recorded.
            if upload.offset == job.total { return try await complete(upload) }
            if try await step(&job, upload, request) { return }
        }
    }

    /// Makes one request, and stores what it brings.
    ///
    /// - Returns: Whether the upload is complete.
    private func step(_ job: inout PullJob, _ upload: Upload, _ request: PullRequest) async throws(End) -> Bool {
        let rest: OriginRest? =
            if upload.offset > 0, let validator = job.validator {
                OriginRest(offset: upload.offset, validator: validator)
            } else {
                nil
            }
        job.attempts += 1
        try await record(job)
        let answer: OriginAnswer
        do throws(PullFailure) {
            answer = try await origin.open(request, rest: rest)
        } catch {
            throw .failure(error)
        }
        switch answer {
        case .nothing(let total):
            guard total == nil || total == upload.offset, job.total == nil || job.total == upload.offset else {
                throw .outdated(Self.changed)
            }
            try await complete(upload)
            return true
        case .part(let content, let offset, let end):
            guard offset == upload.offset, content.total == nil || job.total == nil || content.total == job.total else {
                throw .outdated(Self.changed)
            }
            guard let total = content.total ?? job.total else { throw .outdated(Self.unclear) }
            return try await store(content, &job, upload, isLast: end == total)
        case .whole(let content):
            let upload = try await beginAnew(content, &job, upload, request)
            return try await store(content, &job, upload, isLast: true)
        }
    }

    /// Makes the upload ready for the first byte of a content.
    private func beginAnew(
        _ content: OriginContent,
        _ job: inout PullJob,
        _ before: Upload,
        _ request: PullRequest
    ) async throws(End) -> Upload {
        var upload = before
        let limit = service.mostBytes(of: upload)
        if let total = content.total, total > limit { throw .failure(Self.tooLarge(limit)) }
        var values = upload.metadata.values
        let told = UploadMetadata(values: request.metadata)
        if told.filename == nil { values["filename"] = content.filename }
        if told.contentType == nil { values["filetype"] = content.contentType }
        let metadata = UploadMetadata(describing: values)
        try await core { () throws(UploadError) in
            try await service.describe(upload, as: metadata, contentTypes: job.contentTypes)
        }
        // In this order: what is stored must never belong to another content than the validator.
        if upload.offset > 0 {
            try await core { () throws(UploadError) in try await service.restart(upload.id) }
            upload.offset = 0
        }
        job.validator = content.validator
        job.total = content.total
        try await record(job)
        return upload
    }

    private func store(
        _ content: OriginContent,
        _ job: inout PullJob,
        _ before: Upload,
        isLast: Bool
    ) async throws(End) -> Bool {
        let upload: Upload
        // A large content may take longer than an upload lives without an append, and the process may die at its end.
        var expiresAt = before.expiresAt
        let renew = { [service] (now: Upload) async -> Void in
            var current = now
            current.expiresAt = expiresAt
            current.updatedAt = service.now
            expiresAt = await service.renewedExpiry(of: current)
        }
        do throws(UploadError) {
            upload = try await service.append(
                to: before.id,
                at: before.offset,
                // The length is not promised by a client, so nothing is declared: another content may follow.
                contentLength: nil,
                finish: .told(isLast: isLast),
                expecting: nil,
                from: content.source,
                progress: renew
            )
        } catch {
            throw end(of: error, content.failure())
        }
        note(progress: upload.offset, &job)
        return upload.state == .completed
    }

    private func complete(_ upload: Upload) async throws(End) {
        _ = try await core { () throws(UploadError) in
            try await service.append(
                to: upload.id,
                at: upload.offset,
                contentLength: nil,
                finish: .told(isLast: true),
                expecting: nil,
                from: ArraySource([])
            )
        }
    }

    private func note(progress offset: Int64, _ job: inout PullJob) {
        guard offset > job.furthest else { return }
        job.furthest = offset
        job.failures = 0
    }

    private func record(_ job: PullJob) async throws(End) {
        let known = try await core { () throws(UploadError) in try await service.state.update(job, .working) }
        if !known { throw .over }
    }

    private func core<Success>(_ body: () async throws(UploadError) -> Success) async throws(End) -> Success {
        do throws(UploadError) {
            return try await body()
        } catch {
            throw end(of: error, nil)
        }
    }

    private func end(of error: UploadError, _ failure: PullFailure?) -> End {
        switch error.code {
        case .gone, .notFound: .over
        // The upload is complete, or somebody ends it: what it is, is seen with the next look.
        case .notOpen, .interrupted: .failure(PullFailure("interrupted", "interrupted", .none))
        case .disconnected, .timedOut, .invalidRequest:
            .failure(failure ?? PullFailure(error.code.name, error.message))
        case .tooLarge(let limit): .failure(Self.tooLarge(limit))
        case .contentTypeRefused, .quotaExceeded, .rejected:
            .failure(PullFailure(error.code.name, error.message, .final))
        case .storageFull, .storageFailure, .busy, .unavailable:
            .failure(PullFailure(error.code.name, error.message, .wait))
        default: .failure(PullFailure(error.code.name, error.message))
        }
    }

    private static func tooLarge(_ limit: Int64) -> PullFailure {
        PullFailure("content_too_large", "the content has more than \(limit) bytes", .final)
    }

    private static let changed = PullJob.Reason(
        code: "content_changed",
        message: "the content has changed since it was fetched in part; it begins anew"
    )
    private static let unclear = PullJob.Reason(
        code: "range_unclear",
        message: "the origin does not tell what part it sends; it begins anew"
    )

    // MARK: Its end

    private func conclude(_ before: PullJob, _ end: End) async throws(UploadError) {
        var job = before
        switch end {
        case .completed:
            job.isFailed = false
            job.lastError = nil
            try await close(&job)
            observe(.completed(job))
        case .over:
            if job.isFailed, try await !isEnded(job.uploadID) { return try await conclude(job, .completed) }
            try await close(&job)
        case .outdated(let reason):
            job.validator = nil
            job.total = nil
            try await retry(&job, reason, after: nil)
        case .failure(let failure):
            switch failure.consequence {
            case .none:
                guard try await service.state.upload(job.uploadID)?.state == .open else { return try await close(&job) }
                // Looked at again soon, or when the process runs again.
                _ = try await wait(&job, limits.retryDelay)
            case .wait:
                job.lastError = failure.reason
                if try await wait(&job, min(limits.retryDelay * 16, limits.longestDelay)) {
                    observe(.interrupted(job, failure.reason))
                }
            case .retry(let delay): try await retry(&job, failure.reason, after: delay)
            case .final: try await giveUp(&job, failure.reason)
            }
        }
    }

    private func retry(_ job: inout PullJob, _ reason: PullJob.Reason, after asked: TimeInterval?)
        async throws(UploadError)
    {
        job.failures += 1
        guard job.failures < limits.attempts else { return try await giveUp(&job, reason) }
        job.lastError = reason
        let doubled = limits.retryDelay * pow(2, Double(min(job.failures - 1, 30)))
        // Spread, so that what failed together does not come back together.
        let delay = min(doubled, limits.longestDelay) * Double.random(in: 0.75...1)
        let wanted = max(delay, min(asked ?? 0, max(limits.longestDelay, 3600)))
        if try await wait(&job, wanted) { observe(.interrupted(job, reason)) }
    }

    /// - Returns: `false` if the job is not ours any more.
    private func wait(_ job: inout PullJob, _ seconds: TimeInterval) async throws(UploadError) -> Bool {
        job.nextAttemptAt = service.now.addingTimeInterval(seconds).wholeMilliseconds
        return try await service.state.update(job, .due(after: seconds))
    }

    /// First it is recorded why, then the upload is ended, and at last the job: a crash in between loses neither.
    private func giveUp(_ job: inout PullJob, _ reason: PullJob.Reason) async throws(UploadError) {
        job.isFailed = true
        job.lastError = reason
        guard try await service.state.update(job, .working) else { return }
        guard try await isEnded(job.uploadID) else { return try await conclude(job, .completed) }
        try await close(&job)
        observe(.failed(job, reason))
    }

    /// Ends an upload that can not be fetched.
    ///
    /// - Returns: `false` if it turns out to be complete, as by a sweep that found all its bytes; then it stays.
    private func isEnded(_ id: UploadID) async throws(UploadError) -> Bool {
        do throws(UploadError) {
            try await service.terminate(id, .open, asking: false)
            return true
        } catch {
            switch error.code {
            case .gone, .notFound: return true
            case .notOpen: return false
            default: throw error
            }
        }
    }

    /// Nothing is left to do, and the secrets are not needed any more.
    private func close(_ job: inout PullJob) async throws(UploadError) {
        job.nextAttemptAt = nil
        job.sealed = ""
        _ = try await service.state.update(job, .never)
    }
}
