package import Digests
package import UploadModel

/// Records, bytes and digests of completed uploads.
package final class MediaService: Sendable {
    typealias Records = MediaRecords & UploadRecords

    private let context: ServiceContext
    private let state: any Records
    private let storage: any BlobStorage
    /// Media whose digest is being computed on this node.
    private let hashing: TurnTable<UploadID>

    init(_ context: ServiceContext, state: any Records, storage: any BlobStorage) {
        self.context = context
        self.state = state
        self.storage = storage
        hashing = TurnTable(timeout: context.limits.takeOverTimeout)
    }

    /// The media of a complete upload.
    ///
    /// - Throws: `.notFound`, also while the upload is open; `.gone` when it was terminated; `.storageFailure`.
    package func media(_ id: UploadID) async throws(UploadError) -> Media {
        try await context.reporting(id) { () async throws(UploadError) -> Media in try await recordedMedia(id) }
    }

    /// The media and its bytes, which stay readable after the media is terminated.
    ///
    /// - Throws: The same errors as `media`.
    package func open(_ id: UploadID) async throws(UploadError) -> (Media, StoredBlob) {
        try await context.reporting(id) { () async throws(UploadError) -> (Media, StoredBlob) in
            let media = try await recordedMedia(id)
            let blob: StoredBlob
            do throws(UploadError) {
                blob = try await storage.open(id)
            } catch  where error.code == .notFound {
                // It was terminated since the record was read, or its bytes are lost.
                _ = try await recordedMedia(id)
                throw UploadError(.storageFailure, "The bytes of this media are missing.", cause: error)
            }
            guard blob.size == media.size else {
                throw UploadError(.storageFailure, "The stored bytes are not those of this media.")
            }
            return (media, blob)
        }
    }

    /// A digest of media.
    ///
    /// It is computed by reading all bytes on the first request, and then kept. Concurrent requests wait.
    ///
    /// - Throws: `.notFound`, `.gone`, `.busy` when another computation takes long, `.storageFailure`.
    package func digest(
        of id: UploadID,
        by algorithm: DigestAlgorithm
    ) async throws(UploadError) -> [UInt8] {
        try await context.reporting(id) { () async throws(UploadError) -> [UInt8] in
            if let known = try await recordedMedia(id).digests[algorithm] { return known }
            return try await hashing.withTurn(at: id) { () async throws(UploadError) -> [UInt8] in
                var digests = try await recordedMedia(id).digests
                if let known = digests[algorithm] { return known }
                digests.merge(try await storage.digests(of: id, by: [algorithm])) { $1 }
                guard let digest = digests[algorithm] else {
                    throw UploadError(.storageFailure, "The storage returned no digest.")
                }
                try await state.setDigests(of: id, to: digests)
                return digest
            }
        }
    }

    private func recordedMedia(_ id: UploadID) async throws(UploadError) -> Media {
        if let media = try await state.media(id) { return media }
        switch try await state.upload(id)?.state {
        case .terminated, .expired: throw UploadError(.gone, "The media was deleted.")
        case .open: throw UploadError(.notFound, "The upload is not complete yet.")
        case .completed, nil: throw UploadError(.notFound, "There is no such media.")
        }
    }
}
