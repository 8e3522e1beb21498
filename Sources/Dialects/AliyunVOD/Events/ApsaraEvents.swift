internal import CloudCalls
internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// An event for an app's server that it has not received yet ("Event notification", ApsaraVideo VOD documentation).
struct ApsaraEvent: Sendable, Equatable, Codable {
    enum Kind: String, Sendable, Codable {
        case stored
        case pulled
        case deleted
    }

    /// What a pull has ended with.
    struct Pull: Sendable, Equatable, Codable {
        var jobID: String
        var url: String
        var failure: ApsaraPull.Failure?
    }

    var kind: Kind
    var mediaID: String
    var mediaKind: ApsaraMedia.Kind
    var application: String
    var bucket: String
    var key: String
    /// Bytes; 0 without content.
    var size: Int64
    /// When the reported change happened, in Unix milliseconds.
    var at: Int64
    /// The app's own data, as JSON.
    var extend: String?
    /// Where the app wants it instead of the usual URL.
    var url: String?
    var pull: Pull?
    /// Whose media it is; `nil` also in events of earlier versions.
    var subject: String?
    var attempts = 0
    /// Unix milliseconds of the next attempt; while it is claimed, the end of the claim.
    var dueAt: Int64 = 0

    static let recordKind = "aliyun event"

    /// The key of its record: keys of one media are in the order of its events, the deletion last, whatever clocks say.
    ///
    /// The same event has the same key whenever it is recorded.
    ///
    /// - Parameter objectID: The id of the reported content.
    /// - Returns: The key.
    fileprivate func key(for objectID: String?) -> String {
        let digits = String(at)
        let time = String(repeating: "0", count: max(0, 15 - digits.utf8.count)) + digits
        return switch kind {
        case .stored: "\(mediaID)/1/\(time)/1/\(objectID ?? "")"
        case .pulled: "\(mediaID)/1/\(time)/2/\(pull?.jobID ?? "")"
        case .deleted: "\(mediaID)/9"
        }
    }

    /// Its name in `EventTypeList`.
    var type: String {
        switch (kind, mediaKind) {
        case (.deleted, _): "DeleteMediaComplete"
        case (.pulled, _): "UploadByURLComplete"
        case (.stored, .video): "FileUploadComplete"
        case (.stored, .image): "ImageUploadComplete"
        case (.stored, .attached): "AttachedMediaUploadComplete"
        }
    }
}

extension ApsaraEvent: FoundByTerms {
    /// That of all events, by the times of their next attempts.
    static let due = "due"

    /// With the name of a user behind it, the term of the user's events.
    static let users = "user/"

    func terms(createdAt time: Date) -> [DialectTerm] {
        [Self.due, Self.users + (subject ?? DeliveryTurns.noUser)].map { DialectTerm($0, at: dueAt) }
    }
}

/// Events for apps' servers, each a record until its receiver has confirmed it.
///
/// Keys begin with the id of the media, followed by the time, so the events of one media stand in their order.
struct ApsaraEvents: Sendable {
    struct Claimed: Sendable {
        let record: CodedRecord<ApsaraEvent>
        let callback: ApsaraCallback
        var url: String { record.content.url ?? callback.url }
        var host: String { Self.host(of: url) }

        static func host(of url: String) -> String { URL(string: url)?.host() ?? url }
    }

    /// Seconds for which an event is kept.
    static let retention: TimeInterval = 4 * 86_400

    let records: any DialectRecords
    let callbacks: ApsaraCallbacks
    /// Rings for each event that this process can deliver now.
    let bell: EventBell
    let clock: any WallClock
    private let turns = ClaimTurns()

    init(records: any DialectRecords, callbacks: ApsaraCallbacks, bell: EventBell, clock: any WallClock) {
        self.records = records
        self.callbacks = callbacks
        self.bell = bell
        self.clock = clock
    }

    /// The change that records an event, if the application wants it; a second time it changes nothing.
    ///
    /// - Parameters:
    ///   - kind: What has happened.
    ///   - media: The media after it.
    ///   - pull: For `.pulled`.
    ///   - time: When it happened, in Unix milliseconds; `nil` for now. That of content is its own.
    /// - Returns: The change, to be made together with that of the media.
    /// - Throws: `UploadError`.
    func recording(
        _ kind: ApsaraEvent.Kind,
        of media: ApsaraMedia,
        pull: ApsaraEvent.Pull? = nil,
        at time: Int64? = nil
    ) async throws(UploadError) -> [DialectChange] {
        let now = clock.now
        let userData = media.labels.userData.flatMap { ApsaraUserData($0) }
        let at =
            switch kind {
            case .stored: media.content?.storedAt ?? now.unixMilliseconds
            case .pulled, .deleted: time ?? now.unixMilliseconds
            }
        let event = ApsaraEvent(
            kind: kind,
            mediaID: media.id,
            mediaKind: media.kind,
            application: media.application,
            bucket: media.bucket,
            key: media.key,
            size: media.content?.size ?? 0,
            at: at,
            extend: userData?.extend,
            url: userData?.callbackURL,
            pull: pull,
            subject: media.subject
        )
        guard let callback = try await callbacks.callback(of: media.application), callback.wants(event.type) else {
            return []
        }
        let record = CodedRecord(
            ApsaraEvent.recordKind,
            event.key(for: media.content?.objectID),
            event,
            at: now,
            until: now.addingTimeInterval(Self.retention)
        )
        return [.insertIfAbsent(record.record, at: now)]
    }

