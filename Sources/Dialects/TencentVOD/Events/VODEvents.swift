internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// An event for an app's server that it has not received yet.
struct VODEvent: Sendable, Equatable, Codable {
    enum Kind: String, Sendable, Codable {
        case uploaded = "NewFileUpload"
        case pulled = "PullComplete"
    }

    var kind: Kind
    var fileID: String
    var application: Int64
    /// The content that replaced what was committed, as `VODContent.id`; `nil` for what was committed.
    var contentID: String?
    /// Whose media it is; `nil` also in events of earlier versions.
    var subject: String?
    var attempts = 0
    /// Unix seconds of the next attempt; while it is claimed, the end of the claim.
    var dueAt: Int64 = 0

    static let recordKind = "tencent event"

    /// The term of the events of an application; of all for `nil`.
    static func term(_ application: Int64?) -> String { application.map { "due/\($0)" } ?? "due" }

    /// With the name of a user behind it, the term of the user's events of an application; for `nil` the beginning of all those terms.
    static func users(_ application: Int64?) -> String { application.map { "user/\($0)/" } ?? "user/" }
}

extension VODEvent: FoundByTerms {
    func terms(createdAt time: Date) -> [DialectTerm] {
        let user = Self.users(application) + (subject ?? DeliveryTurns.noUser)
        return [Self.term(nil), Self.term(application), user].map { DialectTerm($0, at: dueAt) }
    }
}

/// Events for apps' servers, each a record until its receiver has confirmed it.
///
/// What an event says of the media is read when it is sent.
struct VODEvents: Sendable {
    enum Mode: Sendable {
        /// None are recorded.
        case off
        /// The app's server asks for them: `PullEvents`, `ConfirmEvents`.
        case pull
        /// They are posted to a URL.
        case push
    }

    /// A claimed event.
    struct Claimed: Sendable {
        let record: CodedRecord<VODEvent>
        /// `nil` if it could not be pulled.
        let media: CodedRecord<VODMedia>?
        /// `nil` for media that was not pulled.
        let task: VODPull?
    }

    /// Seconds for which an event is kept ("PullEvents", VOD documentation).
    static let retention: TimeInterval = 4 * 86_400
    /// Seconds in which a pulled event is to be confirmed (the same).
    static let confirmation: Int64 = 30

    let mode: Mode
    let records: any DialectRecords
    let library: VODLibrary
    /// Rings for each event that this process records.
    let bell: EventBell
    let clock: any WallClock
    private let turns = ClaimTurns()

    init(
        mode: Mode,
        records: any DialectRecords,
        library: VODLibrary,
        bell: EventBell,
        clock: any WallClock
    ) {
        self.mode = mode
        self.records = records
        self.library = library
        self.bell = bell
        self.clock = clock
    }

    /// The change that records an event, if there are events; a second time it changes nothing.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - fileID: The media.
    ///   - owner: Its application and user.
    ///   - content: The content that replaced what was committed.
    /// - Returns: The change, to be made together with that of the media.
    func recording(
        _ kind: VODEvent.Kind,
        of fileID: String,
        in owner: VODOwner,
        content: String? = nil
    ) -> [DialectChange] {
        guard mode != .off else { return [] }
        let now = clock.now
        let event = VODEvent(
            kind: kind,
            fileID: fileID,
            application: owner.application,
            contentID: content,
            subject: owner.subject
        )
        let record = CodedRecord(
            VODEvent.recordKind,
            "\(owner.application)/\(fileID)/\(kind.rawValue)" + (content.map { "/\($0)" } ?? ""),
            event,
            at: now,
            until: now.addingTimeInterval(Self.retention)
        )
        return [.insertIfAbsent(record.record, at: now)]
    }

    /// Claims events that are due; if there are more, users have turns.
    ///
    /// - Parameters:
    ///   - application: Only of this one; `nil` for all.
    ///   - limit: Maximum number of events.
    ///   - seconds: How long the claim lasts; until then no other caller gets these events.
    ///   - isAllowed: Whether the caller may see media.
    /// - Returns: The events, those of each user from the oldest on.
    /// - Throws: `UploadError`.
    func claim(
        of application: Int64?,
        limit: Int,
        for seconds: Int64,
        where isAllowed: (VODMedia) -> Bool = { _ in true }
    ) async throws(UploadError) -> [Claimed] {
        let found = try await look(
            of: application,
            limit: limit,
            for: seconds,
            failing: FailingRecords(),
            where: isAllowed
        )
        // Who asks for events gets those that can be read, even if there are none.
        if found.claimed.isEmpty, let failure = found.failure, failure.code != .storageFailure { throw failure }
        return found.claimed
    }

