internal import Bytes

extension UploadService {
    /// Looks at the first bytes of a file before they are stored, where a policy asks for that.
    ///
    /// - Parameters:
    ///   - source: Pulled for its first bytes.
    ///   - upload: Open.
    ///   - terms: Of its accounts.
    /// - Returns: A source of all the bytes.
    /// - Throws: `.contentTypeRefused`, and the upload has ended then: no other bytes would make it a file of its type.
    func checkingContent(
        of source: any ByteSource,
        for upload: Upload,
        under terms: QuotaTerms
    ) async throws(UploadError) -> any ByteSource {
        guard upload.offset == 0, upload.concatenation == nil, terms.checksContent else { return source }
        let (head, failure) = await Self.head(of: source)
        // Fewer may not be enough to tell; they are looked at when the upload is complete.
        if head.count == ContentSignature.length { try await check(head[...], of: upload, under: terms) }
        return PrefixedSource(head, before: source, failure)
    }

    /// Looks at the first bytes of what is about to become media, whichever way they came.
    ///
    /// - Throws: `.contentTypeRefused`, and the upload has ended then; `.storageFailure`.
    func checkContent(of upload: Upload, under terms: QuotaTerms) async throws(UploadError) {
        guard upload.concatenation?.role != .partial, terms.checksContent else { return }
        let head = try await bytesOf(upload.id) { id throws(UploadError) in
            try await storage.head(of: id, length: ContentSignature.length)
        }
        try await check(head[...], of: upload, under: terms)
    }

    private func check(
        _ head: ArraySlice<UInt8>,
        of upload: Upload,
        under terms: QuotaTerms
    ) async throws(UploadError) {
        do throws(UploadError) {
            for policy in terms.policies.values where policy.checksContent {
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

extension QuotaTerms {
    fileprivate var checksContent: Bool { policies.values.contains(where: \.checksContent) }
}
