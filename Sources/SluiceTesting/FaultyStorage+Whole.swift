package import UploadModel

extension FaultyStorage: WholeBlobStorage {
    package var wholeStorage: (any WholeBlobStorage)? { base.wholeStorage == nil ? nil : self }

    package func create(_ blob: NewBlob, with content: [UInt8]) async throws(UploadError) {
        try await plan.step(.createWhole)
        guard let whole = base.wholeStorage else {
            throw UploadError(.storageFailure, "The storage below takes no whole blobs.")
        }
        try await whole.create(blob, with: content)
    }
}
