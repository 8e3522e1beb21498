package import Bytes
internal import Digests
internal import Foundation
internal import Synchronization
package import UploadModel

/// Uploads that bring their whole, small content with their creation: one write of the blob, one transaction.
///
/// The result is the same as that of `create`, `append` and a completion, except that an upload whose content does not arrive whole,
/// or does not match its digest, is never recorded.
extension UploadService {
    /// Creates an upload with all bytes of `source`, and completes it.
    ///
    /// - Parameters:
    ///   - new: The client's request.
    ///   - grant: What the client may upload; already checked for authenticity and expiry.
    ///   - source: The content. Replaced by a source with the same bytes if it was pulled in vain.
    ///   - digest: Expected digest of the content.
    ///   - describe: Called once all bytes have arrived; returns the attributes of an object from the requested ones, or throws if its
    ///     content is not what its client announced.
    /// - Returns: The recorded upload; `nil`, with nothing recorded, if the content has to be appended because it is
    ///   too large or does not arrive at once, or the app or a policy decides about it.
    /// - Throws: The errors of `create`; `.checksumMismatch`, `.digestMismatch`, `.conditionFailed`; what `describe` throws.
    package func createWhole(
        _ new: NewUpload,
        under grant: Grant,
        from source: inout any ByteSource,
        expecting digest: DigestExpectation? = nil,
        describe: (ObjectAttributes?) async throws(UploadError) -> ObjectAttributes? = { $0 }
    ) async throws(UploadError) -> Upload? {
        guard let storage = storage.wholeStorage, let size = wholeSize(of: new, source), await source.arrives(size)
        else {
            return nil
        }
        var known: ExpectedDigest?
        switch digest {
        case nil: break
        case .known(let digest): known = digest
        case .atEnd: return nil
        }
        guard wholeContents.take(Int64(size)) else { return nil }
        defer { wholeContents.giveBack(Int64(size)) }
        try check(grant)
        try RequestMeter.identify(key: grant.issuer, subject: grant.subject)
        let effectiveLimits = try await context.reporting(nil) { () async throws(UploadError) -> EffectiveLimits in
            try await ledger.effectiveLimits(for: grant)
        }
        guard !effectiveLimits.checksContent, RequestMeter.current?.delays(Int64(size)) != true else { return nil }
        // What is refused is refused before its content is read, as without this path.
        var upload = try await checkedUpload(new, under: grant, effectiveLimits)
        let (bytes, failure) = await source.gather(size)
        guard bytes.count == size, failure == nil else {
            source = PrefixedSource(bytes, before: source, failure)
            return nil
        }
        upload.attributes = try await describe(upload.attributes)
        let digests = try Self.verifiedDigests(of: upload, bytes, known)
        return try await context.reporting(upload.id) { () async throws(UploadError) -> Upload in
            try await record(upload, bytes, digests, in: storage, under: grant, effectiveLimits)
        }
    }

    /// The size of a content that is taken whole; `nil` for any other.
    private func wholeSize(of new: NewUpload, _ source: any ByteSource) -> Int? {
        guard let size = source.remaining, size <= wholeContents.largest, size == new.length, new.concatenation == nil,
            new.pull == nil, new.object?.takesParts != true, !hooks.decidesUploads
        else { return nil }
        return Int(size)
    }

    private static func verifiedDigests(
        of upload: Upload,
        _ bytes: [UInt8],
        _ known: ExpectedDigest?
    ) throws(UploadError) -> DigestValues {
        var digests: DigestValues = [:]
        if let known {
            guard constantTimeEquals(Digest.hash(bytes, known.algorithm), known.value) else {
                throw UploadError(
                    .checksumMismatch,
                    "The bytes do not have the announced checksum; send them again from the same offset."
                )
            }
            digests[known.algorithm] = known.value
        }
        for (algorithm, value) in upload.expectedDigests where digests[algorithm] == nil {
            guard constantTimeEquals(Digest.hash(bytes, algorithm), value) else { throw UploadError.digestMismatch }
            digests[algorithm] = value
        }
        guard upload.expectedDigests.allSatisfy({ digests[$0.key] == $0.value }) else {
            throw UploadError.digestMismatch
        }
        return digests
    }

    /// Stores the blob, then records the upload, its media and its events.
    private func record(
        _ upload: Upload,
        _ bytes: [UInt8],
        _ digests: DigestValues,
        in storage: any WholeBlobStorage,
        under grant: Grant,
        _ effectiveLimits: EffectiveLimits
    ) async throws(UploadError) -> Upload {
        unrecorded.insert(upload.id)
        defer { unrecorded.remove(upload.id) }
        var blob = NewBlob(of: upload)
        blob.bucket = grant.bucket
        try await storage.create(blob, with: bytes)
        var received = upload
        received.offset = Int64(bytes.count)
        let completed = lifecycle.completedRecord(of: received)
        let media = Media(of: completed, digests: digests)
        let oneTime = grant.isOneTime ? grant : nil
        let replaced: Upload?
        do throws(UploadError) {
            replaced = try await recordComplete(completed, media, received, upload, oneTime, effectiveLimits)
        } catch {
            guard try await isRecorded(upload, consuming: oneTime, after: error) else {
                if error.code == .grantUsed, let before = try await completedBefore(upload, bytes, by: grant) {
                    return before
                }
                throw error
            }
            replaced = nil
        }
        events.bell.ring()
        context.observer.observe(.created(upload))
        context.observer.observe(.appended(received, bytes: Int64(bytes.count)))
        context.observer.observe(.completed(completed, media))
        if let replaced {
            context.observer.observe(.terminated(replaced.id))
            await lifecycle.removeBytes(of: replaced.id)
        }
        return completed
    }

    /// - Returns: The object that was replaced.
    private func recordComplete(
        _ completed: Upload,
        _ media: Media,
        _ received: Upload,
        _ upload: Upload,
        _ grant: Grant?,
        _ effectiveLimits: EffectiveLimits
    ) async throws(UploadError) -> Upload? {
        var records = [events.event(.created, of: upload)]
        if hooks.wants(.progress) { records.append(events.event(.progress, of: received)) }
        records.append(events.event(.completed, of: completed))
        guard let name = completed.objectName else {
            try await state.insertComplete(
                completed,
                as: media,
                replacing: nil,
                consuming: grant,
                under: effectiveLimits,
                recording: records
            )
            return nil
        }
        return try await lifecycle.names.withTurn(at: name) { () async throws(UploadError) -> Upload? in
            try await lifecycle.repeating { () async throws(UploadError) -> Upload? in
                let replaced = try await lifecycle.replacedObject(by: completed, if: upload.attributes?.condition)
                try await state.insertComplete(
                    completed,
                    as: media,
                    replacing: replaced?.id,
                    consuming: grant,
                    under: effectiveLimits,
                    recording: records + (replaced.map { [events.event(.terminated, of: $0)] } ?? [])
                )
                return replaced
            }
        }
    }

    /// The upload for which an earlier attempt used this grant without its client getting a response; see `recordedBefore`.
    ///
    /// - Returns: `nil` unless that attempt stored the same content.
    private func completedBefore(
        _ upload: Upload,
        _ bytes: [UInt8],
        by grant: Grant
    ) async throws(UploadError) -> Upload? {
        try await recordedBefore(upload, by: grant, as: .completed) { recorded throws(UploadError) in
            try await storage.head(of: recorded.id, length: bytes.count + 1) == bytes
        }
    }
}
