internal import Bytes
internal import Foundation
internal import HTTPWire
internal import ObjectStore
internal import UploadCore
internal import UploadModel
internal import VODKit

/// All media: reads and changes them, finds their content, and deletes them.
///
/// Media has content if its object exists. The first to find the object records it: the request that stored it, a reader,
/// or, if the gateway died in between, the next check of open media.
struct ApsaraLibrary: Sendable {
    /// Media whose content may arrive.
    static let openKind = "aliyun open"
    static let referenceKind = "aliyun reference"
    private static let removalKind = "aliyun removal"

    let place: ApsaraPlace
    let records: any DialectRecords
    let objects: ObjectService
    let uploads: UploadService
    let parts: PartService
    let events: ApsaraEvents
    let clock: any WallClock

    /// The record, also of media that is being deleted.
    func record(_ id: String) async throws(UploadError) -> CodedRecord<ApsaraMedia>? {
        guard ApsaraMedia.isID(id), let record = try await records.record(ApsaraMedia.recordKind, id) else {
            return nil
        }
        return try CodedRecord<ApsaraMedia>(record)
    }

    /// Media that is not being deleted, with its content if that has arrived.
    func media(_ id: String) async throws(UploadError) -> CodedRecord<ApsaraMedia>? {
        guard let found = try await record(id), !found.content.isDeleted else { return nil }
        return try await settled(found)
    }

    /// The ids of the media with a reference id: one in each application that has it, of the default one first.
    func ids(ofReference reference: String, in application: String?) async throws(UploadError) -> [String] {
        let prefix = Self.referenceKey(reference, of: application ?? "")
        guard DialectRecord.canBeKey(prefix) else { return [] }
        var found: [DialectRecord]
        if application != nil {
            found = try await records.record(Self.referenceKind, prefix).map { [$0] } ?? []
        } else {
            found = try await records.records(Self.referenceKind, prefix: prefix, after: nil, limit: 100)
        }
        let usual = Self.referenceKey(reference, of: ApsaraPlace.defaultApplication)
        found = found.filter { $0.key == usual } + found.filter { $0.key != usual }
        var ids: [String] = []
        for record in found {
            let holder = ReferenceHolder(record)
            if try await has(holder, reference) { ids.append(holder.id) }
        }
        return ids
    }

    private static func referenceKey(_ reference: String, of application: String) -> String {
        "\(reference)/\(application)"
    }

    /// Whether the holder of a reference id is media that is not being deleted and has it.
    private func has(_ holder: ReferenceHolder, _ reference: String) async throws(UploadError) -> Bool {
        guard let media = try await record(holder.id)?.content else { return false }
        return !media.isDeleted && media.labels.referenceID == reference
    }

    // MARK: Beginning

    /// Records new media.
    ///
    /// - Returns: `false` if its reference id is taken.
    func insert(_ media: ApsaraMedia) async throws(UploadError) -> Bool {
        let now = clock.now
        if let reference = media.labels.referenceID, try await !take(reference, for: media) { return false }
        // Before the media, so that whatever happens next is found.
        try await open(media.id)
        let record = CodedRecord(ApsaraMedia.recordKind, media.id, media, at: now, until: nil)
        guard try await records.insert(record.record, at: now) else {
            throw UploadError(.unavailable, "The id of the media is taken; try again.")
        }
        return true
    }

    /// Whether a reference id is this media's now.
    ///
    /// A gateway that died can have left it to media that never got it; such a holder is replaced after a minute.
    func take(_ reference: String, for media: ApsaraMedia) async throws(UploadError) -> Bool {
        let now = clock.now
        let key = Self.referenceKey(reference, of: media.application)
        let text = ReferenceHolder(id: media.id, since: now.unixSeconds).text
        let record = DialectRecord(kind: Self.referenceKind, key: key, text: text, createdAt: now)
        while true {
            if try await records.insert(record, at: now) { return true }
            guard var found = try await records.record(Self.referenceKind, key) else { continue }
            let holder = ReferenceHolder(found)
            let isHolder = holder.id == media.id
            if try await has(holder, reference) { return isHolder }
            guard isHolder || now.unixSeconds - holder.since > 60 else { return false }
            found.text = text
            if try await records.replace(found) { return true }
        }
    }

    func giveUp(_ reference: String, of media: ApsaraMedia) async throws(UploadError) {
        let key = Self.referenceKey(reference, of: media.application)
        guard let found = try await records.record(Self.referenceKind, key), ReferenceHolder(found).id == media.id
        else {
            return
        }
        _ = try await records.removeRecord(Self.referenceKind, key)
        // Another change may have given it back to this media meanwhile.
        if try await has(ReferenceHolder(found), reference) { _ = try await take(reference, for: media) }
    }