    /// Claims events that are due: of each media only the first, so that they arrive in their order, and half of them at
    /// most for one host, so that one that does not answer does not delay the others.
    ///
    /// Nor does an event that cannot be read delay others, or a user with many events: if there are more, users have turns.
    ///
    /// - Parameters:
    ///   - start: Only events after this place.
    ///   - limit: Maximum number of events.
    ///   - places: Half of it is for one host.
    ///   - running: What is being sent to each host.
    ///   - milliseconds: How long the claim lasts; until then no other node sends these events.
    ///   - failing: What cannot be read.
    /// - Returns: The events.
    /// - Throws: `UploadError`.
    func look(
        after start: DialectPlace? = nil,
        limit: Int,
        of places: Int,
        beside running: [String: Int] = [:],
        for milliseconds: Int64,
        failing: FailingRecords
    ) async throws(UploadError) -> ClaimedRecords<Claimed> {
        var seen: Set<String> = []
        var hosts = running
        let now = clock.now
        let old = try await records.addTerms(to: ApsaraEvent.recordKind, as: ApsaraEvent.self, failing: failing)
        var due = try await records.claims(
            ApsaraEvent.recordKind,
            ApsaraEvent.due,
            ofUsersWith: ApsaraEvent.users,
            in: turns,
            upTo: now.unixMilliseconds,
            after: start,
            limit: limit,
            failing: failing
        ) { (record) throws(UploadError) -> Claimed? in
            guard record.expiresAt.map({ now < $0 }) ?? true else { return nil }
            let mediaID = try CodedRecord<ApsaraEvent>(record).content.mediaID
            guard seen.insert(mediaID).inserted, let found = try await first(of: mediaID, at: now),
                found.content.dueAt <= now.unixMilliseconds
            else { return nil }
            let event = found.content
            let callback = try await callbacks.callback(of: event.application)
            let host = (event.url ?? callback?.url).map(Claimed.host) ?? ""
            guard hosts[host, default: 0] < max(places / 2, 1), try await hasHappened(event) else { return nil }
            guard let callback else {
                // The application has removed its callback.
                try await remove(found.record.key)
                return nil
            }
            var changed = event
            changed.dueAt = now.unixMilliseconds + milliseconds
            changed.attempts += 1
            let replaced = found.replaced(by: changed, until: found.record.expiresAt)
            // If not, another node has claimed it.
            guard try await records.replace(replaced.record) else { return nil }
            hosts[host, default: 0] += 1
            return Claimed(record: replaced.next, callback: callback)
        }
        due.failure = due.failure ?? old
        return due
    }

    /// The event of a media for which the others wait.
    private func first(of mediaID: String, at now: Date) async throws(UploadError) -> CodedRecord<ApsaraEvent>? {
        var last: String?
        while true {
            let page = try await records.records(ApsaraEvent.recordKind, prefix: mediaID + "/", after: last, limit: 10)
            for record in page where record.expiresAt.map({ now < $0 }) ?? true {
                if let found = try? CodedRecord<ApsaraEvent>(record) { return found }
            }
            if page.count < 10 { return nil }
            last = page.last?.key
        }
    }

    /// Whether the change that an event reports is recorded: a node of an earlier version records the event first.
    private func hasHappened(_ event: ApsaraEvent) async throws(UploadError) -> Bool {
        guard let record = try await records.record(ApsaraMedia.recordKind, event.mediaID) else { return true }
        let media = try CodedRecord<ApsaraMedia>(record).content
        switch event.kind {
        case .deleted: return media.isDeleted
        case .pulled: return true
        case .stored: return media.isDeleted || media.content.map { $0.storedAt >= event.at } ?? false
        }
    }

    /// Removes an event that its receiver has.
    func remove(_ key: String) async throws(UploadError) {
        _ = try await records.removeRecord(ApsaraEvent.recordKind, key)
    }

    /// Puts the next attempt off, if the caller's claim still holds.
    func postpone(_ claimed: Claimed, by milliseconds: Int64) async throws(UploadError) {
        var event = claimed.record.content
        event.dueAt = clock.now.unixMilliseconds + milliseconds
        let changed = claimed.record.replaced(by: event, until: claimed.record.record.expiresAt)
        _ = try await records.replace(changed.record)
    }
}
