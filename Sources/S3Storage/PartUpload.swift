internal import Bytes
internal import Digests
internal import Signing
internal import Synchronization
internal import UploadModel

/// The upload of a part or of a whole object to the store.
final class PartUpload: Sendable {
    let isObject: Bool
    private let task: Task<Result<String, S3Failure>, Never>
    private let ended: Flag

    /// Uploads a part of a multipart upload.
    convenience init(part number: Int, _ buffer: PartBuffer, _ record: BlobRecord, _ storage: S3Storage) {
        self.init(isObject: false, buffer, storage) { [client = storage.client] digest throws(S3Failure) in
            try await client.putPart(number, of: record, content: buffer, digest: digest) { await buffer.whole() }
        }
    }

    /// Uploads a whole blob.
    convenience init(object buffer: PartBuffer, _ record: BlobRecord, _ storage: S3Storage) {
        let headers = storage.objectHeaders(record)
        self.init(isObject: true, buffer, storage) { [client = storage.client, storage] digest throws(S3Failure) in
            try await storage.keyLocks.withLock(record) { () async throws(S3Failure) in
                try await client.put(
                    record.key,
                    in: record.bucket,
                    content: buffer,
                    digest: digest,
                    headers: headers
                ) { await buffer.whole() }
            }
        }
    }

    private init(
        isObject: Bool,
        _ buffer: PartBuffer,
        _ storage: S3Storage,
        _ send: @escaping @Sendable (_ digest: [UInt8]?) async throws(S3Failure) -> String
    ) {
        self.isObject = isObject
        let ended = Flag()
        self.ended = ended
        let (checks, sendsMD5) = (storage.settings.tagsAreDigests, storage.settings.sendsContentMD5)
        task = Task {
            defer { ended.raise() }
            var failures = 0
            while true {
                do throws(S3Failure) {
                    if sendsMD5 { _ = await buffer.whole() }
                    let tag = try await send(sendsMD5 ? buffer.md5 : nil)
                    guard await buffer.whole(), let md5 = buffer.md5 else {
                        return .failure(S3Failure(.contentFailed, "the content ended early"))
                    }
                    if !checks || EntityTagText.matches(tag, md5) { return .success(tag) }
                    failures += 1
                    guard failures < 3 else {
                        return .failure(S3Failure(.refused, "the store's entity tag is not the MD5 of the sent bytes"))
                    }
                } catch {
                    return .failure(error)
                }
            }
        }
    }

    var hasEnded: Bool { ended.isRaised }

    /// The entity tag in the store's confirmation.
    func entityTag() async throws(UploadError) -> String {
        switch await task.value {
        case .success(let tag): return tag
        case .failure(let failure): throw failure.uploadError
        }
    }

    func wait() async { _ = await task.value }

    func cancel() { task.cancel() }
}

/// Entity tags of S3.
enum EntityTagText {
    /// Whether a tag can belong to bytes with this MD5; a tag that is not an MD5 matches anything.
    static func matches(_ tag: String, _ md5: [UInt8]) -> Bool {
        guard let value = digest(tag) else { return true }
        return value == md5
    }

    /// The MD5 in a tag; `nil` if it is not an MD5.
    static func digest(_ tag: String) -> [UInt8]? {
        let text = tag.filter { $0 != "\"" }
        guard text.utf8.count == 32 else { return nil }
        return Hexadecimal.decode(text)
    }

    /// The tag of a multipart object, without quotes: the MD5 of the parts' MD5s, and their number; `nil` if a part's
    /// tag is not an MD5.
    static func ofMultipart(_ parts: [BlobPart]) -> String? {
        var all: [UInt8] = []
        for part in parts {
            guard let md5 = digest(part.entityTag) else { return nil }
            all += md5
        }
        return Hexadecimal.encode(Digest.hash(all, .md5)) + "-\(parts.count)"
    }
}

/// A flag that can be set once.
final class Flag: Sendable {
    private let value = Mutex(false)

    var isRaised: Bool { value.withLock { $0 } }

    func raise() { value.withLock { $0 = true } }
}
