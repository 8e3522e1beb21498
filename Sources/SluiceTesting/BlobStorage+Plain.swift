package import Bytes
package import UploadCore

extension BlobStorage {
    /// A blob of which nothing but its id is known.
    package func create(_ id: UploadID) async throws(UploadError) {
        try await create(NewBlob(id, createdAt: id.createdAt))
    }

    /// As `append(to:at:from:limit:of:expecting:confirming:)`, to a blob of unknown length.
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
