internal import Bytes
package import Foundation
internal import Synchronization
package import UploadModel

/// Keeps revocations in memory, so that tokens and links can be checked without a state query per request.
///
/// While it is used, it queries the state for new revocations at most twice a second, so revocations by other processes
/// take effect with that delay. A revocation by this process takes effect at once (`expire`).
package final class RevocationList: Sendable {
    /// Seconds that the content in memory is used without reading again.
    package static let lifetime: TimeInterval = 0.5
    /// Default of the maximum difference in seconds between a stated time and the clock.
    package static let usualSkew: TimeInterval = 900
    /// Maximum difference in seconds between the clocks of processes that revoke.
    private static let nodeSkew: TimeInterval = 600
    /// Seconds by which a time may be ahead without being wrong: some are in whole seconds, and clocks of nodes are
    /// never quite equal.
    private static let precision: TimeInterval = 1
    private static let mostKnownKeys = 10_000

    private struct Contents {
        var keys: Set<String> = []
        /// Existing keys; they are valid unless they are in `keys`.
        var known: Set<String> = []
        var everybody: Date?
        var subjects: [SubjectName: Date] = [:]
        var readAt: Date?
        var reading: Task<UploadError?, Never>?
    }

    private let state: any RevocationRecords & KeyRecords
    private let clock: any WallClock
    private let skew: TimeInterval
    private let trusts: @Sendable (String) -> Bool?
    private let contents = Mutex(Contents())

    /// - Parameters:
    ///   - state: Stores the revocations.
    ///   - clock: Provides the time.
    ///   - skew: Maximum difference in seconds between a stated time and the clock (`limits.clockSkew`).
    ///   - trusts: Whether an issuer that is not an API key is still trusted; `nil` for the id of a key.
    package init(
        state: any RevocationRecords & KeyRecords,
        clock: any WallClock,
        skew: TimeInterval = RevocationList.usualSkew,
        trusts: @escaping @Sendable (String) -> Bool? = { _ in nil }
    ) {
        self.state = state
        self.clock = clock
        self.skew = skew
        self.trusts = trusts
    }

    /// Checks that a grant is still valid.
    ///
    /// - Throws: `.unauthenticated` if its key was revoked, or everything minted at that time was, or it states a time
    ///   that is not yet; an error if the state does not respond.
    package func check(_ grant: Grant) async throws(UploadError) {
        guard try await !refuses(issuer: grant.issuer, subject: grant.subject, issuedAt: grant.issueTime) else {
            throw Self.revoked
        }
    }

    package static let revoked = UploadError.invalidCredential(
        "This credential was revoked, or the API key that minted it was, or it states a time that is not yet; ask for a new one."
    )

    /// Whether a credential is not valid: it was revoked, or states to be made later than clocks can differ.
    ///
    /// - Parameters: As those of `isRevoked`.
    /// - Throws: An error if the state does not respond.
    package func refuses(issuer: String?, subject: String?, issuedAt time: Date) async throws(UploadError) -> Bool {
        if time > clock.now.addingTimeInterval(skew) { return true }
        return try await isRevoked(issuer: issuer, subject: subject, issuedAt: time)
    }

    /// Whether something that was minted has been revoked.
    ///
    /// - Parameters:
    ///   - issuer: The id of the API key that minted it; `nil` if unknown.
    ///   - subject: The user for whom it was minted.
    ///   - time: When it was minted, as it states; `nil` if revocations by time do not apply to it.
    /// - Returns: `true` also if there is no key with this id.
    /// - Throws: An error if the state does not respond.
    package func isRevoked(issuer: String?, subject: String?, issuedAt time: Date?) async throws(UploadError) -> Bool {
        try await refresh()
        let made = time.map { earliest(of: $0) } ?? .distantFuture
        var isKnown = true
        let isOver = contents.withLock { contents in
            if let end = contents.everybody, made < end { return true }
            if let subject, let end = contents.subjects[SubjectName(subject)], made < end { return true }
            guard let issuer else { return false }
            isKnown = contents.known.contains(issuer)
            return contents.keys.contains(issuer)
        }
        if isOver { return true }
        guard let issuer, !isKnown else { return false }
        if let isTrusted = trusts(issuer) { return !isTrusted }
        return try await look(for: issuer)
    }

    /// When something can have been made at the earliest.
    ///
    /// It exists now, so a time that is not yet is wrong: its maker's clock was ahead, by as much as is accepted or more.
    private func earliest(of time: Date) -> Date {
        let now = clock.now
        if time <= now.addingTimeInterval(Self.precision) { return time }
        return time <= now.addingTimeInterval(skew) ? time.addingTimeInterval(-skew) : .distantPast
    }

    /// Forces a refresh before the next check.
    package func expire() { contents.withLock { $0.readAt = nil } }

    /// Keys are never removed, so an existing key needs only one lookup.
    private func look(for id: String) async throws(UploadError) -> Bool {
        guard let key = try await state.key(id: id) else { return true }
        contents.withLock { contents in
            if contents.known.count >= Self.mostKnownKeys { contents.known.removeAll() }
            contents.known.insert(id)
            if key.revokedAt != nil { contents.keys.insert(id) }
        }
        return key.revokedAt != nil
    }

    /// Refreshes the content; with concurrent callers, one reads and the others wait for it.
    private func refresh() async throws(UploadError) {
        let now = clock.now
        let reading = contents.withLock { contents -> Task<UploadError?, Never>? in
            // If the clock was set back, the content must not be used for longer.
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
        let since = last.map { min($0, now).addingTimeInterval(-Self.nodeSkew) } ?? .distantPast
        do throws(UploadError) {
            let new = try await state.revoked(since: since)
            contents.withLock { contents in
                contents.keys.formUnion(new.keys)
                for one in new.bulk {
                    if let subject = one.subject {
                        let name = SubjectName(subject)
                        contents.subjects[name] = max(contents.subjects[name] ?? .distantPast, one.issuedBefore)
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
