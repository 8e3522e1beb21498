internal import Bytes
internal import Digests
package import Foundation
internal import HTTPClient
internal import Signing
internal import Synchronization
package import UploadCore

/// Side objects: bytes that make no part yet.
extension S3Storage {
    /// Runs `body` with memory for the bytes of side objects.
    ///
    /// - Parameters:
    ///   - sides: Whose bytes.
    ///   - limit: How long to wait for it.
    ///   - body: Has it until it returns.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws; `.unavailable` if there is none in time.
    func withMemory<Success>(
        for sides: [SideObject],
        within limit: Duration? = nil,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        // As they come, and as they are sent.
        let bytes = 2 * min(memory.capacity / 2, Int(clamping: sides.reduce(0) { $0 + $1.length }))
        guard await memory.take(bytes, within: limit ?? settings.retryTime) else { throw Reception.tooSlow }
        defer { memory.giveBack(bytes) }
        return try await body()
    }

    /// The bytes of side objects, checked.
    func bytes(of sides: [SideObject], in record: BlobRecord) async throws(UploadError) -> [UInt8] {
        var all: [UInt8] = []
        for side in sides {
            let bytes = try await bytes(of: side, in: record)
            if all.isEmpty { all = bytes } else { all += bytes }
        }
        return all
    }

    /// Asks again for what broke off, or was changed on its way.
    private func bytes(of side: SideObject, in record: BlobRecord) async throws(UploadError) -> [UInt8] {
        let deadline = ContinuousClock.now + settings.retryTime
        var attempts = 0
        while true {
            let download: HTTPDownload
            do throws(S3Failure) {
                download = try await client.get(side.key, in: record.bucket)
            } catch {
                throw error.kind == .missing ? LostSide(side, "\(error)").uploadError : error.uploadError
            }
            let bytes = await Self.collect(download, limit: Int(side.length))
            if let bytes {
                if Int64(bytes.count) == side.length, Digest.hash(bytes, .md5) == side.md5 { return bytes }
                attempts += 1
                if attempts == 3 { throw LostSide(side, "the store returns other bytes").uploadError }
            } else if ContinuousClock.now >= deadline || Task.isCancelled {
                throw S3Failure(.away, "the store broke off").uploadError
            }
            try? await Task.sleep(for: .milliseconds(100))
        }
    }

    /// - Returns: `nil` if it broke off; of more than `limit` bytes none.
    private static func collect(_ download: HTTPDownload, limit: Int) async -> [UInt8]? {
        do throws(SourceFailure) {
            return try await download.collect(limit: limit)
        } catch {
            if case .tooLarge = error { return [] }
            return nil
        }
    }

    /// The bytes of side objects, one behind the other, to be sent.
    func buffer(of sides: [SideObject], in record: BlobRecord) async throws(UploadError) -> PartBuffer {
        let buffer = PartBuffer()
        let digest = RunningDigest(.md5)
        for side in sides where side.length > 0 {
            let piece = try await bytes(of: [side], in: record)
            digest.update(piece)
            buffer.append(piece)
        }
        buffer.close()
        buffer.tell(md5: digest.finish())
        return buffer
    }

    /// Writes a new side object, which is not recorded yet.
    ///
    /// - Parameters:
    ///   - content: Whole; its digest is known, or on its way.
    ///   - record: Whose it is.
    ///   - prefix: What its name begins with, before something random.
    /// - Returns: What is to be recorded.
    func putSide(
        _ content: PartBuffer,
        of record: BlobRecord,
        named prefix: String = ""
    ) async -> Result<SideObject, UploadError> {
        pristine.withLock { _ = $0.remove(record.id) }
        let name = prefix + Hexadecimal.encode(SecureRandom.bytes(8))
        guard await content.whole(), let md5 = content.md5 else {
            return .failure(UploadError(.storageFailure, "The last bytes can not be read any more."))
        }
        let side = SideObject(key: sidePrefix(of: record.id) + name, length: content.length, md5: md5)
        do throws(S3Failure) {
            let tag = try await client.put(side.key, in: record.bucket, content: content, digest: md5)
            guard !settings.tagsAreDigests || EntityTagText.matches(tag, side.md5) else {
                return .failure(
                    UploadError(.storageFailure, "The store confirms other bytes than those that were sent.")
                )
            }
            return .success(side)
        } catch {
            return .failure(error.uploadError)
        }
    }

    func sidePrefix(of id: UploadID) -> String { settings.sidePrefix + id.text + "/" }

    /// Removes side objects that no record names any more, in the background; what remains is removed by the sweep.
    func forget(_ sides: [SideObject], of record: BlobRecord) {
        guard !sides.isEmpty else { return }
        tidy { [client] in
            for side in sides { try? await client.delete(side.key, in: record.bucket) }
        }
    }

    /// Removes side objects of blobs that are gone, or have got others since.
    package func removeLeftovers(from date: Date, ofUnknownFrom unknown: Date) async throws(UploadError) -> Int {
        var removed = 0
        for bucket in [settings.bucket] + settings.otherBuckets {
            removed += try await removeSides(
                withPrefix: settings.sidePrefix,
                in: bucket,
                from: date,
                ofUnknownFrom: unknown
            )
        }
        return removed
    }

    /// Removes side objects that no record names, and those of parts of which an object was made.
    ///
    /// - Parameters:
    ///   - prefix: Of their keys.
    ///   - bucket: Where they are.
    ///   - date: Younger ones may belong to a request that runs.
    ///   - unknown: As above, of blobs without a record, which may have been lost.
    ///   - ended: A blob of which nothing is to be kept.
    /// - Returns: How many there were.
    /// - Throws: `.unavailable`, `.storageFailure`.
    func removeSides(
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
            let page = try await asking { () async throws(S3Failure) in
                try await client.list(prefix, in: bucket, after: next)
            }
            var found: [UploadID: BlobRecord?] = [:]
            for object in page.objects {
                guard let written = object.date, written < date, let id = owner(of: object.key) else { continue }
                if found[id] == nil { found[id] = .some(try await records.blob(id)) }
                let record = found[id] ?? nil
                let isKept = record.map { isNeeded(object.key, by: $0) } ?? (written >= unknown)
                if id != ended, isKept { continue }
                try await asking { () async throws(S3Failure) in try await client.delete(object.key, in: bucket) }
                removed += 1
            }
            token = page.next
        } while token != nil
        return removed
    }

    /// Which parts are recorded the storage does not know; all of them are kept until there is an object.
    private func isNeeded(_ key: String, by record: BlobRecord) -> Bool {
        key.hasPrefix(sidePrefix(of: record.id) + SmallPart.namePrefix)
            ? record.state != .complete : record.sides.contains { $0.key == key }
    }

    func owner(of key: String) -> UploadID? {
        guard key.hasPrefix(settings.sidePrefix) else { return nil }
        return key.dropFirst(settings.sidePrefix.count).split(separator: "/").first.flatMap { UploadID($0) }
    }
}

/// A side object that the store has lost, or has changed.
struct LostSide: Error, CustomStringConvertible {
    let key: String
    let description: String

    /// - Parameters:
    ///   - side: Which one.
    ///   - reason: What was seen of it.
    init(_ side: SideObject, _ reason: String) {
        key = side.key
        description = "\(side.key): \(reason)"
    }

    var uploadError: UploadError {
        UploadError(.storageFailure, "The store has lost bytes of this upload, or returns others.", cause: self)
    }
}
