package import Foundation
internal import Synchronization

/// What was revoked, in memory, so that whatever was minted can be checked without asking the state for each request.
///
/// While somebody asks, the state is asked for what is new twice a second at most; so long a revocation by another process may
/// take. One that this process records counts at once (`expire`).
package final class RevocationList: Sendable {
    /// Seconds for which what is in memory is believed.
    package static let lifetime: TimeInterval = 0.5
    /// Seconds by which clocks of those who revoke may differ.
    private static let skew: TimeInterval = 600
    private static let mostKnownKeys = 10_000

    private struct Contents {
        var keys: Set<String> = []
        /// Keys that there are, and that are not revoked unless they are in `keys`.
        var known: Set<String> = []
        var everybody: Date?
        var subjects: [String: Date] = [:]
        var readAt: Date?
        var reading: Task<UploadError?, Never>?
    }

    private let state: any StateStore
    private let clock: any WallClock
    private let trusts: @Sendable (String) -> Bool?
    private let contents = Mutex(Contents())

    /// - Parameters:
    ///   - state: Where revocations are recorded.
    ///   - clock: Tells the time.
    ///   - trusts: Whether an issuer that is no API key is trusted still; `nil` for the id of a key.
    package init(
        state: any StateStore,
        clock: any WallClock,
        trusts: @escaping @Sendable (String) -> Bool? = { _ in nil }
    ) {
        self.state = state
        self.clock = clock
        self.trusts = trusts
    }

    /// Checks that a grant still counts.
    ///
    /// - Throws: `.unauthenticated` if its key was revoked, or what was minted when it was; if the state does not answer.
    package func check(_ grant: Grant) async throws(UploadError) {
        guard try await !isRevoked(issuer: grant.issuer, subject: grant.subject, issuedAt: grant.issueTime) else {
            throw Self.revoked
        }
    }

    package static let revoked = UploadError(
        .unauthenticated,
        "This credential was revoked, or the API key that minted it was; ask for a new one."
    )

    /// Whether something that was minted is over.
    ///
    /// - Parameters:
    ///   - issuer: The id of the API key that minted it; `nil` if that is not known.
    ///   - subject: For whom.
    ///   - time: When.
    /// - Returns: `true` also for the id of a key that there is not.
    /// - Throws: If the state does not answer.
    package func isRevoked(issuer: String?, subject: String?, issuedAt time: Date) async throws(UploadError) -> Bool {
        try await refresh()
        var isKnown = true
        let isOver = contents.withLock { contents in
            if let end = contents.everybody, time < end { return true }
            if let subject, let end = contents.subjects[subject], time < end { return true }
            guard let issuer else { return false }
            isKnown = contents.known.contains(issuer)
            return contents.keys.contains(issuer)
        }
        if isOver { return true }
        guard let issuer, !isKnown else { return false }
        if let isTrusted = trusts(issuer) { return !isTrusted }
        return try await look(for: issuer)
    }

    /// What is in memory is read anew before it is asked the next time.
    package func expire() { contents.withLock { $0.readAt = nil } }

    /// Keys are never removed, so one look is enough for a key that is there.
    private func look(for id: String) async throws(UploadError) -> Bool {
        guard let key = try await state.key(id: id) else { return true }
        contents.withLock { contents in
            if contents.known.count >= Self.mostKnownKeys { contents.known.removeAll() }
            contents.known.insert(id)
            if key.revokedAt != nil { contents.keys.insert(id) }
        }
        return key.revokedAt != nil
    }

    /// Of many who ask at the same time one reads, and the others wait for it.
    private func refresh() async throws(UploadError) {
        let now = clock.now
        let reading = contents.withLock { contents -> Task<UploadError?, Never>? in
            // A clock that was set back must not keep what was read for longer.
            if let readAt = contents.readAt, (0..<Self.lifetime).contains(now.timeIntervalSince(readAt)) { return nil }
            if let reading = contents.reading { return reading }
            let last = contents.readAt
            let task = Task { [self] in await read(since: last, at: now) }
            contents.reading = task
            return task
        }
        if let reading, let error = await reading.value { throw error }
    }

    private func read(since last: Date?, at now: Date) async -> UploadError? {
        let since = last.map { min($0, now).addingTimeInterval(-Self.skew) } ?? .distantPast
        do throws(UploadError) {
            let new = try await state.revoked(since: since)
            contents.withLock { contents in
                contents.keys.formUnion(new.keys)
                for one in new.bulk {
                    if let subject = one.subject {
                        contents.subjects[subject] = max(contents.subjects[subject] ?? .distantPast, one.issuedBefore)
                    } else {
                        contents.everybody = max(contents.everybody ?? .distantPast, one.issuedBefore)
                    }
                }
                contents.readAt = now
                contents.reading = nil
            }
            return nil
        } catch {
            contents.withLock { $0.reading = nil }
            return error
        }
    }
}