    /// Claims events that are due, in turns of users, and of all after a place; an event that cannot be read does not keep the others waiting.
    func look(
        of application: Int64? = nil,
        after start: DialectPlace? = nil,
        limit: Int,
        for seconds: Int64,
        failing: FailingRecords,
        where isAllowed: (VODMedia) -> Bool = { _ in true }
    ) async throws(UploadError) -> ClaimedRecords<Claimed> {
        let now = clock.now
        let old = try await records.addTerms(to: VODEvent.recordKind, as: VODEvent.self, failing: failing)
        var due = try await records.claims(
            VODEvent.recordKind,
            VODEvent.term(application),
            ofUsersWith: VODEvent.users(application),
            in: turns,
            upTo: now.unixSeconds,
            after: start,
            limit: limit,
            failing: failing
        ) { (record) throws(UploadError) -> Claimed? in
            guard record.expiresAt.map({ now < $0 }) ?? true else { return nil }
            let found = try CodedRecord<VODEvent>(record)
            guard found.content.dueAt <= now.unixSeconds,
                let facts = try await facts(of: found.content, where: isAllowed)
            else { return nil }
            var event = found.content
            event.dueAt = now.unixSeconds + seconds
            event.attempts += 1
            let changed = found.replaced(by: event, until: record.expiresAt)
            // If not, somebody else has claimed it.
            guard try await records.replace(changed.record) else { return nil }
            return Claimed(record: changed.next, media: facts.media, task: facts.task)
        }
        due.failure = due.failure ?? old
        return due
    }

    /// The media and the task of an event; `nil` if they do not exist any more, or this caller may not see them.
    private func facts(
        of event: VODEvent,
        where isAllowed: (VODMedia) -> Bool
    ) async throws(UploadError) -> (media: CodedRecord<VODMedia>?, task: VODPull?)? {
        let record = try await library.record(event.fileID, of: event.application)
        let task = event.kind == .pulled ? try await task(of: event) : nil
        guard let owned = record?.content ?? task?.media, isAllowed(owned) else { return nil }
        // If there is no media, it is deleted; a node of an earlier version records the event first.
        let media = record.flatMap { $0.content.isDeleted ? nil : $0 }
        switch event.kind {
        case .uploaded:
            // Of what replaces content, the record may not know yet; or it knows of later content, which has its own event.
            if let content = event.contentID, content != media?.content.contentID { return nil }
            return media.map { ($0, nil) }
        case .pulled:
            guard let task, media != nil || task.failure != nil else { return nil }
            return (media, task)
        }
    }

    private func task(of event: VODEvent) async throws(UploadError) -> VODPull? {
        let key = VODMedia.key(event.fileID, of: event.application)
        return try await records.record(VODPull.kind, key).map { record throws(UploadError) in
            try CodedRecord<VODPull>(record).content
        }
    }

    /// Removes an event that its receiver has.
    func remove(_ key: String) async throws(UploadError) {
        _ = try await records.removeRecord(VODEvent.recordKind, key)
    }

    /// Puts the next attempt off, if the caller's claim still holds.
    func postpone(_ claimed: Claimed, by seconds: Int64) async throws(UploadError) {
        var event = claimed.record.content
        event.dueAt = clock.now.unixSeconds + seconds
        let changed = claimed.record.replaced(by: event, until: claimed.record.record.expiresAt)
        _ = try await records.replace(changed.record)
    }

    // MARK: Pulling

    /// What a receiver confirms: the event, and the claim under which it got it.
    static func handle(of claimed: Claimed) -> String {
        "\(claimed.record.record.version):\(claimed.record.record.key)"
    }

    /// Removes an event by its handle.
    ///
    /// - Parameters:
    ///   - handle: From `handle(of:)`, or whatever else a client sends.
    ///   - application: The application.
    ///   - isAllowed: Whether the caller may see media.
    /// - Returns: `false` if the handle is not the caller's, or another caller has been given the event since.
    /// - Throws: `UploadError`.
    func confirm(
        _ handle: String,
        of application: Int64,
        where isAllowed: (VODMedia) -> Bool = { _ in true }
    ) async throws(UploadError) -> Bool {
        guard let colon = handle.firstIndex(of: ":"), let version = Int64(handle[..<colon]) else { return false }
        let key = String(handle[handle.index(after: colon)...])
        guard key.hasPrefix("\(application)/"), DialectRecord.canBeKey(key) else { return false }
        guard let record = try await records.record(VODEvent.recordKind, key) else { return true }
        guard record.version == version else { return false }
        let event = try CodedRecord<VODEvent>(record).content
        // Also for media that is deleted, or could not be pulled.
        var owned = try await library.record(event.fileID, of: application)?.content
        if owned == nil { owned = try await task(of: event)?.media }
        guard owned.map(isAllowed) ?? true else { return false }
        try await remove(key)
        return true
    }
}
