package import UploadModel

extension UploadService {

    /// The upload in any state, for observers: disturbs no writer, and the offset may not be durable yet.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    package func inspect(_ id: UploadID) async throws(UploadError) -> Upload {
        try await context.reporting(id) { () async throws(UploadError) -> Upload in
            guard let upload = try await state.upload(id) else { throw UploadError.noUpload }
            return try await withCurrentOffset(upload)
        }
    }

    /// Like `inspect`, but an upload that has all its bytes is completed, unless a request is using it: the gateway may
    /// have died before its completion.
    ///
    /// - Throws: `.notFound`, `.gone`, and the errors of a completion.
    package func inspectCompleting(_ id: UploadID) async throws(UploadError) -> Upload {
        let upload = try await inspect(id)
        guard upload.state == .open, upload.offset == upload.length else { return upload }
        return try await context.reporting(id) { () async throws(UploadError) -> Upload in
            try await leases.withLeaseIfFree(on: id) { () async throws(UploadError) -> Upload in
                try await lifecycle.reconciled(id, .whenFull)
            } ?? upload
        }
    }

    /// Whether an append to the upload is running on this node.
    package func isReceiving(_ id: UploadID) -> Bool { appends.start(of: id) != nil }

    /// The upload in any state as recorded; the record of an open upload does not contain its offset.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    package func recorded(_ id: UploadID) async throws(UploadError) -> Upload {
        try await context.reporting(id) { () async throws(UploadError) -> Upload in
            guard let upload = try await state.upload(id) else { throw UploadError.noUpload }
            return upload
        }
    }

    /// A page of uploads as `list` returns them.
    ///
    /// It can have fewer than `query.limit`, or none, and yet not be the last: one page reads a bounded number of records.
    ///
    /// - Returns: The uploads, and where the next page begins, for `query.before`; `nil` after the last one.
    /// - Throws: `.storageFailure`.
    package func page(_ query: UploadQuery) async throws(UploadError) -> (uploads: [Upload], next: UploadID?) {
        var query = query
        let limit = query.limit
        query.oldest = try await context.reporting(nil) { () async throws(UploadError) -> UploadID? in
            try await state.end(of: query, reading: max(limit, Self.recordsOfPage))
        }
        // One more than requested shows whether there is a next page.
        query.limit += 1
        let found = try await list(query)
        if found.count > limit { return (found.dropLast(), found[limit - 1].id) }
        return (found, query.oldest)
    }

    /// A user may have any number of uploads, and no index is in the order of two properties.
    private static let recordsOfPage = 10_000

    /// A page of uploads, newest first, with offsets as `inspect` returns them; 0 where the storage cannot determine
    /// one.
    package func list(_ query: UploadQuery) async throws(UploadError) -> [Upload] {
        try await context.reporting(nil) { () async throws(UploadError) -> [Upload] in
            var uploads = try await state.uploads(query)
            let current: [UploadID: Upload]
            do throws(UploadError) {
                current = try await lifecycle.current(uploads.filter { $0.state == .open })
            } catch {
                context.report(error, of: nil)
                return uploads
            }
            for index in uploads.indices where uploads[index].state == .open {
                if let upload = current[uploads[index].id] {
                    uploads[index] = upload
                    continue
                }
                do throws(UploadError) {
                    uploads[index] = try await withCurrentOffset(uploads[index])
                } catch {
                    // One bad blob must not hide all other uploads.
                    context.report(error, of: uploads[index].id)
                }
            }
            return uploads
        }
    }

    private func withCurrentOffset(_ upload: Upload) async throws(UploadError) -> Upload {
        guard upload.state == .open else { return upload }
        var current = upload
        do throws(UploadError) {
            current = try await lifecycle.current(upload)
        } catch  where error.code == .notFound {
            // It ended after the record was read, or its bytes are lost.
            current = try await state.upload(upload.id) ?? upload
            if current.state == .open {
                throw UploadError(.storageFailure, "The bytes of this upload are missing.", cause: error)
            }
        }
        return current
    }

    /// The upload with this id, or else the one with this app-assigned name.
    ///
    /// - Returns: `nil` if there is neither.
    /// - Throws: `.storageFailure`, `.unavailable`.
    package func identify(_ name: String) async throws(UploadError) -> UploadID? {
        try await context.reporting(nil) { () async throws(UploadError) -> UploadID? in
            if let id = UploadID(name), try await state.upload(id) != nil { return id }
            return try await state.upload(alias: name)
        }
    }
}
