internal import Bytes
internal import Digests
package import Foundation
internal import HTTPClient
internal import Signing
internal import Synchronization
package import UploadModel

/// Tail objects: bytes after the last complete part.
extension S3Storage {
    /// Runs `body` with memory reserved for the bytes of tail objects.
    ///
    /// - Parameters:
    ///   - tails: The tail objects.
    ///   - limit: Maximum waiting time.
    ///   - body: The memory is reserved until it returns.
    /// - Returns: The result of `body`.
    /// - Throws: The error of `body`; `.unavailable` if the memory is not available in time.
    func withMemory<Success>(
        for tails: [TailObject],
        within limit: Duration? = nil,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        // Twice: while they arrive, and while they are sent.
        let bytes = 2 * min(memory.capacity / 2, Int(clamping: tails.reduce(0) { $0 + $1.length }))
        guard await takeMemory(bytes, within: limit ?? settings.retryTime) else { throw AppendSession.tooSlow }
        defer { memory.release(bytes) }
        return try await body()
    }

    /// The bytes of tail objects, verified.
    func bytes(of tails: [TailObject], in record: BlobRecord) async throws(UploadError) -> [UInt8] {
        var all: [UInt8] = []
        for tail in tails {
            let bytes = try await bytes(of: tail, in: record)
            if all.isEmpty { all = bytes } else { all += bytes }
        }
        return all
    }

    /// Repeats the request if the response ends early or has changed bytes.
    private func bytes(of tail: TailObject, in record: BlobRecord) async throws(UploadError) -> [UInt8] {
        let deadline = ContinuousClock.now + settings.retryTime
        var attempts = 0
        while true {
            let download: HTTPDownload
            do throws(S3Failure) {
                download = try await client.get(tail.key, in: record.bucket)
            } catch {
                throw error.kind == .missing ? LostTail(tail, "\(error)").uploadError : error.uploadError
            }
            let bytes = await Self.collect(download, limit: Int(tail.length))
            if let bytes {
                if Int64(bytes.count) == tail.length, Digest.hash(bytes, .md5) == tail.md5 { return bytes }
                attempts += 1
                if attempts == 3 { throw LostTail(tail, "the store returned different bytes").uploadError }
            } else if ContinuousClock.now >= deadline || Task.isCancelled {
                throw S3Failure(.away, "the response of the store ended early").uploadError
            }
            try? await Task.sleep(for: .milliseconds(100))
        }
    }

    /// - Returns: `nil` if the content ended early or has more than `limit` bytes.
    private static func collect(_ download: HTTPDownload, limit: Int) async -> [UInt8]? {
        do throws(SourceFailure) {
            return try await download.collect(limit: limit)
        } catch {
            if case .tooLarge = error { return [] }
            return nil
        }
    }

    /// The concatenated bytes of tail objects, ready to be sent.
    func buffer(of tails: [TailObject], in record: BlobRecord) async throws(UploadError) -> PartBuffer {
        let buffer = PartBuffer()
        let digest = RunningDigest(.md5)
        for tail in tails where tail.length > 0 {
            let piece = try await bytes(of: [tail], in: record)
            digest.update(piece)
            buffer.append(piece)
        }
        buffer.close()
        buffer.setMD5(digest.finish())
        return buffer
    }

    /// Uploads a new tail object, which is not recorded yet.
    ///
    /// - Parameters:
    ///   - content: Complete; its digest is known or being computed.
    ///   - record: The blob.
    ///   - prefix: Prefix of its name, before a random part.
    /// - Returns: The tail object to record.
    func putTail(
        _ content: PartBuffer,
        of record: BlobRecord,
        named prefix: String = ""
    ) async -> Result<TailObject, UploadError> {
        pristine.withLock { _ = $0.remove(record.id) }
        let name = prefix + Hexadecimal.encode(SecureRandom.bytes(8))
        guard await content.whole(), let md5 = content.md5 else {
            return .failure(
                UploadError(.storageFailure, "The last bytes cannot be read from the spool; send them again.")
            )
        }
        let tail = TailObject(key: tailPrefix(of: record.id) + name, length: content.length, md5: md5)
        do throws(S3Failure) {
            let tag = try await client.put(tail.key, in: record.bucket, content: content, digest: md5)
            guard !settings.tagsAreDigests || EntityTagText.matches(tag, tail.md5) else {
                return .failure(
                    UploadError(.storageFailure, "The store confirmed bytes that differ from those that were sent.")
                )
            }
            return .success(tail)
        } catch {
            return .failure(error.uploadError)
        }
    }

