internal import Synchronization
internal import UploadModel

/// One user per key at a time, in order of arrival; holders are never interrupted, so each must finish soon.
///
/// Waiting is passive: there is no polling.
final class TurnTable<Key: Hashable & Sendable>: Sendable {
    private struct Waiter {
        let ticket: UInt64
        let continuation: CheckedContinuation<UploadError?, Never>
    }

    private struct Contents {
        /// The waiters, for each key in use.
        var lines: [Key: [Waiter]] = [:]
        var lastTicket: UInt64 = 0
    }

    private let contents = Mutex(Contents())
    private let timeout: Duration

    /// - Parameter timeout: Maximum time to wait for a turn.
    init(timeout: Duration) { self.timeout = timeout }

    /// Runs `body` while no other user of the key runs.
    ///
    /// - Throws: The errors of `body`; `.busy` if the turn did not come in time, `.unavailable` when the task is
    ///   cancelled while it waits.
    func withTurn<Success>(
        at key: Key,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        let ticket: UInt64? = contents.withLock { contents in
            guard contents.lines[key] != nil else {
                contents.lines[key] = []
                return nil
            }
            contents.lastTicket += 1
            return contents.lastTicket
        }
        if let ticket { try await wait(for: key, ticket) }
        defer { pass(key) }
        return try await body()
    }

    /// Number of users that wait for the key.
    func waiterCount(of key: Key) -> Int { contents.withLock { $0.lines[key]?.count ?? 0 } }

    private func wait(for key: Key, _ ticket: UInt64) async throws(UploadError) {
        // Owned by this call: cancelled when the wait ends.
        let timer = Task { [timeout] in
            try? await Task.sleep(for: timeout)
            if !Task.isCancelled { turnAway(key, ticket, Self.busy) }
        }
        defer { timer.cancel() }
        let refusal = await withTaskCancellationHandler {
            await withCheckedContinuation { enqueue(key, Waiter(ticket: ticket, continuation: $0)) }
        } onCancel: {
            turnAway(key, ticket, Self.cancelled)
        }
        if let refusal { throw refusal }
    }

    private func enqueue(_ key: Key, _ waiter: Waiter) {
        let verdict: UploadError?? = contents.withLock { contents in
            guard contents.lines[key] != nil else {
                contents.lines[key] = []
                return .some(nil)
            }
            // If the task was cancelled before this point, the handler found no waiter to reject; handle it here.
            if Task.isCancelled { return .some(Self.cancelled) }
            contents.lines[key]?.append(waiter)
            return nil
        }
        if let verdict { waiter.continuation.resume(returning: verdict) }
    }

    private func turnAway(_ key: Key, _ ticket: UInt64, _ error: UploadError) {
        let waiter: Waiter? = contents.withLock { contents in
            guard let index = contents.lines[key]?.firstIndex(where: { $0.ticket == ticket }) else { return nil }
            return contents.lines[key]?.remove(at: index)
        }
        waiter?.continuation.resume(returning: error)
    }

    private func pass(_ key: Key) {
        let next: Waiter? = contents.withLock { contents in
            guard contents.lines[key]?.isEmpty == false else {
                contents.lines[key] = nil
                return nil
            }
            return contents.lines[key]?.removeFirst()
        }
        next?.continuation.resume(returning: nil)
    }

    private static var busy: UploadError {
        UploadError(.busy, "Other requests are using it; try again in a few seconds.")
    }
    private static var cancelled: UploadError {
        UploadError(.unavailable, "The request was given up while it waited for its turn.")
    }
}
