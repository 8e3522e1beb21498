package import Bytes
internal import Foundation

/// Objects: media that have a name in a bucket.
extension UploadService {
    /// The object that has a name now.
    ///
    /// - Throws: `.storageFailure`.
    package func object(_ name: ObjectName) async throws(UploadError) -> Media? {
        try await reporting(nil) { () async throws(UploadError) -> Media? in try await state.object(name) }
    }

    /// The object that has a name now, and its bytes, which stay readable when another one takes its place.
    ///
    /// - Throws: `.notFound`, `.unavailable`, `.storageFailure`.
    package func openObject(_ name: ObjectName) async throws(UploadError) -> (Media, StoredBlob) {
        while true {
            guard let object = try await object(name) else { throw Self.noObject }
            do throws(UploadError) {
                return try await open(object.id)
            } catch  where error.code == .gone {
                // Another one has taken its place since, or it was removed.
                continue
            }
        }
    }

    /// Bytes of the object that has a name now, for whoever makes another one of them.
    ///
    /// - Parameters:
    ///   - name: Of the object.
    ///   - range: Of the object's bytes; gets the object.
    /// - Returns: The object, and a source of these bytes.
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

    /// A page of objects, by key.
    package func objects(_ query: ObjectQuery) async throws(UploadError) -> [Media] {
        try await reporting(nil) { () async throws(UploadError) -> [Media] in try await state.objects(query) }
    }

    /// Stores an object whose bytes come at once; nothing remains of it if that fails.
    ///
    /// - Parameters:
    ///   - new: Of which `object` tells the name; with the size of the content as its length, if that is known.
    ///   - grant: What it may be.
    ///   - content: Its bytes.
    ///   - describe: Makes the attributes of the object of what was asked for and what came.
    /// - Returns: Completed.
    /// - Throws: As `create` and `append`; `.checksumMismatch`; `.conditionFailed`.
    package func putObject(
        _ new: NewUpload,
        under grant: Grant,
        _ content: ObjectContent,
        describe: (inout ObjectAttributes, ContentDigests) -> Void
    ) async throws(UploadError) -> Upload {
        if let object = new.object, let condition = object.attributes.condition {
            // Before anything is read; and again in the end.
            try Self.check(condition, for: try await self.object(object.name))
        }
        let id = try await create(new, under: grant).id
        do throws(UploadError) {
            let stored = try await append(
                to: id,
                at: 0,
                contentLength: content.size,
                finish: .told(isLast: false),
                expecting: nil,
                from: content.source
            )
            if let size = content.size, stored.offset != size {
                throw UploadError(
                    .lengthConflict(length: size),
                    "The object has \(stored.offset) bytes and not \(size); send it again."
                )
            }
            var attributes = stored.attributes ?? ObjectAttributes()
            describe(&attributes, try await content.digests())
            return try await completeObject(id, attributes)
        } catch {
            if Self.isCertain(error.code) { await discard(id, .open) }
            throw error
        }
    }

    private func completeObject(
        _ id: UploadID,
        _ attributes: ObjectAttributes
    ) async throws(UploadError) -> Upload {
        let upload = try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) -> Upload in
            var upload = try await settled(id)
            guard upload.state == .open else { return upload }
            upload.attributes = attributes
            return try await reporting(id) { () async throws(UploadError) -> Upload in try await complete(upload) }
        }
        return try await finished(upload)
    }

    /// Whether nothing was recorded, and so the bytes are needed for nothing; else they expire if it was not.
    private static func isCertain(_ code: UploadError.Code) -> Bool {
        switch code {
        case .storageFailure, .unavailable, .finishing: false
        default: true
        }
    }

    /// Removes the object that has a name now.
    ///
    /// - Parameters:
    ///   - name: Of the object.
    ///   - condition: That this very object must meet; `nil` for none.
    /// - Returns: `false` if there is none, and none has to be there.
    /// - Throws: `.conditionFailed`; `.busy`, `.rejected` by a hook, `.unavailable`, `.storageFailure`.
    package func removeObject(
        _ name: ObjectName,
        if condition: ObjectCondition? = nil
    ) async throws(UploadError) -> Bool {
        while true {
            let found = try await object(name)
            if let condition { try Self.check(condition, for: found) }
            guard let object = found else { return false }
            do throws(UploadError) {
                try await terminate(object.id)
                return true
            } catch  where error.code == .gone || error.code == .notFound {
                // Another one has taken its place since, or it was removed.
                continue
            }
        }
    }

    /// Sets the labels of the object that has a name now.
    ///
    /// - Throws: `.notFound`, `.storageFull`, `.storageFailure`.
    package func setTags(of name: ObjectName, to tags: [String: String]) async throws(UploadError) {
        try await reporting(nil) { () async throws(UploadError) in
            try checkWritable()
            while let object = try await state.object(name) {
                var attributes = object.attributes ?? ObjectAttributes()
                attributes.tags = tags
                // Else another one has taken its place since, or it was removed.
                if try await state.setAttributes(of: object.id, to: attributes) { return }
            }
            throw Self.noObject
        }
    }

    /// The object whose place an upload takes, as it will have ended.
    func replacedObject(
        by upload: Upload,
        if condition: ObjectCondition?
    ) async throws(UploadError) -> Upload? {
        guard let name = upload.objectName else { return nil }
        let object = try await state.object(name)
        if let condition { try Self.check(condition, for: object) }
        guard let object, var replaced = try await state.upload(object.id) else { return nil }
        replaced.state = .terminated
        replaced.updatedAt = now
        replaced.endedAt = replaced.updatedAt
        replaced.expiresAt = nil
        replaced.reservedBytes = 0
        return replaced
    }

    private static func check(_ condition: ObjectCondition, for object: Media?) throws(UploadError) {
        guard condition.holds(for: object) else {
            throw UploadError(
                .conditionFailed,
                object == nil
                    ? "There is no object with this key any more."
                    : "There is another object with this key."
            )
        }
    }
}
