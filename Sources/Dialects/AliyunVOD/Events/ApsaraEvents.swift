internal import CloudCalls
internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// An event for an app's server that it has not received yet ("Event notification", ApsaraVideo VOD documentation).
struct ApsaraEvent: MediaEvent, Equatable {
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
    var dueAt: Int64 = 0

    static let recordKind = "aliyun event"
    static let unit: Int64 = 1

    var sequence: String? { "\(mediaID)/" }

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

/// Events for apps' servers.
///
/// Keys begin with the id of the media, followed by the time, so the events of one media stand in their order.
struct ApsaraEvents: Sendable {
    /// Where an event is posted.
    struct Target: EventDetails {
        let url: String
        let callback: ApsaraCallback
        var host: String? { URL(string: url)?.host() ?? url }
    }

    typealias Claimed = ClaimedEvent<ApsaraEvent, Target>

    let callbacks: ApsaraCallbacks
    let outbox: MediaOutbox<ApsaraEvent>
    var bell: EventBell { outbox.bell }

    init(records: any DialectRecords, callbacks: ApsaraCallbacks, clock: any WallClock) {
        self.callbacks = callbacks
        outbox = MediaOutbox(records, clock: clock)
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
        let now = outbox.clock.now.unixMilliseconds
        let userData = media.labels.userData.flatMap { ApsaraUserData($0) }
        let at =
            switch kind {
            case .stored: media.content?.storedAt ?? now
            case .pulled, .deleted: time ?? now
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
        return [outbox.recording(event, as: event.key(for: media.content?.objectID))]
    }

    /// Where an event is to be posted; `nil` if not now.
    func target(of found: CodedRecord<ApsaraEvent>) async throws(UploadError) -> Target? {
        let event = found.content
        let callback = try await callbacks.callback(of: event.application)
        guard try await hasHappened(event) else { return nil }
        guard let callback else {
            // The application has removed its callback.
            try await outbox.remove(found.record.key)
            return nil
        }
        return Target(url: event.url ?? callback.url, callback: callback)
    }

    /// Whether the change that an event reports is recorded: a node of an earlier version records the event first.
    private func hasHappened(_ event: ApsaraEvent) async throws(UploadError) -> Bool {
        guard let record = try await outbox.records.record(ApsaraMedia.recordKind, event.mediaID) else { return true }
        let media = try CodedRecord<ApsaraMedia>(record).content
        switch event.kind {
        case .deleted: return media.isDeleted
        case .pulled: return true
        case .stored: return media.isDeleted || media.content.map { $0.storedAt >= event.at } ?? false
        }
    }
}
