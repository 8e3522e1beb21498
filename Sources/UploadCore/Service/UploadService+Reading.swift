extension UploadService {
    /// The upload as a client that wants to go on must see it: a running writer is stopped, the offset is durable.
    ///
    /// Completes an upload whose bytes are all there but whose completion was not recorded.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - finish: What the one who asks takes for complete.
    /// - Returns: Open or completed.
    /// - Throws: `.notFound`, `.gone`, `.busy`, `.storageFailure`.
    package func status(of id: UploadID, _ finish: Finish = .whenFull) async throws(UploadError) -> Upload {
        try await reporting(id) { () async throws(UploadError) -> Upload in
            let upload = try await leases.withLease(on: id, interrupter: nil) {
                () async throws(UploadError) -> Upload in
                try await settled(id, finish)
            }
            await completeFinals(waitingFor: upload)
            return upload
        }
    }

    /// The upload in whatever state, for onlookers: disturbs no writer, and the offset may not be durable yet.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    package func inspect(_ id: UploadID) async throws(UploadError) -> Upload {
        try await reporting(id) { () async throws(UploadError) -> Upload in
            guard let upload = try await state.upload(id) else { throw Self.notFound }
            return try await withCurrentOffset(upload)
        }
    }

    /// The upload in whatever state as it is recorded, which says of an open one not how many bytes it has.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    package func recorded(_ id: UploadID) async throws(UploadError) -> Upload {
        try await reporting(id) { () async throws(UploadError) -> Upload in
            guard let upload = try await state.upload(id) else { throw Self.notFound }
            return upload
        }
    }

    /// A page of uploads, newest first, with offsets as `inspect` gives them; 0 where the storage can not tell.
    package func list(_ query: UploadQuery) async throws(UploadError) -> [Upload] {
        try await reporting(nil) { () async throws(UploadError) -> [Upload] in
            var uploads = try await state.uploads(query)
            for index in uploads.indices where uploads[index].state == .open {
                do throws(UploadError) {
                    uploads[index] = try await withCurrentOffset(uploads[index])
                } catch {
                    // One bad blob must not hide all the other uploads.
                    report(error, of: uploads[index].id)
                }
            }
            return uploads
        }
    }

    private func withCurrentOffset(_ upload: Upload) async throws(UploadError) -> Upload {
        guard upload.state == .open else { return upload }
        var current = upload
        do throws(UploadError) {
            current.offset = try await receivedBytes(of: upload)
        } catch  where error.code == .notFound {
            // It ended after the record was read, or its bytes are lost.
            current = try await state.upload(upload.id) ?? upload
            if current.state == .open {
                throw UploadError(.storageFailure, "The bytes of this upload are missing.", cause: error)
            }
        }
        return current
    }

    /// What became of a complete upload.
    ///
    /// - Throws: `.notFound`, also while the upload is open; `.gone` when it was terminated; `.storageFailure`.
    package func media(_ id: UploadID) async throws(UploadError) -> Media {
        try await reporting(id) { () async throws(UploadError) -> Media in try await recordedMedia(id) }
    }

    /// The media and its bytes; what was opened stays readable when the media is terminated.
    ///
    /// - Throws: As `media`.
    package func open(_ id: UploadID) async throws(UploadError) -> (Media, StoredBlob) {
        try await reporting(id) { () async throws(UploadError) -> (Media, StoredBlob) in
            let media = try await recordedMedia(id)
            let blob: StoredBlob
            do throws(UploadError) {
                blob = try await storage.open(id)
            } catch  where error.code == .notFound {
                // Terminated since the record was read, or lost.
                _ = try await recordedMedia(id)
                throw UploadError(.storageFailure, "The bytes of this media are missing.", cause: error)
            }
            guard blob.size == media.size else {
                throw UploadError(.storageFailure, "The stored bytes are not those of this media.")
            }
            return (media, blob)
        }
    }

    func recordedMedia(_ id: UploadID) async throws(UploadError) -> Media {
        if let media = try await state.media(id) { return media }
        switch try await state.upload(id)?.state {
        case .terminated, .expired: throw UploadError(.gone, "The media was deleted.")
        case .open: throw UploadError(.notFound, "The upload is not complete yet.")
        case .completed, nil: throw UploadError(.notFound, "There is no such media.")
        }
    }

    /// Ends an upload, open or complete, and removes its bytes and media; a running writer is stopped first.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - refusal: Thrown if it is complete and has become media; `nil` where that may be deleted, too.
    /// - Throws: `.notFound`, `.gone`, `.busy`, `.rejected` by a hook, `.unavailable` if it can not be asked, `.storageFailure`.
    package func terminate(_ id: UploadID, unlessComplete refusal: UploadError? = nil) async throws(UploadError) {
        try await terminate(id, asking: true, unlessComplete: refusal)
    }

    /// - Parameters:
    ///   - id: The upload.
    ///   - asking: The app is asked, and not only told.
    ///   - refusal: As above.
    /// - Throws: As `terminate(_:)`.
    func terminate(
        _ id: UploadID,
        asking: Bool,
        unlessComplete refusal: UploadError? = nil
    ) async throws(UploadError) {
        try await reporting(id) { () async throws(UploadError) in
            try await leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                guard let upload = try await state.upload(id) else { throw Self.notFound }
                if isOver(upload) {
                    try await end(upload, as: .expired)
                    throw Self.gone
                }
                guard upload.state == .open || upload.state == .completed else { throw Self.gone }
                // Parts of a final upload are no media.
                if let refusal, upload.state == .completed, upload.concatenation?.role != .partial { throw refusal }
                if asking { try await hooks.willTerminate(upload) }
                try await end(upload, as: .terminated)
            }
        }
    }
}
