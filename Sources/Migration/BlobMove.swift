internal import Bytes
internal import Digests
internal import DiskStorage
internal import S3Storage
internal import UploadModel

/// Copies single blobs from the data directory into a store, and verifies the copies.
struct BlobMove: Sendable {
    enum Outcome: Sendable {
        /// Sent and verified.
        case copied
        /// It was there already.
        case there
        /// The upload has gone on in the store since it was copied.
        case ahead
    }

    let state: any UploadRecords & MediaRecords & PartRecords
    let records: any BlobRecords
    let disk: DiskStorage
    let store: S3Storage
    let done: MigratedBlobs
    /// Whether the disk's copy is removed once the store's copy is verified.
    let isRemoving: Bool

    /// Copies the blob of an upload that is open or completed.
    ///
    /// - Returns: The outcome, and the size of the blob on disk.
    /// - Throws: `.storageFailure`, also if one of them has unexpected bytes; `.unavailable`, `.storageFull`.
    func run(_ upload: Upload) async throws(UploadError) -> (Outcome, bytes: Int64) {
        let id = upload.id
        let found = try await records.blob(id)
        if upload.takesParts, try await !disk.isJoined(id), upload.state == .open || found?.state == .complete {
            return try await moveParts(upload, found)
        }
        // Unverified bytes are not counted, and stay where they are.
        let length = try await disk.currentLength(of: id)
        let outcome: Outcome
        if let found, found.state == .complete ? found.length != length : upload.state == .open && found.length > length
        {
            outcome = .ahead
        } else if found != nil, done.contains(id, length: length), found?.length == length {
            outcome = .there
        } else if upload.state == .completed {
            outcome = try await moveWhole(upload, length: length, found)
        } else {
            outcome = try await moveOpen(upload, length: length, found)
        }
        if case .ahead = outcome {
            // Only if both were equal once is it part of what is there now.
        } else {
            done.add(id, length: length)
        }
        if isRemoving, done.contains(id, length: length) { try await disk.remove(id) }
        return (outcome, length)
    }

    /// The store's object is read back and compared, regardless of the response to the upload, because the disk's copy
    /// may be removed.
    private func moveWhole(
        _ upload: Upload,
        length: Int64,
        _ found: BlobRecord?
    ) async throws(UploadError) -> Outcome {
        let id = upload.id
        guard length == upload.length else {
            throw UploadError(
                .storageFailure,
                "The disk has \(length) of its \(upload.length ?? 0) bytes; restore it from a backup."
            )
        }
        let recorded = try await state.media(id)?.digests ?? [:]
        let algorithms = Set(recorded.keys).union([.sha256, .crc32c])
        if let found, found.state == .complete {
            let digests = try await disk.digests(of: id, by: algorithms)
            try check(digests, recorded)
            if let sent = found.crc32c, digests[.crc32c] != CRC32C.bytes(of: sent) { throw Self.diskChanged }
            if try await isStored(id, digests) { return .there }
            // The store has lost it, but the disk has not.
        }
        let digests = try await send(upload, length: length, over: found, by: algorithms)
        try check(digests, recorded)
        try await complete(id)
        guard try await isStored(id, digests) else {
            throw UploadError(.storageFailure, "The store returns different bytes than those on disk.")
        }
        return .copied
    }

    /// Reads the whole blob from the store.
    private func isStored(_ id: UploadID, _ digests: DigestValues) async throws(UploadError) -> Bool {
        do throws(UploadError) {
            return try await store.digests(of: id, by: Set(digests.keys)) == digests
        } catch  where error.code == .storageFailure {
            return false
        }
    }

    /// Compares with the digests recorded when the upload completed.
    private func check(_ digests: DigestValues, _ recorded: DigestValues) throws(UploadError) {
        guard recorded.allSatisfy({ digests[$0.key] == $0.value }) else { throw Self.diskChanged }
    }

    private static let diskChanged = UploadError(
        .storageFailure,
        "The bytes on disk are not those of the upload; restore them from a backup."
    )

    /// An incomplete upload cannot be read yet, so confirmed parts are compared by length and CRC-32C.
    private func moveOpen(
        _ upload: Upload,
        length: Int64,
        _ found: BlobRecord?
    ) async throws(UploadError) -> Outcome {
        let id = upload.id
        if let found, found.length == length, found.crc32c != nil {
            let digests = try await prefixDigests(of: id, length: length)
            if try await store.recordedDigests(of: id) == digests { return .there }
        }
        let digests = try await send(upload, length: length, over: found, by: [.crc32c])
        guard try await store.durableLength(of: id) == length, try await store.recordedDigests(of: id) == digests else {
            throw UploadError(.storageFailure, "The store has different bytes than those on disk.")
        }
        return .copied
    }

    /// Digests of the bytes on disk, without unverified ones.
    private func prefixDigests(of id: UploadID, length: Int64) async throws(UploadError) -> DigestValues {
        let source = HashedSource(try await disk.bytes(of: id, 0..<length), by: [.crc32c])
        do throws(SourceFailure) {
            while try await source.next(maximum: 256 << 10) != nil {}
        } catch {
            throw UploadError(.storageFailure, "The disk could not be read.", cause: error)
        }
        return source.digests()
    }

    /// Sends all bytes from the disk.
    ///
    /// - Parameters:
    ///   - upload: The upload of the blob.
    ///   - length: Size on disk, in bytes.
    ///   - found: A leftover of an earlier call, which is removed.
    ///   - algorithms: The digests to compute while sending.
    /// - Returns: Their digests.
    /// - Throws: Errors of the store or the disk.
    private func send(
        _ upload: Upload,
        length: Int64,
        over found: BlobRecord?,
        by algorithms: Set<DigestAlgorithm>
    ) async throws(UploadError) -> DigestValues {
        let id = upload.id
        if found != nil {
            try await store.empty(id)
        } else {
            try await create(NewBlob(of: upload)) { blob throws(UploadError) in try await store.create(blob) }
        }
        let source = HashedSource(try await disk.bytes(of: id, 0..<length), by: algorithms)
        guard length > 0 else { return source.digests() }
        let report = await store.append(
            to: id,
            at: 0,
            from: source,
            limit: length,
            of: upload.length,
            expecting: nil,
            confirming: nil
        )
        switch report.end {
        case .failed(let error): throw error
        case .sourceFailed(let failure):
            throw UploadError(.storageFailure, "The disk could not be read.", cause: failure)
        case .endOfSource, .limitReached: break
        }
        guard report.stored == length else {
            throw UploadError(.storageFailure, "The store accepted \(report.stored) of \(length) bytes.")
        }
        return source.digests()
    }

    /// Creates a blob in the store.
    ///
    /// - Parameters:
    ///   - wanted: The blob with the key that the app requested.
    ///   - make: Creates it.
    /// - Throws: Errors of `make`.
    func create(
        _ wanted: NewBlob,
        _ make: (NewBlob) async throws(UploadError) -> Void
    ) async throws(UploadError) {
        do throws(UploadError) {
            try await make(wanted)
        } catch  where error.code == .rejected && wanted.key != nil {
            // The disk storage ignores the key.
            var blob = wanted
            blob.key = nil
            try await make(blob)
        }
    }

    private func complete(_ id: UploadID) async throws(UploadError) {
        while true {
            do throws(UploadError) {
                return try await store.synchronize(id)
            } catch  where error.code == .finishing {
                try? await Task.sleep(for: .milliseconds(200))
            }
        }
    }
}
