package import Digests

/// Digests of whole uploads (`Repr-Digest` of RFC 9530).
extension UploadService {
    /// Checks that the bytes of an upload are those that its client has announced.
    ///
    /// To be called with the lease, when the upload has all its bytes and before that is recorded. Reads all of them, unless
    /// everything announced is known.
    ///
    /// - Parameters:
    ///   - upload: Open, with its durable offset.
    ///   - known: A digest of all its bytes, if one was checked while they came.
    /// - Returns: Digests that are known now.
    /// - Throws: `.digestMismatch`, and then the upload is ended: bytes that are wrong can not be made right by further ones.
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
            throw Self.digestMismatch
        }
        return digests
    }

    /// What an append has verified of the whole upload, if its bytes are to be the whole.
    func digestOfAll(_ upload: Upload, _ expectation: DigestExpectation?, _ report: AppendReport) -> ExpectedDigest? {
        guard upload.offset == 0, case .known(let digest)? = expectation else { return nil }
        switch report.end {
        case .endOfSource, .limitReached: return digest
        case .sourceFailed, .failed: return nil
        }
    }

    /// The digest of media.
    ///
    /// It is computed when it is first asked for, by reading all the bytes, and then kept. Who asks at the same time waits.
    ///
    /// - Throws: `.notFound`, `.gone`, `.busy` when another computation takes long, `.storageFailure`.
    package func digest(
        of id: UploadID,
        by algorithm: DigestAlgorithm
    ) async throws(UploadError) -> [UInt8] {
        try await reporting(id) { () async throws(UploadError) -> [UInt8] in
            if let known = try await recordedMedia(id).digests[algorithm] { return known }
            return try await hashing.withTurn(at: id) { () async throws(UploadError) -> [UInt8] in
                var digests = try await recordedMedia(id).digests
                if let known = digests[algorithm] { return known }
                digests.merge(try await storage.digests(of: id, by: [algorithm])) { $1 }
                guard let digest = digests[algorithm] else {
                    throw UploadError(.storageFailure, "The storage gave no digest.")
                }
                try await state.setDigests(of: id, to: digests)
                return digest
            }
        }
    }

    package static let digestMismatch = UploadError(
        .digestMismatch,
        "The upload does not have the digest that was announced when it was created, and was removed; upload the file again."
    )
}