    private func open(_ id: String) async throws(UploadError) {
        let now = clock.now
        _ = try await records.insert(DialectRecord(kind: Self.openKind, key: id, text: "{}", createdAt: now), at: now)
    }

    /// Lets content arrive again, for as long as new credentials are valid.
    ///
    /// - Returns: The media; `nil` if it was deleted meanwhile.
    func reopen(_ id: String, until end: Int64) async throws(UploadError) -> ApsaraMedia? {
        let changed = try await change(id) { media in
            media.openUntil = max(media.openUntil, end)
            // "Also used to overwrite": the right with which the content came has ended.
            if let content = media.content, content.turn == media.turn { media.turn = (media.turn ?? 0) + 1 }
        }
        guard let media = changed else { return nil }
        // Afterwards: a look that has not seen the change yet removes the record.
        try await open(id)
        return media
    }

    // MARK: Content

    /// Records content that has arrived since.
    ///
    /// - Parameters:
    ///   - found: The media.
    ///   - isCertain: Whether to look for other content although no credentials are valid any more: a request that
    ///     began in time may have ended late.
    /// - Returns: The media; `nil` if it is being deleted.
    /// - Throws: `UploadError`.
    private func settled(
        _ found: CodedRecord<ApsaraMedia>,
        isCertain: Bool = false
    ) async throws(UploadError) -> CodedRecord<ApsaraMedia>? {
        var found = found
        while true {
            guard isCertain || clock.now.unixSeconds < found.content.openUntil || found.content.content == nil else {
                return found
            }
            guard let object = try await objects.object(found.content.name),
                // What is appended to is never complete.
                object.attributes?.isAppendable != true, object.id.text != found.content.content?.objectID
            else { return found }
            var media = found.content
            media.content = ApsaraMedia.Content(
                objectID: object.id.text,
                size: object.size,
                md5: object.attributes?.entityTag.flatMap { $0.utf8.count == 32 ? $0.lowercasedASCII() : nil },
                // Clocks of nodes differ, and events are in the order of these times.
                storedAt: max(object.createdAt.unixMilliseconds, (found.content.content?.storedAt ?? 0) + 1),
                turn: found.content.turn
            )
            media.modifiedAt = max(media.modifiedAt, object.createdAt.unixSeconds)
            // The event comes first: it is delivered only after the media has changed. In the other order, a gateway that
            // dies between both would lose it.
            let event = try await events.record(.stored, of: media)
            let changed = found.replaced(by: media, until: nil)
            if try await records.replace(changed.record) {
                events.bell.ring()
                // If this fails, it counts until it expires.
                if found.content.content == nil { try? await discount(media) }
                return changed.next
            }
            guard let current = try await record(found.content.id), !current.content.isDeleted else {
                // The event of the deletion is the last one, and may be delivered already.
                if let event { try await events.remove(event) }
                return nil
            }
            found = current
        }
    }

    /// Changes media in one step.
    ///
    /// - Parameters:
    ///   - id: The id.
    ///   - change: The change; may be called several times.
    /// - Returns: The changed media; `nil` if there is no media with this id.
    /// - Throws: `UploadError`.
    func change(_ id: String, _ change: (inout ApsaraMedia) -> Void) async throws(UploadError) -> ApsaraMedia? {
        while let found = try await media(id) {
            var media = found.content
            change(&media)
            guard !found.has(media) else { return media }
            if try await records.replace(found.replaced(by: media, until: nil).record) { return media }
        }
        return nil
    }

    // MARK: Deleting

    /// Deletes media with its object, and ends its uploads.
    ///
    /// A record of the intention comes first: if the gateway dies in between, `finishRemovals` deletes the rest.
    ///
    /// - Parameters:
    ///   - media: The media.
    ///   - hasEvent: Whether an event reports the deletion.
    /// - Throws: `UploadError`.
    func delete(_ media: ApsaraMedia, hasEvent: Bool) async throws(UploadError) {
        let now = clock.now
        let record = DialectRecord(
            kind: Self.removalKind,
            key: media.id,
            text: hasEvent ? "{}" : "",
            createdAt: now
        )
        _ = try await records.insert(record, at: now)
        try await remove(media.id, hasEvent: hasEvent)
    }

    private func remove(_ id: String, hasEvent: Bool) async throws(UploadError) {
        // A record with an expiry is what a deletion leaves.
        while let found = try await record(id), found.record.expiresAt == nil {
            var current = found
            if !found.content.isDeleted {
                var media = found.content
                media.isDeleted = true
                media.modifiedAt = clock.now.unixSeconds
                if hasEvent { try await events.record(.deleted, of: media) }
                let marked = found.replaced(by: media, until: nil)
                guard try await records.replace(marked.record) else { continue }
                current = marked.next
                events.bell.ring()
            }
            let media = current.content
            if let reference = media.labels.referenceID { try await giveUp(reference, of: media) }
            let expiry = Date(timeIntervalSince1970: Double(media.openUntil))
            try await objects.endRight(media.right, to: [media.name], until: expiry)
            try await endUploads(of: media)
            _ = try await objects.removeObject(media.name)
            // Until the last credentials have ended, bytes can come that must be removed.
            let end = Date(timeIntervalSince1970: Double(max(media.openUntil, media.modifiedAt) + 86_400))
            _ = try await records.replace(current.replaced(by: media.remains, until: end).record)
        }
        _ = try await records.removeRecord(Self.removalKind, id)
    }

