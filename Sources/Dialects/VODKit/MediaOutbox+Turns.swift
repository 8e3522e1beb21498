internal import Bytes
internal import Synchronization
package import UploadModel

/// Whose events were claimed last, by the prefix of the users' terms; each node has its own.
final class ClaimTurns: Sendable {
    private let last = Mutex<[String: String]>([:])

    /// The term of the user; `nil` begins again with the first one.
    subscript(prefix: String) -> String? {
        get { last.withLock { $0[prefix] } }
        set { last.withLock { $0[prefix] = newValue } }
    }
}

/// The due records of one user, or of all.
private struct ClaimQueue {
    /// Records of a user that cannot be claimed, and are passed over in one turn.
    static let mostTries = 20

    /// The term; `nil` for all.
    var user: String?
    var scan: TermScan
    var isOver = false
    var isOfAll: Bool { user == nil }
}

extension MediaOutbox {
    /// Claims records that are due, in the order of their places; one that fails does not keep the others waiting.
    ///
    /// If there are more than are wanted, users have turns: each user's first record is claimed, then each one's second, and so
    /// on. The list of all has a turn, too: records of earlier versions are found by it alone.
    ///
    /// - Parameters:
    ///   - tenant: Only of this one; `nil` for all.
    ///   - end: Only positions up to this one.
    ///   - start: Only records after this place, in the list of all.
    ///   - limit: The number of claims.
    ///   - failing: What fails is noted here, and is not reported again before its time.
    ///   - claim: Claims a record; `nil` leaves it.
    /// - Returns: What is claimed.
    /// - Throws: `.unavailable`, `.storageFailure`, if nothing was claimed and the records cannot be listed.
    func claims<Claimed: Sendable>(
        of tenant: String?,
        upTo end: Int64,
        after start: DialectPlace?,
        limit: Int,
        failing: FailingRecords,
        _ claim: (DialectRecord) async throws(UploadError) -> Claimed?
    ) async throws(UploadError) -> ClaimedRecords<Claimed> {
        var found = ClaimedRecords<Claimed>(last: start)
        // Records are in the queue of a user, and in that of all.
        var seen: Set<ExactText> = []
        do throws(UploadError) {
            var all = ClaimQueue(scan: due(Event.due(tenant), upTo: end, after: start))
            let hasTurns = try await all.scan.mayHaveMore(than: limit)
            var queues = hasTurns ? try await self.queues(of: tenant, upTo: end, limit: limit, or: all) : []
            let inTurn = queues.count
            if !queues.contains(where: \.isOfAll) { queues.append(all) }
            var isFirstRound = true
            while found.claimed.count < limit, queues.contains(where: { !$0.isOver }) {
                for index in queues.indices where !queues[index].isOver && found.claimed.count < limit {
                    if isFirstRound, index < inTurn { turns[Event.users(tenant)] = queues[index].user }
                    try await found.claimNext(of: &queues[index], but: &seen, failing, claim)
                }
                isFirstRound = false
            }
        } catch {
            // What is claimed must not wait for the end of its claim.
            if found.claimed.isEmpty { throw error }
            found.failure = error
        }
        return found
    }

    /// The queues of the users whose turn it is, in the order of their turns, and that of all in its turn.
    private func queues(
        of tenant: String?,
        upTo end: Int64,
        limit: Int,
        or all: ClaimQueue
    ) async throws(UploadError) -> [ClaimQueue] {
        let prefix = Event.users(tenant)
        let first = turns[prefix]
        var queues: [ClaimQueue] = []
        var (last, isLastRound) = (first, false)
        for _ in 0..<DeliveryTurns.mostUsers(for: limit) where queues.count < limit {
            let user = try await records.term(of: Event.recordKind, prefix: prefix, after: last)
            let isOver = user.map { user in first?.utf8.lexicographicallyPrecedes(user.utf8) ?? true } ?? true
            if isLastRound, isOver { break }
            guard let user else {
                queues.append(all)
                (last, isLastRound) = (nil, true)
                continue
            }
            last = user
            // Some have no record that is due.
            let query = DialectTermQuery(Event.recordKind, user, positions: .min...end, limit: 1)
            guard try await records.count(query) > 0 else { continue }
            queues.append(ClaimQueue(user: user, scan: due(user, upTo: end, atOnce: ClaimQueue.mostTries)))
        }
        // Behind users who have nothing that is due, others may have.
        if queues.isEmpty { turns[prefix] = last }
        return queues
    }

    private func due(
        _ term: String,
        upTo end: Int64,
        after start: DialectPlace? = nil,
        atOnce page: Int? = nil
    ) -> TermScan {
        TermScan(
            Event.recordKind,
            anyOf: [term],
            positions: .min...end,
            isDescending: false,
            after: start,
            atOnce: page,
            in: records
        )
    }
}

/// What a look at an outbox has claimed.
package struct ClaimedRecords<Claimed: Sendable>: Sendable {
    package var claimed: [Claimed] = []
    /// The place of the last record that was looked at; `nil` after all of them.
    package var last: DialectPlace?
    /// How the first record failed that was not put off.
    package var failure: UploadError?

    /// Claims the next record of a queue; without one, the queue is over.
    ///
    /// - Parameters:
    ///   - queue: The queue; that of all is where the next look goes on.
    ///   - seen: Keys of records that are passed over.
    ///   - failing: What fails is noted here.
    ///   - claim: Claims a record; `nil` leaves it.
    /// - Throws: If the records cannot be listed.
    fileprivate mutating func claimNext(
        of queue: inout ClaimQueue,
        but seen: inout Set<ExactText>,
        _ failing: FailingRecords,
        _ claim: (DialectRecord) async throws(UploadError) -> Claimed?
    ) async throws(UploadError) {
        var tries = queue.isOfAll ? Int.max : ClaimQueue.mostTries
        while tries > 0 {
            let next = try await queue.scan.next()
            if queue.isOfAll { last = next?.place }
            guard let record = next?.record else { break }
            guard seen.insert(ExactText(record.key)).inserted else { continue }
            tries -= 1
            do throws(UploadError) {
                guard let one = try await claim(record) else { continue }
                claimed.append(one)
                return
            } catch {
                guard failing.isDue(record) else { continue }
                failing.note(record)
                failure = failure ?? error
            }
        }
        queue.isOver = true
    }
}
