internal import Bytes
internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// The media of all applications: reads, changes, finds and deletes them.
struct VODLibrary: Sendable {
    private static let removal = "tencent removal"
    /// Records in one step of a search.
    private static let page = 500

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

    /// - Returns: `false` if there is media with this id.
    func insert(_ media: VODMedia) async throws(UploadError) -> Bool {
        let key = VODMedia.key(media.fileID, of: media.owner.application)
        let now = clock.now
        return try await records.insert(CodedRecord(VODMedia.kind, key, media, at: now, until: nil).record, at: now)
    }

    /// Changes media in one step.
    ///
    /// - Parameters:
    ///   - fileID: The id.
    ///   - application: Its application.
    ///   - isAllowed: Whether the caller may see it.
    ///   - change: The change; may be called several times.
    /// - Returns: The changed media; `nil` if there is no media with this id that the caller may see.
    /// - Throws: What `change` throws; `UploadError`.
    func change(
        _ fileID: String,
        of application: Int64,
        where isAllowed: (VODMedia) -> Bool,
        _ change: (inout VODMedia) throws -> Void
    ) async throws -> VODMedia? {
        while let found = try await media(fileID, of: application), isAllowed(found.content) {
            var media = found.content
            try change(&media)
            if try await records.replace(found.replaced(by: media, until: nil).record) { return media }
        }
        return nil
    }

    // MARK: Searching

    /// What a search has found.
    struct Found: Sendable {
        /// Of all media that match.
        var count = 0
        /// Those of the page.
        var media: [CodedRecord<VODMedia>] = []
    }

    /// Finds media of an application.
    ///
    /// It looks at each media whose upload began in the time of the query, so its cost grows with their number.
    ///
    /// - Parameters:
    ///   - application: The application.
    ///   - query: What to find.
    ///   - isAllowed: Whether the caller may see media.
    /// - Returns: The page, and the number of all media that match.
    /// - Throws: `UploadError`.
    func search(
        _ application: Int64,
        _ query: VODQuery,
        where isAllowed: (VODMedia) -> Bool
    ) async throws(UploadError) -> Found {
        var found = Found()
        let prefix = VODMedia.key("", of: application)
        // Ids begin with the time at which the upload began; it was committed later, but not much later.
        var last = query.createdAfter.map { prefix + VODMedia.id(after: $0 - VODUploads.longestUpload) }
        let end = query.createdBefore.map { prefix + VODMedia.id(after: $0) }
        while true {
            let page = try await records.records(VODMedia.kind, prefix: prefix, after: last, limit: Self.page)
            for record in page {
                last = record.key
                if let end, !record.key.utf8.lexicographicallyPrecedes(end.utf8) { return found.page(of: query) }
                let one = try CodedRecord<VODMedia>(record)
                guard !one.content.isDeleted, isAllowed(one.content), query.matches(one) else { continue }
                found.count += 1
                found.media.append(one)
            }
            // Only what the page can show is kept, so that memory does not grow with the number of media.
            found.keepFirst(query.offset + query.limit, of: query)
            if page.count < Self.page { return found.page(of: query) }
        }
    }

    // MARK: Deleting

    /// Deletes media with its objects.
    ///
    /// A record of the intention comes first: if the gateway dies in between, `finishRemovals` deletes the rest.
    ///
    /// - Returns: `false` if there is no such media.
    func delete(
        _ fileID: String,
        of application: Int64,
        where isAllowed: (VODMedia) -> Bool
    ) async throws -> Bool {
        guard let found = try await media(fileID, of: application), isAllowed(found.content) else { return false }
        let now = clock.now
        let key = VODMedia.key(fileID, of: application)
        try await FreeingWork.$isRunning.withValue(true) {
            let intention = DialectRecord(kind: Self.removal, key: key, text: "{}", createdAt: now)
            _ = try await records.insert(intention, at: now)
            try await remove(key)
        }
        return true
    }

    private func remove(_ key: String) async throws(UploadError) {
        // A record with an expiry is what a deletion leaves: the objects are gone.
        while let record = try await records.record(VODMedia.kind, key), record.expiresAt == nil {
            var found = try CodedRecord<VODMedia>(record)
            if !found.content.isDeleted {
                // From now on no call finds this media, so its cover cannot be replaced either.
                var media = found.content
                media.isDeleted = true
                let marked = found.replaced(by: media, until: nil)
                guard try await records.replace(marked.record) else { continue }
                found = marked.next
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
            _ = try await records.replace(found.replaced(by: found.content.tombstone, until: end).record)
        }
        _ = try await records.removeRecord(Self.removal, key)
    }

    /// Ends deletions that were interrupted.
    ///
    /// - Throws: `UploadError`; the next call continues.
    func finishRemovals() async throws(UploadError) {
        while true {
            let page = try await records.records(Self.removal, prefix: "", after: nil, limit: 100)
            for record in page { try await remove(record.key) }
            if page.count < 100 { return }
        }
    }
}

extension VODMedia {
    /// What is greater than the ids of all uploads that began until this time.
    fileprivate static func id(after time: Date) -> String {
        // 19 digits, of which the first 13 are milliseconds.
        let milliseconds = min(max(time.unixMilliseconds, 0), 9_999_999_999_998)
        let text = String(milliseconds + 1)
        return String(repeating: "0", count: max(0, 13 - text.utf8.count)) + text
    }
}

extension Media {
    /// Hexadecimal MD5 of the bytes; `nil` if they came in parts.
    var md5: String? {
        guard let tag = attributes?.entityTag, tag.utf8.count == 32 else { return nil }
        return tag.lowercasedASCII()
    }
}
