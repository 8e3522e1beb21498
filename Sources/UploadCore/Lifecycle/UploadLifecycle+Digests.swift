internal import Digests
internal import UploadModel

/// Digests of whole uploads (`Repr-Digest` of RFC 9530).
extension UploadLifecycle {
    /// Verifies that the bytes of an upload match the digests that its client announced.
    ///
    /// Requires the lease; called when the upload has all its bytes, before its completion is recorded. Reads all bytes
    /// unless every announced digest is already known.
    ///
    /// - Parameters:
    ///   - upload: The upload, open, with its durable offset.
    ///   - known: A digest of all its bytes, if one was verified while they arrived.
    /// - Returns: The digests that are now known.
    /// - Throws: `.digestMismatch`, which ends the upload: further bytes cannot correct wrong ones.
    func verifiedDigests(of upload: Upload, knowing known: ExpectedDigest?) async throws(UploadError) -> DigestValues {
        var digests = try await bytesOf(upload.id) { id throws(UploadError) in
            try await storage.recordedDigests(of: id)
        }
        if let known { digests[known.algorithm] = known.value }
        let unknown = Set(upload.expectedDigests.keys).subtracting(digests.keys)
        if !unknown.isEmpty {
            digests.merge(
                try await bytesOf(upload.id) { id throws(UploadError) in
                    try await storage.digests(of: id, by: unknown)
                }
            ) { $1 }
        }
        guard upload.expectedDigests.allSatisfy({ digests[$0.key] == $0.value }) else {
            try await end(upload, as: .terminated)
            throw UploadError.digestMismatch
        }
        return digests
    }
}
