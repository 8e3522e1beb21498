package import Bytes
internal import Synchronization

/// One user of an upload at a time: on this node, and with a `LeaseAuthority` on all of them.
///
/// A newcomer asks the holder at once to stop (by its `SourceInterrupter`) and waits until it has saved what it has and
/// let go. Who waits is served in order of arrival, with one exception: a writer that still waits when somebody newer
/// arrives is turned away with `.interrupted`. It would be interrupted before its first byte anyway, and a newer request
/// for the same upload says that the client has given up the older one. Users without an interrupter (offset queries,
/// terminations) are short and keep their place. A newcomer of another node is one like those of this node.
///
/// A newcomer may spare the holder: then that one has a turn of some time from its beginning, and from when it brought the last
/// bytes, and is interrupted only after it. So of many that know nothing of each other one gets on.
package final class LeaseTable: Sendable {
    private typealias Verdict = Result<Void, UploadError>

    private struct User {
        let ticket: UInt64
        /// Ends the body that this user writes; `nil` for a user that is done soon by itself.
        let interrupter: SourceInterrupter?
        /// The wait for another node; `nil` where there are none.
        let claim: LeaseClaim?

        /// Ends the body, or the wait for another node that comes before it.
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
        /// Bytes that the upload had when somebody last looked; `nil` if nobody did.
        private var length: Int64?
        /// When the holder began, or had brought more bytes.
        private var movedAt = ContinuousClock.now

        init(holder: User) { self.holder = holder }

        mutating func passOn(to user: User) { self = Queue(holder: user, waiters: waiters) }

        private init(holder: User, waiters: [Waiter]) {
            self.holder = holder
            self.waiters = waiters
        }

        /// For a newcomer.
        ///
        /// - Parameter sparing: The holder is not asked to stop yet.
        /// - Returns: The holder, the first time, and the waiting writers, which are in the line no more.
        mutating func makeWay(sparing: Bool = false) -> (holder: User?, superseded: [Waiter]) {
            let superseded = waiters.filter { $0.user.interrupter != nil }
            waiters.removeAll { $0.user.interrupter != nil }
            return (sparing ? nil : interruptedHolder(), superseded)
        }

        /// - Returns: The holder, the first time.
        mutating func interruptedHolder() -> User? {
            defer { holderWasInterrupted = true }
            return holderWasInterrupted ? nil : holder
        }

        /// How long the holder is to be spared yet, of whose upload somebody found so many bytes.
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

    /// - Parameters:
    ///   - timeout: How long a newcomer waits for its turn.
    ///   - protectedTurn: How long a holder is spared that brings no more bytes.
    ///   - authority: Decides among nodes; `nil` if there is one.
    ///   - onTakeOver: Called when a holder was asked to stop; on any thread.
    package init(
        timeout: Duration,
        protectedTurn: Duration = .zero,
        among authority: (any LeaseAuthority)? = nil,
        onTakeOver: @escaping @Sendable (UploadID) -> Void = { _ in }
    ) {
        self.timeout = timeout
        self.protectedTurn = protectedTurn
        self.authority = authority
        self.onTakeOver = onTakeOver
        authority?.attach { [weak self] in self?.makeWay($0) }
    }

    /// Runs `body` while no other user of the upload runs.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - interrupter: Ends `body` early when somebody newer comes; `nil` if `body` is short.
    ///   - length: Spares a writer that has the lease: tells how many bytes the upload has now. `nil` interrupts at once.
    ///   - body: Its lease ends when it returns or throws.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws; `.busy` when the turn did not come in time; `.interrupted` when a newer request came
    ///   first; `.unavailable` for a writer after `interruptAll`, and when the task is cancelled while it waits; with an
    ///   authority what it throws.
    package func withLease<Success>(
        on id: UploadID,
        interrupter: SourceInterrupter?,
        sparing length: (@Sendable () async -> Int64?)? = nil,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        let user = newUser(interrupter)
        let length = protectedTurn > .zero ? length : nil
        let deadline = authority == nil ? nil : ContinuousClock.now + timeout
        if try !takeIfFree(id, user) { try await wait(for: id, user, sparing: length) }
        defer { release(id, user) }
        guard let authority, let claim = user.claim, let deadline else { return try await body() }
        if try await !takeAfterTurn(id, claim, authority, until: deadline, length) {
            try await authority.acquire(id, claim, until: deadline)
        }
        return try await running(id, authority, body)
    }

    /// Runs `body` if nobody uses the upload or waits for it; disturbs nobody.
    ///
    /// - Returns: `nil` if the upload is in use.
    package func withLeaseIfFree<Success>(
        on id: UploadID,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success? {
        let user = newUser(nil)
        guard try takeIfFree(id, user) else { return nil }
        defer { release(id, user) }
        guard let authority else { return try await body() }
        guard try await authority.acquireIfFree(id) else { return nil }
        return try await running(id, authority, body)
    }

    /// Waits for a writer of another node that is to be spared; whether that one brings bytes is seen only as far as the storage
    /// tells all nodes.
    ///
    /// - Returns: Whether the lease was taken.
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

    /// How often one who spares a writer of another node looks.
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

    /// Ends every writer with `.shuttingDown`; writers that wait or come later are turned away with `.unavailable`.
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

    /// For a newcomer on another node.
    private func makeWay(_ id: UploadID) {
        let (holder, superseded) = contents.withLock { $0.queues[id]?.makeWay() ?? (nil, []) }
        end(holder, superseded, of: id)
    }

    private func end(_ holder: User?, _ superseded: [Waiter], of id: UploadID) {
        for waiter in superseded { waiter.continuation.resume(returning: .failure(Self.superseded)) }
        guard let holder, holder.interrupter != nil else { return }
        holder.end(as: .interrupted, Self.superseded)
        onTakeOver(id)
    }

    /// How many uploads are in use.
    package var count: Int { contents.withLock { $0.queues.count } }

    /// How many wait for their turn on the upload.
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
        // Owned by this call: cancelled as soon as the wait is over.
        let timer = Task { [timeout] in
            try? await Task.sleep(for: timeout)
            if !Task.isCancelled { turnAway(id, user, Self.busy) }
        }
        defer { timer.cancel() }
        let patience = length.map { length in Task { await interruptHolder(of: id, for: user, after: length) } }
        defer { patience?.cancel() }
        let isSparing = length != nil
        let verdict = await withTaskCancellationHandler {
            await withCheckedContinuation { enqueue(id, Waiter(user: user, continuation: $0), isSparing) }
        } onCancel: {
            turnAway(id, user, Self.cancelled)
        }
        try verdict.get()
    }

    /// Asks the holder to stop when its turn is over.
    private func interruptHolder(of id: UploadID, for user: User, after length: @Sendable () async -> Int64?) async {
        while !Task.isCancelled {
            let found = await length()
            var holder: User?
            let rest: Duration? = contents.withLock { contents in
                guard let rest = contents.queues[id]?.rest(of: protectedTurn, found) else { return nil }
                // Who has not joined the line yet, or is first in it by now, looks again or is cancelled.
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

    /// Puts the newcomer into the line and tells those that it supersedes.
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
            // A cancellation before this moment found no waiter to turn away; it is seen here.
            if Task.isCancelled {
                verdict = .failure(Self.cancelled)
                return
            }
            (holder, superseded) = queue.makeWay(sparing: isSparing)
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
            // A waiting writer is always the last of the line, so nobody waits who would have to interrupt it.
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