    func tailPrefix(of id: UploadID) -> String { settings.tailPrefix + id.text + "/" }

    /// Removes tail objects that are no longer recorded, in the background; the sweep removes any that remain.
    func removeInBackground(_ tails: [TailObject], of record: BlobRecord) {
        guard !tails.isEmpty else { return }
        inBackground { [client] in
            for tail in tails { try? await client.delete(tail.key, in: record.bucket) }
        }
    }

    /// Removes tail objects of blobs that no longer exist or that have newer ones.
    package func removeLeftovers(from date: Date, ofUnknownFrom unknown: Date) async throws(UploadError) -> Int {
        var removed = 0
        for bucket in [settings.bucket] + settings.otherBuckets {
            removed += try await removeTails(
                withPrefix: settings.tailPrefix,
                in: bucket,
                from: date,
                ofUnknownFrom: unknown
            )
        }
        return removed
    }

    /// Removes unrecorded tail objects, and small parts that were combined into an object.
    ///
    /// - Parameters:
    ///   - prefix: Prefix of their keys.
    ///   - bucket: Their bucket.
    ///   - date: Newer ones are kept, because they may belong to a running request.
    ///   - unknown: The same for blobs without a record, which may have been lost.
    ///   - ended: A blob of which everything is removed.
    /// - Returns: Number of removed objects.
    /// - Throws: `.unavailable`, `.storageFailure`.
    func removeTails(
        withPrefix prefix: String,
        in bucket: String,
        from date: Date,
        ofUnknownFrom unknown: Date = .distantPast,
        ended: UploadID? = nil
    ) async throws(UploadError) -> Int {
        var removed = 0
        var token: String?
        repeat {
            let next = token
            let page = try await convertingFailures { () async throws(S3Failure) in
                try await client.list(prefix, in: bucket, after: next)
            }
            var found: [UploadID: BlobRecord?] = [:]
            for object in page.objects {
                guard let written = object.date, written < date, let id = owner(of: object.key) else { continue }
                if found[id] == nil { found[id] = .some(try await records.blob(id)) }
                let record = found[id] ?? nil
                let isKept = record.map { isNeeded(object.key, by: $0) } ?? (written >= unknown)
                if id != ended, isKept { continue }
                try await convertingFailures { () async throws(S3Failure) in
                    try await client.delete(object.key, in: bucket)
                }
                removed += 1
            }
            token = page.next
        } while token != nil
        return removed
    }

    /// The storage does not know which small parts are recorded, so all are kept until the object exists.
    private func isNeeded(_ key: String, by record: BlobRecord) -> Bool {
        key.hasPrefix(tailPrefix(of: record.id) + SmallPart.namePrefix)
            ? record.state != .complete : record.tails.contains { $0.key == key }
    }

    func owner(of key: String) -> UploadID? {
        guard key.hasPrefix(settings.tailPrefix) else { return nil }
        return key.dropFirst(settings.tailPrefix.count).split(separator: "/").first.flatMap { UploadID($0) }
    }
}

/// A tail object that the store has lost or changed.
struct LostTail: Error, CustomStringConvertible {
    let key: String
    let description: String

    /// - Parameters:
    ///   - tail: The tail object.
    ///   - reason: What is wrong with it.
    init(_ tail: TailObject, _ reason: String) {
        key = tail.key
        description = "\(tail.key): \(reason)"
    }

    var uploadError: UploadError {
        UploadError(
            .storageFailure,
            "The store has lost or changed bytes of this upload; start a new one.",
            cause: self
        )
    }
}
