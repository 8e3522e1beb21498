package import Bytes
internal import Synchronization
internal import Tracing
package import UploadModel

/// Grants each upload to one user at a time: on this node and, with a `LeaseAuthority`, across all nodes.
///
/// A newcomer asks the holder at once to stop (through its `SourceInterrupter`), and waits until the holder has saved
/// what it has and released the lease. Waiters are served in order of arrival, with one exception: a waiting writer is
/// rejected with `.interrupted` when a newer user arrives. It would be interrupted before its first byte anyway, and a
/// newer request for the same upload shows that the client has abandoned the older one. Users without an interrupter
/// (offset queries, terminations) are short and keep their place. Newcomers from other nodes are treated the same.
///
/// A newcomer may spare the holder: the holder is then interrupted only when some time has passed since it began and
/// since it last received bytes. So one of several unrelated writers makes progress.
package final class LeaseTable: Sendable {
    private typealias Verdict = Result<Void, UploadError>

    private struct User {
        let ticket: UInt64
        /// Ends the body that this user writes; `nil` for a user that finishes soon on its own.
        let interrupter: SourceInterrupter?
        /// The wait for another node; `nil` with a single node.
        let claim: LeaseClaim?

        /// Ends the body, or the wait for another node before it.
        func end(as failure: SourceFailure, _ error: UploadError) {
            guard let interrupter else { return }
            claim?.signal(.withdrawn(error))
            interrupter.interrupt(as: failure)
        }
    }

    private struct Waiter {
        let user: User
        let continuation: CheckedContinuation<Verdict, Never>
    }

    private struct Queue {
        private(set) var holder: User
        var holderWasInterrupted = false
        var waiters: [Waiter] = []
        /// Length of the upload at the last check; `nil` if there was none.
        private var length: Int64?
        /// When the holder began, or was last seen to have received bytes.
        private var movedAt = ContinuousClock.now

        init(holder: User) { self.holder = holder }

        mutating func passOn(to user: User) { self = Queue(holder: user, waiters: waiters) }

        private init(holder: User, waiters: [Waiter]) {
            self.holder = holder
            self.waiters = waiters
        }

        /// Yields to a newcomer.
        ///
        /// - Parameter sparing: Whether the holder is not asked to stop yet.
        /// - Returns: The holder, if it was not asked before, and the waiting writers, which are removed from the
        ///   queue.
        mutating func preempt(sparing: Bool = false) -> (holder: User?, superseded: [Waiter]) {
            let superseded = waiters.filter { $0.user.interrupter != nil }
            waiters.removeAll { $0.user.interrupter != nil }
            return (sparing ? nil : interruptedHolder(), superseded)
        }

        /// - Returns: The holder, if it was not asked before.
        mutating func interruptedHolder() -> User? {
            defer { holderWasInterrupted = true }
            return holderWasInterrupted ? nil : holder
        }

        /// How much longer the holder is to be spared, given the upload's current length.
        mutating func rest(of turn: Duration, _ length: Int64?) -> Duration {
            if self.length != length {
                self.length = length
                movedAt = .now
            }
            return movedAt + turn - .now
        }
    }

    private struct Contents {
        var queues: [UploadID: Queue] = [:]
        var lastTicket: UInt64 = 0
        var isShuttingDown = false
    }

    private let contents = Mutex(Contents())
    private let timeout: Duration
    private let protectedTurn: Duration
    private let authority: (any LeaseAuthority)?
    private let onTakeOver: @Sendable (UploadID) -> Void
    private let onRefusal: @Sendable (UploadID, UploadError) -> Void
    private let onUse: @Sendable (UploadID) -> Void

    /// - Parameters:
    ///   - timeout: How long a newcomer waits for the lease.
    ///   - protectedTurn: How long a holder without progress is spared.
    ///   - authority: Decides between nodes; `nil` with a single node.
    ///   - onTakeOver: Called on any thread when a holder was asked to stop.
    ///   - onRefusal: Called on any thread when a user did not get an upload.
    ///   - onUse: Called on any thread when a user got an upload, before it begins.
    package init(
        timeout: Duration,
        protectedTurn: Duration = .zero,
        among authority: (any LeaseAuthority)? = nil,
        onTakeOver: @escaping @Sendable (UploadID) -> Void = { _ in },
        onRefusal: @escaping @Sendable (UploadID, UploadError) -> Void = { _, _ in },
        onUse: @escaping @Sendable (UploadID) -> Void = { _ in }
    ) {
        self.timeout = timeout
        self.protectedTurn = protectedTurn
        self.authority = authority
        self.onTakeOver = onTakeOver
        self.onRefusal = onRefusal
        self.onUse = onUse
        authority?.attach { [weak self] in self?.preempt($0) }
    }

    /// Runs `body` while no other user of the upload runs.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - interrupter: Ends `body` early when a newer user arrives; `nil` if `body` is short.
    ///   - length: Returns the upload's current length, to spare a writer that makes progress; `nil` interrupts it at
    ///     once.
    ///   - body: Holds the lease until it returns or throws.
    /// - Returns: What `body` returns.
    /// - Throws: The errors of `body`; `.busy` if the lease was not released in time; `.interrupted` if a newer request
    ///   took over first; `.unavailable` for a writer after `interruptAll`, and when the task is cancelled while it
    ///   waits; with an authority, its errors.
    package func withLease<Success>(
        on id: UploadID,
        interrupter: SourceInterrupter?,
        sparing length: (@Sendable () async -> Int64?)? = nil,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        TraceScope.current?.note(upload: id.text)
        let user = newUser(interrupter)
        let length = protectedTurn > .zero ? length : nil
        let deadline = authority == nil ? nil : ContinuousClock.now + timeout
        if try !takeIfFree(id, user) {
            do throws(UploadError) {
                try await wait(for: id, user, sparing: length)
            } catch {
                onRefusal(id, error)
                throw error
            }
        }
        defer { release(id, user) }
        onUse(id)
        guard let authority, let claim = user.claim, let deadline else { return try await body() }
        do throws(UploadError) {
            if try await !takeAfterTurn(id, claim, authority, until: deadline, length) {
                try await authority.acquire(id, claim, until: deadline)
            }
        } catch {
            onRefusal(id, error)
            throw error
        }
        return try await running(id, authority, body)
    }

    /// Runs `body` if no other user holds or waits for the upload; disturbs none.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - interrupter: As of `withLease`.
    ///   - isNoted: Whether `onUse` is called.
    ///   - body: Holds the lease until it returns or throws.
    /// - Returns: `nil` if the upload is in use.
    /// - Throws: The errors of `body`; `.unavailable` for a writer after `interruptAll`; with an authority, its errors.
    package func withLeaseIfFree<Success>(
        on id: UploadID,
        interrupter: SourceInterrupter? = nil,
        isNoted: Bool = true,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success? {
        TraceScope.current?.note(upload: id.text)
        let user = newUser(interrupter)
        guard try takeIfFree(id, user) else { return nil }
        defer { release(id, user) }
        if isNoted { onUse(id) }
        guard let authority else { return try await body() }
        guard try await authority.acquireIfFree(id) else { return nil }
        return try await running(id, authority, body)
    }

    /// Waits for a writer on another node that is to be spared; its progress is visible only if the storage shows it to
    /// all nodes.
    ///
    /// - Returns: Whether the lease was acquired.
    private func takeAfterTurn(
        _ id: UploadID,
        _ claim: LeaseClaim,
        _ authority: any LeaseAuthority,
        until deadline: ContinuousClock.Instant,
        _ length: (@Sendable () async -> Int64?)?
    ) async throws(UploadError) -> Bool {
        guard let length else { return false }
        var last: Int64?
        var movedAt = ContinuousClock.now
        while try await !authority.acquireIfFree(id) {
            let found = await length()
            if found != last { (last, movedAt) = (found, .now) }
            let rest = min(movedAt + protectedTurn, deadline) - .now
            guard rest > .zero else { return false }
            if case .withdrawn(let error) = await claim.wait(for: min(rest, Self.look)) { throw error }
            if Task.isCancelled { throw Self.cancelled }
        }
        return true
    }

    /// Interval between checks of a spared writer on another node.
    private static let look = Duration.milliseconds(250)

    private func running<Success>(
        _ id: UploadID,
        _ authority: any LeaseAuthority,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        let result: Result<Success, UploadError>
        do throws(UploadError) {
            result = .success(try await body())
        } catch {
            result = .failure(error)
        }
        await authority.release(id)
        return try result.get()
    }

    /// Ends every writer with `.shuttingDown`; writers that wait or arrive later are rejected with `.unavailable`.
    package func interruptAll() {
        let (holders, waiters) = contents.withLock { contents in
            contents.isShuttingDown = true
            var holders: [User] = []
            var waiters: [Waiter] = []
            for (id, var queue) in contents.queues {
                queue.holderWasInterrupted = true
                holders.append(queue.holder)
                waiters += queue.waiters.filter { $0.user.interrupter != nil }
                queue.waiters.removeAll { $0.user.interrupter != nil }
                contents.queues[id] = queue
            }
            return (holders, waiters)
        }
        for waiter in waiters { waiter.continuation.resume(returning: .failure(Self.shuttingDown)) }
        for holder in holders { holder.end(as: .shuttingDown, Self.shuttingDown) }
    }

    /// Yields to a newcomer on another node.
    private func preempt(_ id: UploadID) {
        let (holder, superseded) = contents.withLock { $0.queues[id]?.preempt() ?? (nil, []) }
        end(holder, superseded, of: id)
    }

    private func end(_ holder: User?, _ superseded: [Waiter], of id: UploadID) {
        for waiter in superseded { waiter.continuation.resume(returning: .failure(Self.superseded)) }
        guard let holder, holder.interrupter != nil else { return }
        holder.end(as: .interrupted, Self.superseded)
        onTakeOver(id)
    }

    /// Number of uploads in use.
    package var count: Int { contents.withLock { $0.queues.count } }

    /// Number of users that wait for the upload.
    package func waiterCount(of id: UploadID) -> Int { contents.withLock { $0.queues[id]?.waiters.count ?? 0 } }

    // MARK: Steps

    private func newUser(_ interrupter: SourceInterrupter?) -> User {
        let ticket = contents.withLock { contents in
            contents.lastTicket += 1
            return contents.lastTicket
        }
        return User(ticket: ticket, interrupter: interrupter, claim: authority == nil ? nil : LeaseClaim())
    }

    private func takeIfFree(_ id: UploadID, _ user: User) throws(UploadError) -> Bool {
        let verdict: Result<Bool, UploadError> = contents.withLock { contents in
            if contents.isShuttingDown, user.interrupter != nil { return .failure(Self.shuttingDown) }
            guard contents.queues[id] == nil else { return .success(false) }
            contents.queues[id] = Queue(holder: user)
            return .success(true)
        }
        return try verdict.get()
    }

    private func wait(
        for id: UploadID,
        _ user: User,
        sparing length: (@Sendable () async -> Int64?)?
    ) async throws(UploadError) {
        // Owned by this call: cancelled when the wait ends.
        let timer = Task { [timeout] in
            try? await Task.sleep(for: timeout)
            if !Task.isCancelled { turnAway(id, user, Self.busy) }
        }
        defer { timer.cancel() }
        let waitTimeout = length.map { length in Task { await interruptHolder(of: id, for: user, after: length) } }
        defer { waitTimeout?.cancel() }
        let isSparing = length != nil
        let verdict = await withTaskCancellationHandler {
            await withCheckedContinuation { enqueue(id, Waiter(user: user, continuation: $0), isSparing) }
        } onCancel: {
            turnAway(id, user, Self.cancelled)
        }
        try verdict.get()
    }

    /// Asks the holder to stop when its protected time is over.
    private func interruptHolder(of id: UploadID, for user: User, after length: @Sendable () async -> Int64?) async {
        while !Task.isCancelled {
            let found = await length()
            var holder: User?
            let rest: Duration? = contents.withLock { contents in
                guard let rest = contents.queues[id]?.rest(of: protectedTurn, found) else { return nil }
                // A user that is not queued yet, or is already first, checks again or is cancelled.
                guard rest <= .zero,
                    contents.queues[id]?.waiters.contains(where: { $0.user.ticket == user.ticket }) == true
                else { return max(rest, .milliseconds(1)) }
                holder = contents.queues[id]?.interruptedHolder()
                return nil
            }
            end(holder, [], of: id)
            guard let rest else { return }
            try? await Task.sleep(for: rest)
        }
    }

    /// Adds the newcomer to the queue, and rejects the writers that it supersedes.
    private func enqueue(_ id: UploadID, _ newcomer: Waiter, _ isSparing: Bool) {
        var verdict: Verdict?
        var holder: User?
        var superseded: [Waiter] = []
        contents.withLock { contents in
            if contents.isShuttingDown, newcomer.user.interrupter != nil {
                verdict = .failure(Self.shuttingDown)
                return
            }
            guard var queue = contents.queues[id] else {
                contents.queues[id] = Queue(holder: newcomer.user)
                verdict = .success(())
                return
            }
            // If the task was cancelled before this point, the handler found no waiter to reject; handle it here.
            if Task.isCancelled {
                verdict = .failure(Self.cancelled)
                return
            }
            (holder, superseded) = queue.preempt(sparing: isSparing)
            queue.waiters.append(newcomer)
            contents.queues[id] = queue
        }
        if let verdict { newcomer.continuation.resume(returning: verdict) }
        end(holder, superseded, of: id)
    }

    private func turnAway(_ id: UploadID, _ user: User, _ error: UploadError) {
        let waiter: Waiter? = contents.withLock { contents in
            guard let index = contents.queues[id]?.waiters.firstIndex(where: { $0.user.ticket == user.ticket })
            else { return nil }
            return contents.queues[id]?.waiters.remove(at: index)
        }
        waiter?.continuation.resume(returning: .failure(error))
    }

    private func release(_ id: UploadID, _ user: User) {
        let next: Waiter? = contents.withLock { contents in
            guard var queue = contents.queues[id], queue.holder.ticket == user.ticket else { return nil }
            guard !queue.waiters.isEmpty else {
                contents.queues[id] = nil
                return nil
            }
            // A waiting writer is always last in the queue, so no later waiter has to interrupt it.
            let next = queue.waiters.removeFirst()
            queue.passOn(to: next.user)
            contents.queues[id] = queue
            return next
        }
        next?.continuation.resume(returning: .success(()))
    }

    // MARK: Errors

    private static let busy = UploadError(.busy, "The upload is in use; try again in a few seconds.")
    private static let superseded = UploadError(
        .interrupted,
        "A newer request for this upload took over; ask for the offset before sending more."
    )
    private static let shuttingDown = UploadError(.unavailable, "The server is stopping; try again.")
    private static let cancelled = UploadError(.unavailable, "The request was given up while it waited for its turn.")
}
