internal import Bytes
internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// The media of all applications: reads, changes, finds and deletes them.
struct VODLibrary: Sendable {
    private static let removal = "tencent removal"

    let records: any DialectRecords
    let objects: ObjectService
    let clock: any WallClock

    /// - Returns: The record, also of media that is being deleted, or `nil`.
    func record(_ fileID: String, of application: Int64) async throws(UploadError) -> CodedRecord<VODMedia>? {
        let key = VODMedia.key(fileID, of: application)
        // A client may send any text as an id.
        guard DialectRecord.canBeKey(key), let record = try await records.record(VODMedia.kind, key) else { return nil }
        return try CodedRecord<VODMedia>(record)
    }

    /// Media that is not being deleted.
    func media(_ fileID: String, of application: Int64) async throws(UploadError) -> CodedRecord<VODMedia>? {
        guard let found = try await record(fileID, of: application), !found.content.isDeleted else { return nil }
        return found
    }

    /// The change that records new media; refused if there is media with this id.
    func insertion(of media: VODMedia) -> DialectChange {
        let key = VODMedia.key(media.fileID, of: media.owner.application)
        let now = clock.now
        return .insert(CodedRecord(VODMedia.kind, key, media, at: now, until: nil).record, at: now)
    }

    /// Changes media in one step.
    ///
    /// - Parameters:
    ///   - fileID: The id.
    ///   - application: Its application.
    ///   - isAllowed: Whether the caller may see it.
    ///   - change: The change; may be called several times.
    /// - Returns: The changed media; `nil` if there is no media with this id that the caller may see.
    /// - Throws: `VODError`, what `change` throws.
    func change(
        _ fileID: String,
        of application: Int64,
        where isAllowed: (VODMedia) -> Bool,
        _ change: (inout VODMedia) throws(VODError) -> Void
    ) async throws(VODError) -> VODMedia? {
        while let found = try await core(await media(fileID, of: application)), isAllowed(found.content) {
            var media = found.content
            try change(&media)
            if try await core(await records.replace(found.replaced(by: media, until: nil).record)) { return media }
        }
        return nil
    }

    // MARK: Searching

    typealias Found = MediaSearch<VODMedia>.Found

    /// Finds media of an application.
    ///
    /// - Parameters:
    ///   - application: The application.
    ///   - query: What to find.
    ///   - limits: What the caller may see.
    /// - Returns: The page, and the number of all media that match, up to `VODQuery.mostCounted`.
    /// - Throws: `UploadError`.
    func search(_ application: Int64, _ query: VODQuery, under limits: KeyLimits) async throws(UploadError) -> Found {
        try await records.addTerms(to: VODMedia.kind, as: VODMedia.self)
        return try await query.search(in: application, under: limits).found(in: records) { one in
            !one.content.isDeleted && limits.allows(one.content) && query.matches(one)
        }
    }

    // MARK: Deleting

    /// Deletes media with its objects.
    ///
    /// It is marked first: if the gateway dies in between, `finishRemovals` deletes the rest.
    ///
    /// - Returns: `false` if there is no such media.
    func delete(
        _ fileID: String,
        of application: Int64,
        where isAllowed: (VODMedia) -> Bool
    ) async throws(UploadError) -> Bool {
        guard let found = try await media(fileID, of: application), isAllowed(found.content) else { return false }
        try await FreeingWork.$isRunning.with(true) { () async throws(UploadError) in
            try await remove(found.record.key)
        }
        return true
    }

    private func remove(_ key: String) async throws(UploadError) {
        // A record with an expiry is what a deletion leaves: the objects are gone.
        while let record = try await records.record(VODMedia.kind, key), record.expiresAt == nil {
            let found = try CodedRecord<VODMedia>(record)
            if !found.content.isDeleted {
                // From now on no call finds this media, so its cover cannot be replaced either.
                var media = found.content
                media.isDeleted = true
                let now = clock.now
                let removal = DialectRecord(kind: Self.removal, key: key, text: "{}", createdAt: now)
                let marking = DialectChange.replace(found.replaced(by: media, until: nil).record)
                _ = try await records.apply([marking, .insertIfAbsent(removal, at: now)])
                continue
            }
            // A commit has ended it, but not one of an earlier version.
            let end = record.createdAt.addingTimeInterval(VODUploads.longestUpload)
            let names = found.content.keys.map { ObjectName(bucket: found.content.bucket, key: $0) }
            for session in [found.content.fileID, found.content.coverSession].compactMap({ $0 }) {
                try await objects.endRight(
                    VODSession.right(session),
                    to: names,
                    below: found.content.segments,
                    until: end
                )
            }
            for object in found.content.keys {
                _ = try await objects.removeObject(ObjectName(bucket: found.content.bucket, key: object))
            }
            if let directory = found.content.segments { try await objects.removeObjects(below: directory) }
            // This record keeps a running or repeated commit from creating the media anew. Its session has ended when the record
            // expires.
            let tombstone = found.replaced(by: found.content.tombstone, until: end).record
            if try await records.apply([.replace(tombstone), .removeIfPresent(kind: Self.removal, key: key)]) {
                return
            }
        }
        _ = try await records.removeRecord(Self.removal, key)
    }

    /// Ends deletions that were interrupted; one that fails keeps no other from being ended.
    ///
    /// - Returns: Whether there were any.
    /// - Throws: The first failure, at the end; the next call continues.
    @discardableResult
    func finishRemovals(_ failing: FailingRecords = FailingRecords()) async throws(UploadError) -> Bool {
        try await records.each(Self.removal, failing: failing) { (record) throws(UploadError) in
            try await remove(record.key)
        }
    }
}

extension KeyLimits {
    func allows(_ media: VODMedia) -> Bool { allows(subject: media.owner.subject) }
}

extension Media {
    /// Hexadecimal MD5 of the bytes; `nil` if they came in parts.
    var md5: String? {
        guard let tag = attributes?.entityTag, tag.utf8.count == 32 else { return nil }
        return tag.lowercasedASCII()
    }
}
