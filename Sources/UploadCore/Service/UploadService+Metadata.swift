internal import Bytes

extension UploadService {
    /// Replaces the metadata of an upload, and of its media.
    ///
    /// - Returns: The upload as it is recorded.
    /// - Throws: As `editMetadata`.
    package func setMetadata(_ metadata: UploadMetadata, of id: UploadID) async throws(UploadError) -> Upload {
        try await editMetadata(of: id) { _ in metadata }
    }

    /// Changes the metadata of an open or completed upload, and of its media; one edit of an upload at a time.
    ///
    /// Disturbs no writer. What changes nothing is not recorded.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - change: Makes new metadata of those that are there.
    /// - Returns: The upload as it is recorded.
    /// - Throws: `.notFound`, `.gone`, `.contentTypeRefused`, `.invalidRequest` for metadata that are too large, `.busy`,
    ///   `.storageFull`, `.storageFailure`.
    package func editMetadata(
        of id: UploadID,
        _ change: (UploadMetadata) -> UploadMetadata
    ) async throws(UploadError) -> Upload {
        try await reporting(id) { () async throws(UploadError) -> Upload in
            try checkWritable()
            return try await edits.withTurn(at: id) { () async throws(UploadError) -> Upload in
                try await repeating { () async throws(UploadError) -> Upload in try await edited(id, change) }
            }
        }
    }

    private func edited(
        _ id: UploadID,
        _ change: (UploadMetadata) -> UploadMetadata
    ) async throws(UploadError) -> Upload {
        guard var upload = try await state.upload(id) else { throw Self.notFound }
        guard upload.state == .open || upload.state == .completed, !isOver(upload) else { throw Self.gone }
        if upload.state == .open { upload.offset = (try? await receivedBytes(of: upload)) ?? 0 }
        let before = upload.metadata
        let metadata = change(before)
        guard metadata != before else { return upload }
        try await check(metadata, of: upload)
        upload.metadata = metadata
        upload.updatedAt = now
        let recorded = try await state.setMetadata(
            of: id,
            from: before,
            to: metadata,
            updatedAt: upload.updatedAt,
            recording: event(.updated, of: upload)
        )
        guard recorded else { throw Self.gone }
        bell.ring()
        return upload
    }

    private func check(_ metadata: UploadMetadata, of upload: Upload) async throws(UploadError) {
        let size = metadata.raw?.utf8.count ?? 0
        guard size <= Self.maximumMetadata else {
            throw UploadError(
                .invalidRequest,
                "The metadata would have \(size) bytes as a tus field; at most \(Self.maximumMetadata) are allowed."
            )
        }
        if upload.concatenation?.role == .partial { return }
        let before = upload.metadata
        if metadata.contentType == before.contentType, metadata.filename == before.filename { return }
        for policy in try await terms(for: upload.accounts).policies.values { try policy.check(metadata) }
    }

    /// Bytes, as a tus client may send.
    private static let maximumMetadata = 8192
}

extension UploadMetadata {
    /// With these changes (RFC 7396 §2 for the members): `nil` removes a value.
    ///
    /// Values that are not UTF-8 stay as they are, unless one of their name is changed.
    package func changed(by changes: [String: String?]) -> UploadMetadata {
        var values = values
        for (name, value) in changes { values[name] = value }
        let others = (raw ?? "").split(separator: ",").filter { self.values[Self.name(of: $0)] == nil }
        let kept = others.filter { !changes.keys.contains(Self.name(of: $0)) }
        if values == self.values, kept.count == others.count { return self }
        var changed = UploadMetadata(describing: values)
        if !kept.isEmpty {
            changed.raw = ([changed.raw].compactMap { $0 } + kept.map(String.init)).joined(separator: ",")
        }
        return changed
    }

    /// The key of a pair of the field.
    private static func name(of pair: Substring) -> String {
        String(pair.drop { $0 == " " }.prefix { $0 != " " })
    }
}
