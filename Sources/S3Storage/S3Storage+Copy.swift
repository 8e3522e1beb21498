internal import Bytes
package import UploadModel

extension S3Storage {
    package func copy(
        _ range: Range<Int64>,
        of source: UploadID,
        to id: UploadID,
        at offset: Int64
    ) async throws(UploadError) {
        let origin = try await record(of: source)
        var target = try await record(of: id)
        guard target.length == offset else {
            throw UploadError(.offsetMismatch(expected: target.length), "The blob has \(target.length) bytes.")
        }
        guard origin.state == .complete, origin.length >= range.upperBound, target.state == .open else {
            throw UploadError(.storageFailure, "One of the blobs is not in a state to be copied.")
        }
        guard !range.isEmpty else { return }
        if target.crc32c != nil {
            // Computing it would need the bytes.
            target.crc32c = nil
            target.version = try await records.update(target, adding: [], droppingFrom: nil)
        }
        var position = range.lowerBound
        // Bytes that complete a begun part, or that are too few for a part, are sent through the gateway.
        if target.tailBytes > 0 {
            let size = settings.size(ofPart: target.partCount + 1, base: target.partSize)
            let end = min(range.upperBound, position + size - target.tailBytes)
            target = try await pass(position..<end, of: origin, to: target)
            position = end
        }
        while range.upperBound - position >= settings.minimumPartSize, target.tails.isEmpty {
            let end = position + copySize(range.upperBound - position, target)
            if end == position { break }
            target = try await copyPart(position..<end, of: origin, to: target)
            position = end
        }
        if position < range.upperBound { _ = try await pass(position..<range.upperBound, of: origin, to: target) }
    }

    /// Number of bytes that the store copies next; 0 if the rest is sent through the gateway.
    private func copySize(_ left: Int64, _ target: BlobRecord) -> Int64 {
        let size = settings.size(ofPart: target.partCount + 1, base: target.partSize)
        if settings.needsEqualParts { return left >= size ? size : 0 }
        return min(left, max(size, Self.copySize))
    }

    /// Large enough for few requests, small enough for a timely response to each.
    private static let copySize: Int64 = 256 << 20

    private func copyPart(
        _ range: Range<Int64>,
        of origin: BlobRecord,
        to found: BlobRecord
    ) async throws(UploadError) -> BlobRecord {
        var target = try await withMultipart(found)
        let number = target.partCount + 1
        let record = target
        let tag = try await convertingFailures { () async throws(S3Failure) in
            try await client.copyPart(number, of: record, from: origin.key, in: origin.bucket, range)
        }
        let size = range.upperBound - range.lowerBound
        target.partCount = number
        target.partBytes += size
        target.version = try await records.update(
            target,
            adding: [BlobPart(number: number, size: size, entityTag: tag)],
            droppingFrom: nil
        )
        return target
    }

    /// Reads bytes of one blob and appends them to the other.
    private func pass(
        _ range: Range<Int64>,
        of origin: BlobRecord,
        to target: BlobRecord
    ) async throws(UploadError) -> BlobRecord {
        let size = range.upperBound - range.lowerBound
        let source = try await S3Blob(origin, self).bytes(range)
        let session = AppendSession(self, target, limit: size, of: nil)
        let report = await session.run(source)
        switch report.end {
        case .endOfSource where report.stored == size, .limitReached: return session.record
        case .failed(let error): throw error
        case .endOfSource, .sourceFailed:
            throw UploadError(.unavailable, "The response of the store ended early; try again later.")
        }
    }

    /// The record, with a multipart upload; creates one if necessary.
    func withMultipart(_ found: BlobRecord) async throws(UploadError) -> BlobRecord {
        guard found.multipart == nil else { return found }
        var record = found
        // Recorded first, so that a multipart upload whose id is lost is found and aborted. And a process that was
        // suspended here does not mistake the new one for a lost one.
        let wasBeginning = record.isBeginning
        record.isBeginning = true
        record.version = try await records.update(record, adding: [], droppingFrom: nil)
        let (key, bucket, headers) = (record.key, record.bucket, objectHeaders(record))
        var isCertain = true
        let id = try await convertingFailures { () async throws(S3Failure) in
            try await client.createMultipart(key, in: bucket, headers: headers, isCertain: &isCertain)
        }
        record.multipart = id
        if wasBeginning || !isCertain { try await abortStrays(of: record) }
        // The request of a process that was killed may still be running: then check again at the end.
        record.isBeginning = wasBeginning
        record.version = try await records.update(record, adding: [], droppingFrom: nil)
        return record
    }

    /// Aborts multipart uploads of a blob whose ids are not recorded.
    ///
    /// Not under a key that the app chose: another upload can have the same key.
    ///
    /// - Throws: `.interrupted`, with nothing aborted, if another node has changed the record.
    func abortStrays(of record: BlobRecord) async throws(UploadError) {
        guard record.hasKeyOfItsOwn else { return }
        let strays = try await convertingFailures { () async throws(S3Failure) in
            try await client.multiparts(of: record.key, in: record.bucket).filter { $0 != record.multipart }
        }
        guard !strays.isEmpty else { return }
        // Checked after listing: a node that begins another one changes the record first.
        try await checkUnchanged(record)
        try await convertingFailures { () async throws(S3Failure) in
            for stray in strays { try await client.abort(stray, of: record.key, in: record.bucket) }
        }
    }

    /// - Throws: `.interrupted` if the record was changed or removed since it was read.
    func checkUnchanged(_ record: BlobRecord) async throws(UploadError) {
        guard try await records.blob(record.id)?.version == record.version else {
            throw BlobRecord.wasChanged
        }
    }
}
