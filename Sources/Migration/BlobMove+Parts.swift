internal import Bytes
internal import Digests
internal import DiskStorage
internal import ObjectStore
internal import S3Storage
internal import UploadModel

/// Uploads in parts that are not joined yet.
extension BlobMove {
    /// Copies each part on disk; the recorded locations list them.
    ///
    /// - Parameters:
    ///   - upload: An upload that is open, or completed in the store.
    ///   - found: The store's record of it.
    /// - Returns: The outcome, and the number of bytes sent.
    /// - Throws: As `run`.
    func moveParts(_ upload: Upload, _ found: BlobRecord?) async throws(UploadError) -> (Outcome, bytes: Int64) {
        let id = upload.id
        if let found, found.state != .open {
            // A gateway has continued with what an earlier call moved.
            if isRemoving { try await disk.remove(id) }
            return (.ahead, 0)
        }
        if upload.attributes?.completing != nil { try await takeBackCompletion(of: upload) }
        if found == nil || found?.multipart == nil {
            // Or a leftover of an earlier call that crashed, or lost the store, before it could accept parts.
            try await store.remove(id)
            try await create(NewBlob(of: upload)) { blob throws(UploadError) in try await store.createForParts(blob) }
        }
        var sent: Int64 = 0
        var count = 0
        for part in try await state.objectParts(of: id, after: 0, limit: PartRecord.numbers.upperBound) {
            guard disk.isThere(part), let bytes = try await disk.bytes(of: part, of: id) else { continue }
            var moved = part
            moved.location = try await send(part, bytes, of: upload)
            _ = try await state.putPart(moved, of: id)
            sent += part.size
            count += 1
        }
        if isRemoving { try await disk.remove(id) }
        return (count > 0 ? .copied : .there, sent)
    }

    private func send(
        _ part: PartRecord,
        _ bytes: any ByteSource,
        of upload: Upload
    ) async throws(UploadError) -> String {
        let source = HashedSource(bytes, by: [.md5])
        let new = NewPart(
            number: part.number,
            size: part.size,
            minimumSize: MultipartUploads.minimumPartSize(of: upload)
        )
        do throws(UploadError) {
            return try await store.storePart(new, of: upload.id, replacing: nil, from: source) {
                () async throws(UploadError) -> [UInt8] in
                let found = source.digests()[.md5] ?? []
                guard found == part.md5 else {
                    throw UploadError(
                        .storageFailure,
                        "The bytes of part \(part.number) on disk have changed; restore them from a backup, or abort the upload."
                    )
                }
                return found
            }
        } catch {
            guard case .tooLarge = error.code else { throw error }
            throw UploadError(
                .storageFailure,
                "Part \(part.number) has \(part.size) bytes, for which s3.memory and s3.spool have no room; increase s3.spool."
            )
        }
    }

    /// Nothing was joined: the client completes it again, from parts in the store.
    private func takeBackCompletion(of upload: Upload) async throws(UploadError) {
        guard var attributes = upload.attributes else { return }
        attributes.takeBackCompletion()
        _ = try await state.setAttributes(of: upload.id, to: attributes)
    }
}
