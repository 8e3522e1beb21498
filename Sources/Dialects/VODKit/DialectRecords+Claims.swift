internal import Bytes
internal import Synchronization
package import UploadModel

extension DialectRecords {
    /// Claims records that have a term, in the order of their places; one that fails does not keep the others waiting.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - term: The term.
    ///   - end: Only positions up to this one.
    ///   - start: Only records after this place.
    ///   - limit: The number of claims.
    ///   - failing: What fails is noted here, and is not reported again before its time.
    ///   - claim: Claims a record; `nil` leaves it.
    /// - Returns: What is claimed.
    /// - Throws: `.unavailable`, `.storageFailure`, if nothing was claimed and the records cannot be listed.
    package func claims<Claimed: Sendable>(
        _ kind: String,
        _ term: String,
        upTo end: Int64,
        after start: DialectPlace?,
        limit: Int,
        failing: FailingRecords,
        _ claim: (DialectRecord) async throws(UploadError) -> Claimed?
    ) async throws(UploadError) -> ClaimedRecords<Claimed> {
        let due = due(kind, term, upTo: end, after: start)
        return try await claims(of: due, after: start, limit: limit, failing, claim)
    }

    private func claims<Claimed: Sendable>(
        of due: TermScan,
        after start: DialectPlace?,
        limit: Int,
        _ failing: FailingRecords,
        _ claim: (DialectRecord) async throws(UploadError) -> Claimed?
    ) async throws(UploadError) -> ClaimedRecords<Claimed> {
        var (found, queue) = (ClaimedRecords<Claimed>(last: start), ClaimQueue(scan: due))
        var seen: Set<ExactText> = []
        do throws(UploadError) {
            while found.claimed.count < limit, !queue.isOver {
                try await found.claimNext(of: &queue, but: &seen, failing, claim)
            }
        } catch {
            try found.end(with: error)
        }
        return found
    }

    /// Claims records that have a term, like the other `claims`, but users have turns if there are more than are wanted.
    ///
    /// Each user's first record is claimed, then each one's second, and so on. The list of all has a turn, too: records of
    /// earlier versions are found by it alone.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - term: The term that all have.
    ///   - prefix: With the name of a user behind it, the term of the user's records, at the same positions.
    ///   - turns: Who had the last turn.
    ///   - end: Only positions up to this one.
    ///   - start: Only records after this place, in the list of all.
    ///   - limit: The number of claims.
    ///   - failing: What fails is noted here, and is not reported again before its time.
    ///   - claim: Claims a record; `nil` leaves it.
    /// - Returns: What is claimed.
    /// - Throws: As the other one.
    package func claims<Claimed: Sendable>(
        _ kind: String,
        _ term: String,
        ofUsersWith prefix: String,
        in turns: ClaimTurns,
        upTo end: Int64,
        after start: DialectPlace?,
        limit: Int,
        failing: FailingRecords,
        _ claim: (DialectRecord) async throws(UploadError) -> Claimed?
    ) async throws(UploadError) -> ClaimedRecords<Claimed> {
        var due = due(kind, term, upTo: end, after: start)
        guard try await due.mayHaveMore(than: limit) else {
            return try await claims(of: due, after: start, limit: limit, failing, claim)
        }
        var found = ClaimedRecords<Claimed>(last: start)
        // Records are in the queue of a user, and in that of all.
        var seen: Set<ExactText> = []
        do throws(UploadError) {
            let all = ClaimQueue(scan: due)
            var (queues, last) = try await queues(kind, prefix, after: turns[prefix], upTo: end, limit: limit, or: all)
            let inTurn = queues.count
            // Behind users who have nothing that is due, others may have.
            if queues.isEmpty { turns[prefix] = last }
            if !queues.contains(where: \.isOfAll) { queues.append(all) }
            var isFirstRound = true
            while found.claimed.count < limit, queues.contains(where: { !$0.isOver }) {
                for index in queues.indices where !queues[index].isOver && found.claimed.count < limit {
                    if isFirstRound, index < inTurn { turns[prefix] = queues[index].user }
                    try await found.claimNext(of: &queues[index], but: &seen, failing, claim)
                }
                isFirstRound = false
            }
        } catch {
            try found.end(with: error)
        }
        return found
    }

    /// The queues of the users whose turn it is, in the order of their turns, and that of all in its turn; and the term of the last
    /// user who was looked at.
    private func queues(
        _ kind: String,
        _ prefix: String,
        after first: String?,
        upTo end: Int64,
        limit: Int,
        or all: ClaimQueue
    ) async throws(UploadError) -> (queues: [ClaimQueue], last: String?) {
        var queues: [ClaimQueue] = []
        var (last, isLastRound) = (first, false)
        for _ in 0..<DeliveryTurns.mostUsers(for: limit) where queues.count < limit {
            let user = try await term(of: kind, prefix: prefix, after: last)
            let isOver = user.map { user in first?.utf8.lexicographicallyPrecedes(user.utf8) ?? true } ?? true
            if isLastRound, isOver { break }
            guard let user else {
                queues.append(all)
                (last, isLastRound) = (nil, true)
                continue
            }
            last = user
            // Some have no record that is due.
            guard try await count(DialectTermQuery(kind, user, positions: .min...end, limit: 1)) > 0 else { continue }
            queues.append(ClaimQueue(user: user, scan: due(kind, user, upTo: end, atOnce: ClaimQueue.mostTries)))
        }
        return (queues, last)
    }

    private func due(
        _ kind: String,
        _ term: String,
        upTo end: Int64,
        after start: DialectPlace? = nil,
        atOnce limit: Int? = nil
    ) -> TermScan {
        TermScan(kind, anyOf: [term], positions: .min...end, isDescending: false, after: start, atOnce: limit, in: self)
    }
}

/// Whose records were claimed last, by the prefix of the users' terms; each node has its own.
package final class ClaimTurns: Sendable {
    private let last = Mutex<[String: String]>([:])

    package init() {}

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

/// What `DialectRecords.claims` has found.
package struct ClaimedRecords<Claimed: Sendable>: Sendable {
    package var claimed: [Claimed] = []
    /// The place of the last record that was looked at; `nil` after all of them.
    package var last: DialectPlace?
    /// How the first record failed that was not put off.
    package var failure: UploadError?
}

extension ClaimedRecords {
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

    /// Ends with what is claimed, which must not wait for the end of its claim.
    fileprivate mutating func end(with error: UploadError) throws(UploadError) {
        if claimed.isEmpty { throw error }
        failure = error
    }
}
