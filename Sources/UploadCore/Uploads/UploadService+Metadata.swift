internal import Bytes
package import UploadModel

extension UploadService {
    /// Replaces the metadata of an upload and of its media.
    ///
    /// - Returns: The recorded upload.
    /// - Throws: The same errors as `editMetadata`.
    package func setMetadata(_ metadata: UploadMetadata, of id: UploadID) async throws(UploadError) -> Upload {
        try await editMetadata(of: id) { _ in metadata }
    }

    /// Edits the metadata of an open or completed upload and of its media; edits of one upload run one at a time.
    ///
    /// Does not disturb a writer. A change without effect is not recorded.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - change: Returns new metadata for the current ones.
    /// - Returns: The recorded upload.
    /// - Throws: `.notFound`, `.gone`, `.contentTypeRefused`, `.invalidRequest` for metadata that is too large,
    ///   `.busy`, `.storageFull`, `.storageFailure`.
    package func editMetadata(
        of id: UploadID,
        _ change: (UploadMetadata) -> UploadMetadata
    ) async throws(UploadError) -> Upload {
        try await context.reporting(id) { () async throws(UploadError) -> Upload in
            try context.checkWritable()
            return try await lifecycle.edits.withTurn(at: id) { () async throws(UploadError) -> Upload in
                try await lifecycle.repeating { () async throws(UploadError) -> Upload in try await edited(id, change) }
            }
        }
    }

    private func edited(
        _ id: UploadID,
        _ change: (UploadMetadata) -> UploadMetadata
    ) async throws(UploadError) -> Upload {
        guard var upload = try await state.upload(id) else { throw UploadError.noUpload }
        guard upload.state == .open || upload.state == .completed, !lifecycle.isOver(upload) else {
            throw UploadError.uploadEnded
        }
        if upload.state == .open { upload.offset = (try? await lifecycle.receivedBytes(of: upload)) ?? 0 }
        let before = upload.metadata
        let metadata = change(before)
        guard metadata != before else { return upload }
        try await check(metadata, of: upload)
        upload.metadata = metadata
        upload.updatedAt = now
        // Whatever comes of it.
        defer { lifecycle.recents.forget(id) }
        let recorded = try await state.setMetadata(
            of: id,
            from: before,
            to: metadata,
            updatedAt: upload.updatedAt,
            recording: events.event(.updated, of: upload)
        )
        guard recorded else { throw UploadError.uploadEnded }
        events.bell.ring()
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
        let before = upload.metadata
        try MetadataText.check(metadata.values, known: before.values)
        if upload.concatenation?.role == .partial { return }
        if metadata.contentType == before.contentType, metadata.filename == before.filename { return }
        for policy in try await ledger.effectiveLimits(for: upload.accounts).policies.values {
            try policy.check(metadata)
        }
    }

    /// Bytes; the same limit as for the metadata of a tus client.
    private static let maximumMetadata = 8192
}

extension UploadMetadata {
    /// Applies changes (RFC 7396 §2 for the members): `nil` removes a value.
    ///
    /// Values that are not UTF-8 are kept unless a change has their name.
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

    /// The key of one pair in the field.
    private static func name(of pair: Substring) -> String {
        String(pair.drop { $0 == " " }.prefix { $0 != " " })
    }
}
