internal import Bytes
internal import Foundation
internal import HTTPClient
package import UploadModel

/// The mark of the store, and objects without records.
extension S3Storage {
    /// Not among the tail objects, which a lifecycle rule of the store may remove after some time.
    var markKey: String {
        (settings.tailPrefix.hasSuffix("/") ? String(settings.tailPrefix.dropLast()) : settings.tailPrefix) + ".store"
    }

    package func storedMark() async throws(UploadError) -> StoreMark? {
        let download: HTTPDownload
        do throws(S3Failure) {
            download = try await client.get(markKey, in: settings.bucket)
        } catch  where error.kind == .missing {
            return nil
        } catch {
            throw error.uploadError
        }
        let text: [UInt8]
        do throws(SourceFailure) {
            text = try await download.collect(limit: 4096)
        } catch {
            throw UploadError(.unavailable, "The response of the store ended early; try again.", cause: error)
        }
        do {
            return try JSONDecoder().decode(StoreMark.self, from: Data(text))
        } catch {
            throw UploadError(.storageFailure, "The object \(markKey) in the store cannot be read.", cause: error)
        }
    }

    package func storeMark(_ mark: StoreMark) async throws(UploadError) {
        let text = Array("{\"id\":\"\(mark.id)\",\"epoch\":\(mark.epoch)}\n".utf8)
        _ = try await convertingFailures { () async throws(S3Failure) in
            try await client.put(markKey, in: settings.bucket, bytes: text)
        }
    }

    /// Only tail objects are certainly ours: other software may have objects in the bucket.
    package func hasBlobs() async throws(UploadError) -> Bool {
        for bucket in [settings.bucket] + settings.otherBuckets {
            let page = try await convertingFailures { () async throws(S3Failure) in
                try await client.list(settings.tailPrefix, in: bucket, after: nil)
            }
            if page.objects.contains(where: { owner(of: $0.key) != nil }) { return true }
        }
        return false
    }

    /// Finds objects by the upload id in their metadata or, in a store that keeps none, by the id in their key.
    ///
    /// Incomplete blobs cannot be found without a record.
    package func findBlobs(_ body: (FoundBlob) async throws(UploadError) -> Void) async throws(UploadError) {
        for bucket in [settings.bucket] + settings.otherBuckets {
            var token: String?
            repeat {
                let next = token
                let page = try await convertingFailures { () async throws(S3Failure) in
                    try await client.list("", in: bucket, after: next)
                }
                for object in page.objects where !object.key.hasPrefix(settings.tailPrefix) {
                    if let blob = try await find(object.key, in: bucket) { try await body(blob) }
                }
                token = page.next
            } while token != nil
        }
    }

    private func find(_ key: String, in bucket: String) async throws(UploadError) -> FoundBlob? {
        let inKey = Self.id(in: key)
        if let inKey, let record = try await records.blob(inKey), record.key == key, record.bucket == bucket {
            return FoundBlob(inKey, record.state == .complete ? .whole : .open, size: record.length)
        }
        let head = try await convertingFailures { () async throws(S3Failure) in try await client.head(key, in: bucket) }
        guard let head, let id = head.upload.map({ UploadID($0) }) ?? inKey else { return nil }
        return FoundBlob(
            id,
            .whole,
            size: head.size,
            contentType: head.contentType,
            object: (ObjectName(bucket: bucket, key: key), head.entityTag)
        )
    }

    /// The first id in a key that is delimited by characters other than letters and digits.
    static func id(in key: String) -> UploadID? {
        key.split { !$0.isLetter && !$0.isNumber || !$0.isASCII }.lazy.compactMap { UploadID($0) }.first
    }

    package func adopt(_ blob: FoundBlob) async throws(UploadError) {
        guard let (name, entityTag) = blob.object else { return }
        if let record = try await records.blob(blob.id) {
            guard record.state != .complete else { return }
            try await records.forgetBlob(blob.id)
        }
        var record = BlobRecord(
            id: blob.id,
            state: .complete,
            bucket: name.bucket,
            key: name.key,
            contentType: blob.contentType,
            partSize: settings.partSize,
            createdAt: blob.id.createdAt
        )
        record.partBytes = blob.size
        record.entityTag = entityTag
        record.crc32c = nil
        try await records.insert(record)
    }
}
