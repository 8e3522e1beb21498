package import Bytes
package import Foundation
package import UploadModel

/// Objects (media that have a name in a bucket) and buckets.
package final class ObjectService: Sendable {
    typealias Records = ObjectRecords & BucketRecords & PartRecords & UploadRecords

    let context: ServiceContext
    let state: any Records
    private let storage: any BlobStorage
    private let uploads: UploadService
    private let media: MediaService

    init(
        _ context: ServiceContext,
        state: any Records,
        storage: any BlobStorage,
        uploads: UploadService,
        media: MediaService
    ) {
        self.context = context
        self.state = state
        self.storage = storage
        self.uploads = uploads
        self.media = media
    }

    /// The current object with this name, or `nil`.
    ///
    /// - Throws: `.storageFailure`.
    package func object(_ name: ObjectName) async throws(UploadError) -> Media? {
        try await context.reporting(nil) { () async throws(UploadError) -> Media? in try await state.object(name) }
    }

    /// The current object with this name and its bytes, which stay readable after the object is replaced.
    ///
    /// - Throws: `.notFound`, `.unavailable`, `.storageFailure`.
    package func openObject(_ name: ObjectName) async throws(UploadError) -> (Media, StoredBlob) {
        while true {
            guard let object = try await object(name) else { throw Self.noObject }
            do throws(UploadError) {
                return try await media.open(object.id)
            } catch  where error.code == .gone {
                // The object was replaced or removed since.
                continue
            }
        }
    }

    /// Reads bytes of the current object with this name, to make another object from them.
    ///
    /// - Parameters:
    ///   - name: The name of the object.
    ///   - range: Returns the range of bytes to read from the given object.
    /// - Returns: The object, and a source of the bytes in the range.
    /// - Throws: What `range` throws; `.notFound`, `.unavailable`, `.storageFailure`.
    package func readObject(
        _ name: ObjectName,
        _ range: (Media) throws(UploadError) -> Range<Int64>
    ) async throws(UploadError) -> (Media, any ByteSource) {
        while true {
            guard let object = try await object(name) else { throw Self.noObject }
            let range = try range(object)
            do throws(UploadError) {
                return (object, try await storage.bytes(of: object.id, range))
            } catch  where error.code == .notFound {
                if try await self.object(name)?.id == object.id {
                    throw UploadError(.storageFailure, "The bytes of this object are missing.", cause: error)
                }
            }
        }
    }

    private static let noObject = UploadError(.notFound, "There is no object with this key.")

    /// A page of objects, ordered by key.
    package func objects(_ query: ObjectQuery) async throws(UploadError) -> [ObjectSummary] {
        try await context.reporting(nil) { () async throws(UploadError) -> [ObjectSummary] in
            try await state.objects(query)
        }
    }

    /// Stores an object from a single body; on failure nothing remains of it.
    ///
    /// - Parameters:
    ///   - new: The upload; `object` contains the name, and the length is the size of the content if that is known.
    ///   - grant: What the client may upload.
    ///   - content: The bytes.
    ///   - describe: Builds the object's attributes from the requested ones and the received content.
    /// - Returns: The completed upload; that of before if the object was stored under this right to write, which has ended
    ///   since, and has the same content: the client repeats a request whose response it lost.
    /// - Throws: The errors of `create` and `append`; `.checksumMismatch`; `.conditionFailed`.
    package func putObject(
        _ new: NewUpload,
        under grant: Grant,
        _ content: ObjectContent,
        describe: (inout ObjectAttributes, ContentDigests) -> Void
    ) async throws(UploadError) -> Upload {
        guard WritingRight(grantID: grant.id) != nil else {
            return try await put(new, under: grant, content, describe: describe)
        }
        var digests: ContentDigests?
        do throws(UploadError) {
            return try await put(new, under: grant, content) { attributes, found in
                digests = found
                describe(&attributes, found)
            }
        } catch  where error.code == .conditionFailed {
            if let before = try await stored(as: new, under: grant, content, digests) { return before }
            throw error
        }
    }

    /// The upload of the current object, if it was stored under this grant with the same content.
    private func stored(
        as new: NewUpload,
        under grant: Grant,
        _ content: ObjectContent,
        _ known: ContentDigests?
    ) async throws(UploadError) -> Upload? {
        guard let name = new.object?.name, let object = try await object(name),
            content.size.map({ $0 == object.size }) ?? true,
            let upload = try await state.upload(object.id), upload.principal == grant.id
        else { return nil }
        var digests = known
        if digests == nil {
            do throws(SourceFailure) {
                // Nothing of it was read.
                while try await content.source.next(maximum: 1 << 18) != nil {}
            } catch {
                throw UploadError(error)
            }
            digests = try await content.digests()
        }
        return digests.map { Hexadecimal.encode($0.md5) } == object.attributes?.entityTag ? upload : nil
    }

    private func put(
        _ new: NewUpload,
        under grant: Grant,
        _ content: ObjectContent,
        describe: (inout ObjectAttributes, ContentDigests) -> Void
    ) async throws(UploadError) -> Upload {
        if let object = new.object, let condition = object.attributes.condition {
            // Check before anything is read; completion checks again.
            try condition.check(try await self.object(object.name))
        }
        var source = content.source
        let whole = try await uploads.createWhole(new, under: grant, from: &source) {
            (requested) async throws(UploadError) -> ObjectAttributes? in
            var attributes = requested ?? ObjectAttributes()
            describe(&attributes, try await content.digests())
            return attributes
        }
        if let whole { return whole }
        let id = try await uploads.create(new, under: grant).id
        do throws(UploadError) {
            let stored = try await uploads.append(
                to: id,
                at: 0,
                contentLength: content.size,
                finish: .explicit(isLast: false),
                expecting: nil,
                from: source
            )
            if let size = content.size, stored.offset != size {
                throw UploadError(
                    .lengthConflict(length: size),
                    "The object has \(stored.offset) bytes instead of \(size); send it again."
                )
            }
            var attributes = stored.attributes ?? ObjectAttributes()
            describe(&attributes, try await content.digests())
            return try await uploads.complete(id, attributes)
        } catch {
            if Self.isCertain(error.code) { await uploads.discard(id, .open, after: error) }
            throw error
        }
    }

    /// Whether the upload was certainly not recorded as complete, so that it can be discarded; otherwise an incomplete
    /// one expires.
    private static func isCertain(_ code: UploadError.Code) -> Bool {
        switch code {
        case .storageFailure, .unavailable, .finishing: false
        default: true
        }
    }

    /// Removes the current object with this name.
    ///
    /// - Parameters:
    ///   - name: The name of the object.
    ///   - condition: What must hold for the object that is removed; `nil` for no condition.
    /// - Returns: `false` if there is no object and `condition` does not require one.
    /// - Throws: `.conditionFailed`; `.busy`, `.rejected` by a hook, `.unavailable`, `.storageFailure`.
    package func removeObject(
        _ name: ObjectName,
        if condition: ObjectCondition? = nil
    ) async throws(UploadError) -> Bool {
        while true {
            let found = try await object(name)
            if let condition { try condition.check(found) }
            guard let object = found else { return false }
            do throws(UploadError) {
                try await uploads.terminate(object.id)
                return true
            } catch  where error.code == .gone || error.code == .notFound {
                // The object was replaced or removed since.
                continue
            }
        }
    }

    /// Removes all objects whose keys begin with that of `directory`.
    ///
    /// - Throws: As `removeObject`; a repeated call continues.
    package func removeObjects(below directory: ObjectName) async throws(UploadError) {
        var last: String?
        while true {
            let page = try await objects(
                ObjectQuery(bucket: directory.bucket, prefix: directory.key, after: last, limit: 100)
            )
            for object in page {
                last = object.key
                _ = try await removeObject(ObjectName(bucket: directory.bucket, key: object.key))
            }
            if page.count < 100 { return }
        }
    }

    /// Ends a right to write, and the uploads in parts that were begun under it and are open.
    ///
    /// When it returns, the objects of the right no longer change: no request that it admitted stores anything, also none
    /// that is under way.
    ///
    /// - Parameters:
    ///   - right: See `WritingRight`.
    ///   - names: Its objects.
    ///   - directory: Bucket, and the beginning of the keys, of all its objects, if it is not for `names` alone.
    ///   - end: When the last of its credentials expires.
    /// - Throws: `.busy`, `.storageFull`, `.storageFailure`; a repeated call continues.
    package func endRight(
        _ right: String,
        to names: [ObjectName],
        below directory: ObjectName? = nil,
        until end: Date
    ) async throws(UploadError) {
        try await context.reporting(nil) { () async throws(UploadError) in
            try context.checkWritable()
            try await state.endRight(right, recordedUntil: max(end, WritingRight.recorded(from: context.now)))
            for name in directory.map({ [$0] }) ?? names {
                var last: Upload?
                while true {
                    let query = PartUploadQuery(
                        bucket: name.bucket,
                        prefix: name.key,
                        after: last?.key,
                        afterID: last?.id,
                        limit: 100
                    )
                    let page = try await state.partUploads(query)
                    for upload in page
                    where upload.principal == right && (directory != nil || upload.objectName == name) {
                        do throws(UploadError) {
                            try await uploads.terminate(upload.id, .open, asking: false)
                        } catch  where [.notFound, .gone, .notOpen].contains(error.code) {
                            continue
                        }
                    }
                    last = page.last
                    guard page.count == 100, directory != nil || last?.key == name.key else { break }
                }
            }
        }
    }

    /// Whether a right to write has ended.
    package func hasEnded(right: String) async throws(UploadError) -> Bool {
        try await context.reporting(nil) { () async throws(UploadError) -> Bool in
            try await state.hasEnded(right: right)
        }
    }

    /// Sets the tags of the current object with this name.
    ///
    /// - Parameters:
    ///   - name: The name of the object.
    ///   - tags: All its tags.
    ///   - grant: What the caller may change; a grant for one upload only what was uploaded under it.
    /// - Throws: `.notFound`, `.forbidden`, `.storageFull`, `.storageFailure`.
    package func setTags(
        of name: ObjectName,
        to tags: [String: String],
        under grant: Grant
    ) async throws(UploadError) {
        try await context.reporting(nil) { () async throws(UploadError) in
            try context.checkWritable()
            while let object = try await state.object(name) {
                if grant.isOneTime, try await state.upload(object.id)?.principal != grant.id {
                    throw UploadError(
                        .forbidden(scope: nil),
                        "These credentials are for one upload, and set tags only of the object that it became."
                    )
                }
                var attributes = object.attributes ?? ObjectAttributes()
                attributes.tags = tags
                // If not, the object was replaced or removed since.
                if try await state.setAttributes(of: object.id, to: attributes) { return }
            }
            throw Self.noObject
        }
    }
}
