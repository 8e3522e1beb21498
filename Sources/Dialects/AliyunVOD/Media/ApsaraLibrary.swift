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
            let holder = Self.holder(record)
            if try await has(holder, reference) { ids.append(holder) }
        }
        return ids
    }

    private static func referenceKey(_ reference: String, of application: String) -> String {
        "\(reference)/\(application)"
    }

    /// The id of the media to which a reference id was given; earlier versions add the time.
    private static func holder(_ record: DialectRecord) -> String {
        record.text.split(separator: " ").first.map(String.init) ?? ""
    }

    /// Whether the holder of a reference id is media that is not being deleted and has it.
    private func has(_ holder: String, _ reference: String) async throws(UploadError) -> Bool {
        guard let media = try await record(holder)?.content else { return false }
        return !media.isDeleted && media.labels.referenceID == reference
    }

    // MARK: Beginning

    /// Records new media.
    ///
    /// - Parameters:
    ///   - media: The media.
    ///   - others: What is recorded with it.
    /// - Throws: `.conditionFailed` if other media has its reference id; `UploadError`.
    func insert(_ media: ApsaraMedia, with others: [DialectChange]) async throws(UploadError) {
        let now = clock.now
        let record = CodedRecord(ApsaraMedia.recordKind, media.id, media, at: now, until: nil)
        let new = [.insert(record.record, at: now), opening(media.id)] + others
        var refused: DialectChange?
        while true {
            var taking: DialectChange?
            if let reference = media.labels.referenceID {
                taking = try await self.taking(reference, for: media, at: now)
            }
            if try await records.apply(new + [taking].compactMap { $0 }) { return }
            // If not, the reference id was taken or given up meanwhile.
            if taking == refused { throw UploadError(.unavailable, "The id of the media is taken; try again.") }
            refused = taking
        }
    }

    /// The change that makes a reference id this media's.
    ///
    /// - Throws: `.conditionFailed` if other media has it; `UploadError`.
    private func taking(
        _ reference: String,
        for media: ApsaraMedia,
        at now: Date
    ) async throws(UploadError) -> DialectChange {
        let key = Self.referenceKey(reference, of: media.application)
        guard var found = try await records.record(Self.referenceKind, key) else {
            return .insert(DialectRecord(kind: Self.referenceKind, key: key, text: media.id, createdAt: now), at: now)
        }
        let holder = Self.holder(found)
        // A gateway of an earlier version that died can have left it to media that never got it.
        if holder != media.id, try await has(holder, reference) {
            throw UploadError(.conditionFailed, "Other media has this reference id.")
        }
        found.text = media.id
        return .replace(found)
    }

    /// The change after which a reference id is no longer this media's.
    private func givingUp(_ reference: String?, of media: ApsaraMedia) async throws(UploadError) -> [DialectChange] {
        guard let key = reference.map({ Self.referenceKey($0, of: media.application) }),
            let found = try await records.record(Self.referenceKind, key), Self.holder(found) == media.id
        else { return [] }
        return [.remove(kind: found.kind, key: key, version: found.version)]
    }

    /// The change that lists media as open.
    private func opening(_ id: String) -> DialectChange {
        let now = clock.now
        return .insertIfAbsent(DialectRecord(kind: Self.openKind, key: id, text: "{}", createdAt: now), at: now)
    }

    /// Lets content arrive again, for as long as new credentials are valid.
    ///
    /// - Returns: The media; `nil` if it was deleted meanwhile.
    func reopen(_ id: String, until end: Int64) async throws(UploadError) -> ApsaraMedia? {
        try await change(id, with: [opening(id)]) { media in
            media.openUntil = max(media.openUntil, end)
            // "Also used to overwrite": the right with which the content came has ended.
            if let content = media.content, content.turn == media.turn { media.turn = (media.turn ?? 0) + 1 }
        }
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
            var changes = [DialectChange.replace(found.replaced(by: media, until: nil).record)]
            changes += try await events.recording(.stored, of: media)
            if found.content.content == nil { changes += discounting(media) }
            if try await records.apply(changes) {
                events.bell.ring()
                return found.replaced(by: media, until: nil).next
            }
            guard let current = try await record(found.content.id), !current.content.isDeleted else { return nil }
            found = current
        }
    }

    /// Changes media in one step.
    ///
    /// - Parameters:
    ///   - id: The id.
    ///   - others: What is recorded with the change.
    ///   - change: The change; may be called several times.
    /// - Returns: The changed media; `nil` if there is no media with this id.
    /// - Throws: `.conditionFailed` if other media has its new reference id; `UploadError`.
    func change(
        _ id: String,
        with others: [DialectChange] = [],
        _ change: (inout ApsaraMedia) -> Void
    ) async throws(UploadError) -> ApsaraMedia? {
        while let found = try await media(id) {
            var media = found.content
            change(&media)
            guard !found.has(media) else { return media }
            var changes = others + [.replace(found.replaced(by: media, until: nil).record)]
            let before = found.content.labels.referenceID
            if let reference = media.labels.referenceID, before.map({ !$0.isExactly(reference) }) ?? true {
                changes.append(try await taking(reference, for: media, at: clock.now))
                changes += try await givingUp(before, of: media)
            }
            if try await records.apply(changes) { return media }
        }
        return nil
    }

    // MARK: Deleting

    /// Deletes media with its object, and ends its uploads.
    ///
    /// It is marked first: if the gateway dies in between, `finishRemovals` deletes the rest.
    ///
    /// - Parameters:
    ///   - id: The id.
    ///   - hasEvent: Whether an event reports the deletion.
    /// - Throws: `UploadError`.
    func delete(_ id: String, hasEvent: Bool) async throws(UploadError) {
        while let found = try await record(id), !found.content.isDeleted {
            var changes = try await marking(found)
            if hasEvent { changes += try await events.recording(.deleted, of: found.content) }
            guard try await records.apply(changes) else { continue }
            events.bell.ring()
            break
        }
        try await finishRemoval(of: id)
    }

    /// The changes that mark media as deleted: no caller finds it any more, and `finishRemovals` deletes its content.
    func marking(_ found: CodedRecord<ApsaraMedia>) async throws(UploadError) -> [DialectChange] {
        let now = clock.now
        var media = found.content
        media.isDeleted = true
        media.modifiedAt = now.unixSeconds
        let removal = DialectRecord(kind: Self.removalKind, key: media.id, text: "{}", createdAt: now)
        return [.replace(found.replaced(by: media, until: nil).record), .insertIfAbsent(removal, at: now)]
            + (try await givingUp(media.labels.referenceID, of: media))
    }

    /// Deletes what is left of media that is marked.
    func finishRemoval(of id: String) async throws(UploadError) {
        // A record with an expiry is what a deletion leaves.
        while let found = try await record(id), found.content.isDeleted, found.record.expiresAt == nil {
            let media = found.content
            let expiry = Date(timeIntervalSince1970: Double(media.openUntil))
            try await objects.endRight(media.right, to: [media.name], until: expiry)
            try await endUploads(of: media)
            _ = try await objects.removeObject(media.name)
            // Until the last credentials have ended, bytes can come that must be removed.
            let end = Date(timeIntervalSince1970: Double(max(media.openUntil, media.modifiedAt) + 86_400))
            let remains = DialectChange.replace(found.replaced(by: media.remains, until: end).record)
            if try await records.apply([remains, .removeIfPresent(kind: Self.removalKind, key: id)]) { return }
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
    /// - Returns: Whether there were any.
    /// - Throws: `UploadError`; the next call continues.
    @discardableResult
    func finishRemovals(_ failing: FailingRecords = FailingRecords()) async throws(UploadError) -> Bool {
        try await records.each(Self.removalKind, failing: failing) { (record) throws(UploadError) in
            // A gateway of an earlier version has recorded only that it wants to delete it, and whether an event tells so.
            try await delete(record.key, hasEvent: !record.text.isEmpty)
        }
    }

    /// Records content that has arrived but is not recorded yet, and removes media without content after its time.
    ///
    /// - Returns: Whether any media was open.
    /// - Throws: `UploadError`; the next call continues.
    @discardableResult
    func lookAtOpen(_ failing: FailingRecords = FailingRecords()) async throws(UploadError) -> Bool {
        try await records.each(Self.openKind, failing: failing) { (record) throws(UploadError) in
            try await check(record)
        }
    }

    private func check(_ open: DialectRecord) async throws(UploadError) {
        let now = clock.now
        guard let found = try await record(open.key) else {
            // A gateway of an earlier version is about to record it, or never did.
            if now.timeIntervalSince(open.createdAt) > 86_400 {
                _ = try await records.removeRecord(Self.openKind, open.key)
            }
            return
        }
        if found.content.isDeleted {
            if found.record.expiresAt == nil { try await finishRemoval(of: open.key) }
            // What came after the deletion, from a gateway that died before it could remove it.
            _ = try await objects.removeObject(found.content.name)
            if now.unixSeconds >= found.content.openUntil {
                _ = try await records.removeRecord(Self.openKind, open.key)
            }
            return
        }
        // Recording content frees nothing.
        let recorded = try await FreeingWork.$isRunning.with(false) { () async throws(UploadError) in
            try await settled(found, isCertain: true)
        }
        guard let current = recorded else { return }
        let media = current.content
        guard now.unixSeconds >= media.openUntil else { return }
        // If a change is refused, new credentials were issued meanwhile.
        if media.content != nil {
            _ = try await records.apply([
                .replace(current.record), .removeIfPresent(kind: Self.openKind, key: open.key),
            ])
        } else if now.unixSeconds >= media.openUntil + place.uploadSeconds,
            try await records.apply(try await marking(current))
        {
            try await finishRemoval(of: open.key)
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
