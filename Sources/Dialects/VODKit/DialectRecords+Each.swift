package import UploadModel

extension DialectRecords {
    /// Does something with each record of a kind, in the order of their keys; those that fail do not keep the others
    /// waiting.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - prefix: Only keys that begin with these bytes.
    ///   - failing: Those that are put off are left out.
    ///   - body: May remove the record.
    /// - Returns: Whether there were any.
    /// - Throws: The first failure of `body`, at the end; `.unavailable`, `.storageFailure`.
    package func each(
        _ kind: String,
        prefix: String = "",
        failing: FailingRecords = FailingRecords(),
        _ body: (DialectRecord) async throws(UploadError) -> Void
    ) async throws(UploadError) -> Bool {
        var last: String?
        var failure: UploadError?
        while true {
            let page = try await records(kind, prefix: prefix, after: last, limit: 100)
            for record in page {
                last = record.key
                let failed = await failing.attempt(record, body)
                failure = failure ?? failed
            }
            guard page.count < 100 else { continue }
            if let failure { throw failure }
            return last != nil
        }
    }

    /// Does something with each record that has a term, as the other `each`, in the order of their places.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - term: The term.
    ///   - end: Only positions up to this one.
    ///   - failing: Those that are put off are left out.
    ///   - body: May change and remove the record.
    /// - Returns: Whether there were any.
    /// - Throws: The first failure of `body`, at the end; `.unavailable`, `.storageFailure`.
    package func each(
        _ kind: String,
        _ term: String,
        upTo end: Int64,
        failing: FailingRecords,
        _ body: (DialectRecord) async throws(UploadError) -> Void
    ) async throws(UploadError) -> Bool {
        var due = TermScan(kind, anyOf: [term], positions: .min...end, isDescending: false, in: self)
        var hasAny = false
        var failure: UploadError?
        while let record = try await due.next()?.record {
            hasAny = true
            let failed = await failing.attempt(record, body)
            failure = failure ?? failed
        }
        if let failure { throw failure }
        return hasAny
    }

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
        var found = ClaimedRecords<Claimed>(last: start)
        var due = TermScan(kind, anyOf: [term], positions: .min...end, isDescending: false, after: start, in: self)
        while found.claimed.count < limit {
            let next: FoundRecord?
            do throws(UploadError) {
                next = try await due.next()
            } catch {
                // What is claimed must not wait for the end of its claim.
                if found.claimed.isEmpty { throw error }
                found.failure = error
                return found
            }
            found.last = next?.place
            guard let record = next?.record else { return found }
            do throws(UploadError) {
                if let one = try await claim(record) { found.claimed.append(one) }
            } catch {
                if failing.isDue(record) {
                    failing.note(record)
                    found.failure = found.failure ?? error
                }
            }
        }
        return found
    }
}

/// What `DialectRecords.claims` has found.
package struct ClaimedRecords<Claimed: Sendable>: Sendable {
    package var claimed: [Claimed] = []
    /// The place of the last record that was looked at; `nil` after all of them.
    package var last: DialectPlace?
    /// How the first record failed that was not put off.
    package var failure: UploadError?
}
