internal import Bytes
package import UploadCore

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
            // It would have to be computed from the bytes.
            target.crc32c = nil
            target.version = try await records.update(target, adding: [], droppingFrom: nil)
        }
        var position = range.lowerBound
        // Up to the end of a part that has begun, the bytes pass through; and so does what is too small for a part.
        if target.sideBytes > 0 {
            let size = settings.size(ofPart: target.partCount + 1, base: target.partSize)
            let end = min(range.upperBound, position + size - target.sideBytes)
            target = try await pass(position..<end, of: origin, to: target)
            position = end
        }
        while range.upperBound - position >= settings.minimumPartSize, target.sides.isEmpty {
            let end = position + copySize(range.upperBound - position, target)
            if end == position { break }
            target = try await copyPart(position..<end, of: origin, to: target)
            position = end
        }
        if position < range.upperBound { _ = try await pass(position..<range.upperBound, of: origin, to: target) }
    }

    /// Bytes that the store is to copy at once: 0 if what is left is passed through.
    private func copySize(_ left: Int64, _ target: BlobRecord) -> Int64 {
        let size = settings.size(ofPart: target.partCount + 1, base: target.partSize)
        if settings.needsEqualParts { return left >= size ? size : 0 }
        return min(left, max(size, Self.copySize))
    }

    /// Large enough for few requests, small enough for one that is answered soon.
    private static let copySize: Int64 = 256 << 20

    private func copyPart(
        _ range: Range<Int64>,
        of origin: BlobRecord,
        to found: BlobRecord
    ) async throws(UploadError) -> BlobRecord {
        var target = try await withMultipart(found)
        let number = target.partCount + 1
        let record = target
        let tag = try await asking { () async throws(S3Failure) in
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
        let reception = Reception(self, target, limit: size, of: nil)
        let report = await reception.run(source)
        switch report.end {
        case .endOfSource where report.stored == size, .limitReached: return reception.record
        case .failed(let error): throw error
        case .endOfSource, .sourceFailed:
            throw UploadError(.unavailable, "The store broke off; try again later.")
        }
    }

    /// The record, with a multipart upload.
    func withMultipart(_ found: BlobRecord) async throws(UploadError) -> BlobRecord {
        guard found.multipart == nil else { return found }
        var record = found
        // First, so that one is found and ended of which nobody learns the id; and so that whoever was here before, and has
        // slept, does not take the new one for such.
        let wasBeginning = record.isBeginning
        record.isBeginning = true
        record.version = try await records.update(record, adding: [], droppingFrom: nil)
        let (key, bucket, headers) = (record.key, record.bucket, objectHeaders(record))
        var isCertain = true
        let id = try await asking { () async throws(S3Failure) in
            try await client.createMultipart(key, in: bucket, headers: headers, isCertain: &isCertain)
        }
        record.multipart = id
        if wasBeginning || !isCertain { try await abortStrays(of: record) }
        // The request of a process that was killed may be under way yet: then it is looked at again in the end.
        record.isBeginning = wasBeginning
        record.version = try await records.update(record, adding: [], droppingFrom: nil)
        return record
    }

    /// Ends multipart uploads of a blob of which nobody learned the id.
    ///
    /// Not under a key that the app chose: another upload may have it, too.
    ///
    /// - Throws: `.interrupted`, with nothing ended, if somebody else has the blob now.
    func abortStrays(of record: BlobRecord) async throws(UploadError) {
        guard record.hasKeyOfItsOwn else { return }
        let strays = try await asking { () async throws(S3Failure) in
            try await client.multiparts(of: record.key, in: record.bucket).filter { $0 != record.multipart }
        }
        guard !strays.isEmpty else { return }
        // After they were listed: who begins another one changes the record first.
        try await checkUnchanged(record)
        try await asking { () async throws(S3Failure) in
            for stray in strays { try await client.abort(stray, of: record.key, in: record.bucket) }
        }
    }

    /// - Throws: `.interrupted` if somebody has changed or forgotten the record since it was read.
    func checkUnchanged(_ record: BlobRecord) async throws(UploadError) {
        guard try await records.blob(record.id)?.version == record.version else {
            throw BlobRecord.wasChanged
        }
    }
}
