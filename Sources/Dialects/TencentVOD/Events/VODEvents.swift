internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// An event for an app's server that it has not received yet.
struct VODEvent: MediaEvent, Equatable {
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
    var dueAt: Int64 = 0

    static let recordKind = "tencent event"
    static let unit: Int64 = 1000

    var tenant: String? { String(application) }
}

/// Events for apps' servers.
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

    /// What an event tells of.
    struct Facts: EventDetails {
        /// `nil` if it could not be pulled.
        let media: CodedRecord<VODMedia>?
        /// `nil` for media that was not pulled.
        let task: VODPull?
    }

    typealias Claimed = ClaimedEvent<VODEvent, Facts>

    /// Seconds in which a pulled event is to be confirmed ("PullEvents", VOD documentation).
    static let confirmation: Int64 = 30

    let mode: Mode
    let library: VODLibrary
    let outbox: MediaOutbox<VODEvent>
    var bell: EventBell { outbox.bell }
    private var records: any DialectRecords { outbox.records }

    init(mode: Mode, library: VODLibrary) {
        self.mode = mode
        self.library = library
        outbox = MediaOutbox(library.records, clock: library.clock)
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
        let event = VODEvent(
            kind: kind,
            fileID: fileID,
            application: owner.application,
            contentID: content,
            subject: owner.subject
        )
        let key = "\(owner.application)/\(fileID)/\(kind.rawValue)" + (content.map { "/\($0)" } ?? "")
        return [outbox.recording(event, as: key)]
    }

    /// Claims events for a caller of `PullEvents`.
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
        for seconds: Int64 = Self.confirmation,
        where isAllowed: (VODMedia) -> Bool = { _ in true }
    ) async throws(UploadError) -> [Claimed] {
        let tenant = application.map { String($0) }
        let found = try await outbox.claim(of: tenant, limit: limit, for: seconds, failing: FailingRecords()) {
            (found) throws(UploadError) in
            try await facts(of: found.content, where: isAllowed)
        }
        // Who asks for events gets those that can be read, even if there are none.
        if found.claimed.isEmpty, let failure = found.failure, failure.code != .storageFailure { throw failure }
        return found.claimed
    }

    /// The media and the task of an event; `nil` if they do not exist any more, or this caller may not see them.
    func facts(
        of event: VODEvent,
        where isAllowed: (VODMedia) -> Bool = { _ in true }
    ) async throws(UploadError) -> Facts? {
        let record = try await library.record(event.fileID, of: event.application)
        let task = event.kind == .pulled ? try await task(of: event) : nil
        guard let owned = record?.content ?? task?.media, isAllowed(owned) else { return nil }
        // If there is no media, it is deleted; a node of an earlier version records the event first.
        let media = record.flatMap { $0.content.isDeleted ? nil : $0 }
        switch event.kind {
        case .uploaded:
            // Of what replaces content, the record may not know yet; or it knows of later content, which has its own event.
            if let content = event.contentID, content != media?.content.contentID { return nil }
            return media.map { Facts(media: $0, task: nil) }
        case .pulled:
            guard let task, media != nil || task.failure != nil else { return nil }
            return Facts(media: media, task: task)
        }
    }

    private func task(of event: VODEvent) async throws(UploadError) -> VODPull? {
        let key = VODMedia.key(event.fileID, of: event.application)
        return try await records.record(VODPull.kind, key).map { record throws(UploadError) in
            try CodedRecord<VODPull>(record).content
        }
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
        try await outbox.remove(key)
        return true
    }
}
