package import Bytes
internal import Digests
internal import Synchronization
package import UploadModel

extension S3Storage {
    package func append(
        to id: UploadID,
        at offset: Int64,
        from source: any ByteSource,
        limit: Int64,
        of total: Int64?,
        expecting digest: DigestExpectation?,
        confirming: ((Int64) async -> Void)?
    ) async -> AppendReport {
        do throws(UploadError) {
            let record = try await record(of: id)
            guard record.length == offset else {
                throw UploadError(.offsetMismatch(expected: record.length), "The blob has \(record.length) bytes.")
            }
            guard record.state == .open else {
                if source.remaining == 0 { return AppendReport(stored: 0, end: .endOfSource) }
                throw UploadError(.notOpen, "The upload has all its bytes and is being completed.")
            }
            active.withLock { $0[id] = offset }
            defer { active.withLock { _ = $0.removeValue(forKey: id) } }
            let session = AppendSession(
                self,
                record,
                limit: limit,
                of: total,
                expecting: digest,
                confirming: confirming
            )
            return await session.run(source)
        } catch {
            return AppendReport(stored: 0, end: .failed(error))
        }
    }
}
