internal import Bytes
internal import Synchronization

/// Who may call the app, or a cloud, next: no user keeps others waiting.
///
/// The calls that run at once are bounded by what the transport can do at once. Further ones wait here, where users have turns,
/// one after the other, and not in a queue of the transport. So a call that has its turn is sent at once, and what takes long
/// then is who is called.
package final class UserTurns: Sendable {
    /// Why a call has no turn.
    package enum Refusal: Error {
        /// Too many calls for the same user wait.
        case tooMany
        /// Its time was over, or its request ended.
        case tooLate
    }

    /// A call that waits.
    private final class Ticket: Sendable {
        private enum State {
            case new
            case waiting(CheckedContinuation<Bool, Never>)
            case over(hasTurn: Bool)
        }

        private let state = Mutex(State.new)

        /// - Returns: Whether it has its turn.
        func wait() async -> Bool {
            await withCheckedContinuation { continuation in
                let outcome = state.withLock { state -> Bool? in
                    if case .over(let hasTurn) = state { return hasTurn }
                    state = .waiting(continuation)
                    return nil
                }
                if let outcome { continuation.resume(returning: outcome) }
            }
        }

        /// - Returns: `false` if it was over before.
        func end(hasTurn: Bool) -> Bool {
            let (isFirst, continuation) = state.withLock { state -> (Bool, CheckedContinuation<Bool, Never>?) in
                defer { if case .over = state {} else { state = .over(hasTurn: hasTurn) } }
                return switch state {
                case .new: (true, nil)
                case .waiting(let continuation): (true, continuation)
                case .over: (false, nil)
                }
            }
            continuation?.resume(returning: hasTurn)
            return isFirst
        }
    }

    private struct State {
        var running = 0
        /// Calls that run, by user.
        var places: [SubjectName: Int] = [:]
        /// Never empty ones; those without a user have one, too.
        var queues: [SubjectName?: [Ticket]] = [:]
        /// The users of `queues`, in the order of their turns.
        var order: [SubjectName?] = []
    }

    private let most: Int
    private let mostWaiting: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - most: The number of calls at once; at least 1. One user has at most half of them.
    ///   - mostWaiting: The number of calls for one user that may wait; not for the app's own uploads.
    package init(_ most: Int, mostWaiting: Int = 1000) {
        self.most = max(1, most)
        self.mostWaiting = mostWaiting
    }

    /// Waits for a turn; each call that has one needs an `end`.
    ///
    /// - Parameters:
    ///   - subject: The user; `nil` for the app's own uploads.
    ///   - limit: From now.
    /// - Throws: `Refusal`.
    package func begin(_ subject: String?, within limit: Duration) async throws(Refusal) {
        let user = subject.map { SubjectName($0) }
        let ticket = Ticket()
        let mayWait = state.withLock { state in
            guard user == nil || state.queues[user]?.count ?? 0 < mostWaiting else { return false }
            if state.queues[user] == nil { state.order.append(user) }
            state.queues[user, default: []].append(ticket)
            startNext(&state)
            return true
        }
        guard mayWait else { throw .tooMany }
        let timer = Task { [weak self] in
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            self?.cancel(ticket, user)
        }
        defer { timer.cancel() }
        let hasTurn = await withTaskCancellationHandler {
            await ticket.wait()
        } onCancel: {
            cancel(ticket, user)
        }
        if !hasTurn { throw .tooLate }
    }

    /// Does work in a turn.
    ///
    /// - Parameters:
    ///   - subject: The user; `nil` for the app's own uploads.
    ///   - limit: How long to wait for the turn.
    ///   - work: Done if there is one.
    /// - Returns: The result of `work`; `nil` without a turn.
    package func run<Success: Sendable>(
        for subject: String?,
        within limit: Duration,
        _ work: () async -> Success
    ) async -> Success? {
        do throws(Refusal) { try await begin(subject, within: limit) } catch { return nil }
        defer { end(subject) }
        return await work()
    }

    /// Gives the place of a call to the next one.
    package func end(_ subject: String?) {
        state.withLock { state in
            state.running -= 1
            if let user = subject.map({ SubjectName($0) }), let count = state.places[user] {
                state.places[user] = count > 1 ? count - 1 : nil
            }
            startNext(&state)
        }
    }

    /// The number of calls that wait for their turn.
    package var waiting: Int { state.withLock { $0.queues.values.reduce(0) { $0 + $1.count } } }

    /// Gives free places to the users whose turn it is.
    private func startNext(_ state: inout State) {
        let share = max(1, most / 2)
        while state.running < most,
            let index = state.order.firstIndex(where: { user in user.map { state.places[$0] ?? 0 < share } ?? true })
        {
            let user = state.order.remove(at: index)
            guard let ticket = state.queues[user]?.removeFirst() else { continue }
            if state.queues[user]?.isEmpty ?? true { state.queues[user] = nil } else { state.order.append(user) }
            guard ticket.end(hasTurn: true) else { continue }
            state.running += 1
            if let user { state.places[user, default: 0] += 1 }
        }
    }

    private func cancel(_ ticket: Ticket, _ user: SubjectName?) {
        guard ticket.end(hasTurn: false) else { return }
        state.withLock { state in
            guard let index = state.queues[user]?.firstIndex(where: { $0 === ticket }) else { return }
            state.queues[user]?.remove(at: index)
            guard state.queues[user]?.isEmpty ?? true else { return }
            state.queues[user] = nil
            state.order.removeAll { $0 == user }
        }
    }
}