    /// Ends the multipart uploads that are open for media.
    ///
    /// - Returns: How many there were.
    @discardableResult
    func endUploads(of media: ApsaraMedia) async throws(UploadError) -> Int {
        let open = try await openUploads(of: media)
        for upload in open {
            do throws(UploadError) {
                try await uploads.terminate(upload.id, .open)
            } catch  where [.notFound, .gone, .notOpen].contains(error.code) {
                continue
            }
        }
        return open.count
    }

    func openUploads(of media: ApsaraMedia) async throws(UploadError) -> [Upload] {
        let query = PartUploadQuery(bucket: media.bucket, prefix: media.key, after: nil, afterID: nil, limit: 1000)
        return try await parts.partUploads(query).filter { $0.key == media.key }
    }

    // MARK: Cleaning up

    /// Ends deletions that were interrupted.
    ///
    /// - Throws: `UploadError`; the next call continues.
    func finishRemovals() async throws(UploadError) {
        _ = try await records.each(Self.removalKind) { (record) throws(UploadError) in
            try await remove(record.key, hasEvent: !record.text.isEmpty)
        }
    }

    /// Records content that has arrived but is not recorded yet, and removes media without content after its time.
    ///
    /// - Throws: `UploadError`; the next call continues.
    func lookAtOpen() async throws(UploadError) {
        _ = try await records.each(Self.openKind) { (record) throws(UploadError) in try await check(record) }
    }

    private func check(_ open: DialectRecord) async throws(UploadError) {
        let now = clock.now
        guard let found = try await record(open.key) else {
            // It is about to be recorded, or never was.
            if now.timeIntervalSince(open.createdAt) > 86_400 {
                _ = try await records.removeRecord(Self.openKind, open.key)
            }
            return
        }
        if found.content.isDeleted {
            if found.record.expiresAt == nil { try await remove(open.key, hasEvent: false) }
            // What came after the deletion, from a gateway that died before it could remove it.
            _ = try await objects.removeObject(found.content.name)
            if now.unixSeconds >= found.content.openUntil {
                _ = try await records.removeRecord(Self.openKind, open.key)
            }
            return
        }
        guard let current = try await settled(found, isCertain: true) else { return }
        var media = current.content
        guard now.unixSeconds >= media.openUntil else { return }
        if media.content != nil {
            _ = try await records.removeRecord(Self.openKind, open.key)
            // New credentials may have been issued meanwhile.
            if let current = try await record(open.key), current.content.openUntil > now.unixSeconds {
                try await self.open(open.key)
            }
        } else if now.unixSeconds >= media.openUntil + place.uploadSeconds {
            media.isDeleted = true
            media.modifiedAt = now.unixSeconds
            // If not, new credentials were issued meanwhile. The next look removes the rest if this gateway dies.
            guard try await records.replace(current.replaced(by: media, until: nil).record) else { return }
            try await remove(open.key, hasEvent: false)
        }
    }
}

extension ApsaraLibrary: ObjectOwnership {
    func admit(_ name: ObjectName) async throws(UploadError) -> ObjectAdmission? {
        guard let id = place.mediaID(of: name), let media = try await record(id)?.content else { return nil }
        guard !media.isDeleted else { throw UploadError(.gone, "The media was deleted; begin another upload.") }
        return ObjectAdmission(
            keptFor: Double(place.uploadSeconds),
            contentType: MediaTypes.type(ofExtension: media.suffix)
        )
    }

    func stored(_ name: ObjectName) async {
        guard let id = place.mediaID(of: name) else { return }
        // On a failure, the next check of open media finds it.
        guard let found = try? await record(id) else { return }
        if found.content.isDeleted {
            _ = try? await objects.removeObject(name)
        } else {
            _ = try? await settled(found, isCertain: true)
        }
    }
}

/// The media to which a reference id was given, and when.
private struct ReferenceHolder {
    let id: String
    /// Unix seconds.
    let since: Int64

    init(id: String, since: Int64) {
        self.id = id
        self.since = since
    }

    init(_ record: DialectRecord) {
        let parts = record.text.split(separator: " ")
        id = parts.first.map(String.init) ?? ""
        since = parts.last.flatMap { Int64($0) } ?? record.createdAt.unixSeconds
    }

    var text: String { "\(id) \(since)" }
}
