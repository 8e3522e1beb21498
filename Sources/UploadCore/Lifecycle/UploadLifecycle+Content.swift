internal import Bytes
internal import UploadModel

extension UploadLifecycle {
    /// Checks the first bytes of a file before they are stored, if a policy requires it.
    ///
    /// - Parameters:
    ///   - source: Pulled for its first bytes.
    ///   - upload: The open upload.
    ///   - effectiveLimits: The limits of its accounts.
    /// - Returns: A source with all bytes, including the checked ones.
    /// - Throws: `.contentTypeRefused`, which ends the upload: no further bytes could make the file valid.
    func checkingContent(
        of source: any ByteSource,
        for upload: Upload,
        under effectiveLimits: EffectiveLimits
    ) async throws(UploadError) -> any ByteSource {
        guard upload.offset == 0, upload.concatenation == nil, effectiveLimits.checksContent else { return source }
        let (head, failure) = await Self.head(of: source)
        // Fewer bytes may not suffice; they are checked when the upload is complete.
        if head.count == ContentSignature.length { try await check(head[...], of: upload, under: effectiveLimits) }
        return PrefixedSource(head, before: source, failure)
    }

    /// Checks the first bytes of an upload that is about to become media, however they arrived.
    ///
    /// - Throws: `.contentTypeRefused`, which ends the upload; `.storageFailure`.
    func checkContent(of upload: Upload, under effectiveLimits: EffectiveLimits) async throws(UploadError) {
        guard upload.concatenation?.role != .partial, effectiveLimits.checksContent else { return }
        let head = try await bytesOf(upload.id) { id throws(UploadError) in
            try await storage.head(of: id, length: ContentSignature.length)
        }
        try await check(head[...], of: upload, under: effectiveLimits)
    }

    private func check(
        _ head: ArraySlice<UInt8>,
        of upload: Upload,
        under effectiveLimits: EffectiveLimits
    ) async throws(UploadError) {
        do throws(UploadError) {
            for policy in effectiveLimits.policies.values where policy.checksContent {
                try ContentSignature.check(
                    head,
                    declared: upload.metadata.contentType,
                    allowed: policy.contentTypes
                )
            }
        } catch {
            try await end(upload, as: .terminated)
            throw error
        }
    }

    private static func head(of source: any ByteSource) async -> ([UInt8], SourceFailure?) {
        var head: [UInt8] = []
        do throws(SourceFailure) {
            while head.count < ContentSignature.length,
                let piece = try await source.next(maximum: ContentSignature.length - head.count)
            {
                head += piece
            }
            return (head, nil)
        } catch {
            return (head, error)
        }
    }
}

extension EffectiveLimits {
    /// Whether a policy checks the first bytes of content.
    var checksContent: Bool { policies.values.contains(where: \.checksContent) }
}
