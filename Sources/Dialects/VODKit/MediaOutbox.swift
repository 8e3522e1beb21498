internal import Bytes
package import Foundation
package import UploadCore
package import UploadModel

/// An event of media for an app's server that it has not received yet.
package protocol MediaEvent: FoundByTerms, Sendable, Codable {
    static var recordKind: String { get }
    /// Milliseconds of which `dueAt` is a number.
    static var unit: Int64 { get }

    /// The application whose server can ask for its events only; `nil` if there is no such call.
    var tenant: String? { get }
    /// Whose media it is; `nil` also in events of earlier versions.
    var subject: String? { get }
    /// What the keys of those events begin with that are delivered one after another, in the order of their keys; `nil` if it
    /// waits for no other one.
    var sequence: String? { get }
    var attempts: Int { get set }
    /// When the next attempt is due, counted from 1970; while the event is claimed, the end of the claim.
    var dueAt: Int64 { get set }
}

extension MediaEvent {
    package var tenant: String? { nil }
    package var sequence: String? { nil }

    /// The term of the events of a tenant; of all for `nil`.
    static func due(_ tenant: String?) -> String { tenant.map { "due/\($0)" } ?? "due" }

    /// With the name of a user behind it, the term of the user's events of a tenant; for `nil` the beginning of all those terms.
    static func users(_ tenant: String?) -> String { tenant.map { "user/\($0)/" } ?? "user/" }

    package func terms(createdAt time: Date) -> [DialectTerm] {
        let user = Self.users(tenant) + (subject ?? DeliveryTurns.noUser)
        let lists = Set([nil, tenant]).map(Self.due)
        return (lists + [user]).map { DialectTerm($0, at: dueAt) }
    }
}

/// What the delivery of an event needs besides the event.
package protocol EventDetails: Sendable {
    /// Where it is posted; `nil` if all go to one receiver.
    var host: String? { get }
}

extension EventDetails {
    package var host: String? { nil }
}

/// An event that is claimed: no other caller gets it until the claim ends.
package struct ClaimedEvent<Event: MediaEvent, Details: EventDetails>: Sendable {
    package let record: CodedRecord<Event>
    package let details: Details
    package var event: Event { record.content }
}

/// Events for apps' servers, each a record until its receiver has it.
///
/// An event is claimed before it is delivered, so that only one of several nodes delivers it; the claim of a node that dies ends
/// by itself.
package struct MediaOutbox<Event: MediaEvent>: Sendable {
    /// Seconds for which an event is kept.
    package static var retention: TimeInterval { 4 * 86_400 }
    /// Events that are posted at once.
    static var places: Int { 16 }
    /// Seconds for which an event is claimed; longer than an attempt takes.
    static var claim: Int64 { 20 }

    package let records: any DialectRecords
    package let clock: any WallClock
    /// Rings for each event that this process can deliver now.
    package let bell = EventBell()
    let turns = ClaimTurns()

    package init(_ records: any DialectRecords, clock: any WallClock) {
        self.records = records
        self.clock = clock
    }

    /// The change that records an event, to be made together with what it reports; a second time it changes nothing.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - key: The same whenever the same event is recorded.
    /// - Returns: The change.
    package func recording(_ event: Event, as key: String) -> DialectChange {
        let now = clock.now
        let end = now.addingTimeInterval(Self.retention)
        return .insertIfAbsent(CodedRecord(Event.recordKind, key, event, at: now, until: end).record, at: now)
    }

    /// Claims events that are due: of each sequence only the first, so that they arrive in their order, and half of the places at
    /// most for one host, so that one that does not answer does not delay the others.
    ///
    /// Nor does an event that cannot be read delay others, or a user with many events: if there are more, users have turns.
    ///
    /// - Parameters:
    ///   - tenant: Only of this one; `nil` for all.
    ///   - start: Only events after this place.
    ///   - limit: Maximum number of events.
    ///   - running: What is being posted to each host.
    ///   - seconds: How long the claim lasts; until then no other caller gets these events.
    ///   - failing: What cannot be read is noted here.
    ///   - details: What else the delivery needs; `nil` if the event is not to be delivered now.
    /// - Returns: The events, those of each user from the oldest on.
    /// - Throws: `UploadError`.
    package func claim<Details: EventDetails>(
        of tenant: String? = nil,
        after start: DialectPlace? = nil,
        limit: Int,
        beside running: [String: Int] = [:],
        for seconds: Int64 = Self.claim,
        failing: FailingRecords,
        _ details: (CodedRecord<Event>) async throws(UploadError) -> Details?
    ) async throws(UploadError) -> ClaimedRecords<ClaimedEvent<Event, Details>> {
        let now = clock.now
        let end = time(at: now)
        let old = try await records.addTerms(to: Event.recordKind, as: Event.self, failing: failing)
        var (seen, hosts) = (Set<ExactText>(), running)
        var due = try await claims(of: tenant, upTo: end, after: start, limit: limit, failing: failing) {
            (record) throws(UploadError) -> ClaimedEvent<Event, Details>? in
            guard record.expiresAt.map({ now < $0 }) ?? true else { return nil }
            var found = try CodedRecord<Event>(record)
            if let sequence = found.content.sequence {
                guard seen.insert(ExactText(sequence)).inserted, let first = try await first(of: sequence, at: now)
                else {
                    return nil
                }
                found = first
            }
            guard found.content.dueAt <= end, let details = try await details(found) else { return nil }
            if let host = details.host, hosts[host, default: 0] >= Self.places / 2 { return nil }
            var event = found.content
            event.dueAt = time(at: now, in: seconds)
            event.attempts += 1
            let changed = found.replaced(by: event, until: found.record.expiresAt)
            // If not, somebody else has claimed it.
            guard try await records.replace(changed.record) else { return nil }
            if let host = details.host { hosts[host, default: 0] += 1 }
            return ClaimedEvent(record: changed.next, details: details)
        }
        due.failure = due.failure ?? old
        return due
    }

    /// The event of a sequence for which the others wait.
    private func first(of sequence: String, at now: Date) async throws(UploadError) -> CodedRecord<Event>? {
        var last: String?
        while true {
            let page = try await records.records(Event.recordKind, prefix: sequence, after: last, limit: 10)
            for record in page where record.expiresAt.map({ now < $0 }) ?? true {
                if let found = try? CodedRecord<Event>(record) { return found }
            }
            if page.count < 10 { return nil }
            last = page.last?.key
        }
    }

    /// Removes an event that its receiver has.
    package func remove(_ key: String) async throws(UploadError) {
        _ = try await records.removeRecord(Event.recordKind, key)
    }

    /// Puts the next attempt off, if the caller's claim still holds.
    func postpone(_ claimed: CodedRecord<Event>, by seconds: Int64) async throws(UploadError) {
        var event = claimed.content
        event.dueAt = time(at: clock.now, in: seconds)
        _ = try await records.replace(claimed.replaced(by: event, until: claimed.record.expiresAt).record)
    }

    private func time(at now: Date, in seconds: Int64 = 0) -> Int64 {
        (now.unixMilliseconds + seconds * 1000) / Event.unit
    }
}
