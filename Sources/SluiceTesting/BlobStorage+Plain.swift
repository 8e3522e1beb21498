package import Bytes
package import UploadModel

extension BlobStorage {
    /// Creates a blob with nothing but its id.
    package func create(_ id: UploadID) async throws(UploadError) {
        try await create(NewBlob(id, createdAt: id.createdAt))
    }

    /// Like `append(to:at:from:limit:of:expecting:confirming:)`, for a blob of unknown length.
    package func append(
        to id: UploadID,
        at offset: Int64,
        from source: any ByteSource,
        limit: Int64,
        expecting digest: DigestExpectation?
    ) async -> AppendReport {
        await append(to: id, at: offset, from: source, limit: limit, of: nil, expecting: digest, confirming: nil)
    }
}
