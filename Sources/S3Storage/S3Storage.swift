package import Bytes
package import CloudCredentials
package import Digests
internal import Foundation
package import HTTPClient
package import MetricsKit
internal import Signing
internal import Synchronization
package import UploadModel

/// Blobs as objects of an S3-compatible store.
///
/// The record of a blob (`BlobRecords`) says what the store has of it. It changes only after the store has confirmed
/// the bytes, so the store need not be asked:
///
/// - parts of a multipart upload, consecutive from the first byte, and after them
/// - tail objects, with the bytes after the last complete part. They never change: a new one is written and recorded
///   before an old one is removed. A tail object that is written late, after another node took over, is never recorded.
///
/// When all bytes are there, the store combines the parts into one object (`synchronize`). A blob that fits into one
/// part is sent as one object.
///
/// | crash after | found later | recovery |
/// |---|---|---|
/// | part sent, not recorded | an unrecorded part | the same number is sent again with the same bytes |
/// | multipart upload begun, not recorded | a record that says so | `synchronize` and `remove` find and abort it |
/// | tail object sent, not recorded | an unrecorded object | `removeLeftovers` removes it |
/// | completion begun | a record that says so | the next access completes it, or finds it complete |
package final class S3Storage: MarkedStorage {
    let client: S3Client
    let records: any BlobRecords
    let memory: MemoryPool
    let spool: Spool
    let hashes = PartHashes()
    let arrivals: PartArrivals
    let clock: any WallClock
    var settings: S3Settings { client.settings }

    /// Blobs that receive bytes now, with their length including unconfirmed bytes.
    let active = Mutex<[UploadID: Int64]>([:])
    /// Background clean-up that continues after a response.
    let backgroundTasks = Mutex<(last: UInt64, tasks: [UInt64: Task<Void, Never>])>((0, [:]))
    /// Blobs that this process created and that never had a tail object.
    let pristine = Mutex<Set<UploadID>>([])
    /// Blobs whose parts were joined here, and whose completion was not begun.
    let joins = Mutex<Set<UploadID>>([])
    /// Serialises access to keys that apps chose, while an object is written or removed.
    let keyLocks = KeyLocks()
    /// Completions that run in this process.
    let completions = Mutex<[UploadID: Completion]>([:])
    /// Removed blobs whose object the store may still be making for a process that has ended; since when this is known.
    let uncertainRemovals = Mutex<[UploadID: ContinuousClock.Instant]>([:])

    /// - Parameters:
    ///   - settings: The store and how it is used.
    ///   - records: Stores the records of blobs.
    ///   - http: Sends the requests; not closed by the storage.
    ///   - credentials: Signs the requests.
    ///   - memory: Maximum bytes in memory that wait for the store, for all uploads together.
    ///   - spool: Takes bytes for which there is no memory.
    ///   - clock: The time for signatures.
    ///   - metrics: Takes the use of memory, spool and requests.
    package init(
        settings: S3Settings,
        records: any BlobRecords,
        http: HTTPClient,
        credentials: any AWSCredentialsProvider,
        memory: Int,
        spool: Spool,
        clock: any WallClock,
        metrics: MetricsRegistry = MetricsRegistry()
    ) {
        client = S3Client(settings, http: http, credentials: credentials, clock: clock, metrics: metrics)
        self.records = records
        self.memory = MemoryPool(capacity: memory)
        arrivals = PartArrivals(share: (Int64(memory) + spool.capacity) / 2)
        self.spool = spool
        self.clock = clock
        report(to: metrics)
    }

    private func report(to metrics: MetricsRegistry) {
        metrics.sample(
            "sluice_store_memory_bytes",
            .gauge,
            "Bytes in memory that the object store has not confirmed."
        ) { [memory] in Double(memory.used) }
        metrics.sample("sluice_store_memory_limit_bytes", .gauge, "Most such bytes.") { [memory] in
            Double(memory.capacity)
        }
        metrics.sample(
            "sluice_store_spool_files_total",
            .counter,
            "Files for bytes that had no room in memory."
        ) { [spool] in Double(spool.filesMade) }
    }

    /// Confirmed parts are recorded during an append.
    package var isDurableAtEndOnly: Bool { false }

    /// Checks the buckets, and creates them if the settings say so.
    ///
    /// Call it once, before anything else.
    ///
    /// - Throws: `.unavailable`, `.storageFailure`; the cause has the store's message.
    package func prepare() async throws(UploadError) {
        for bucket in [settings.bucket] + settings.otherBuckets {
            try await convertingFailures { () async throws(S3Failure) in
                do throws(S3Failure) {
                    try await client.checkBucket(bucket)
                } catch  where error.kind == .missing && settings.createsBucket {
                    try await client.createBucket(bucket)
                }
            }
        }
    }

    package func create(_ blob: NewBlob) async throws(UploadError) {
        guard let partSize = settings.partSize(for: blob.length) else {
            let limit = Int64(settings.maximumParts) * S3Settings.largestPart
            throw UploadError(.tooLarge(limit: limit), "The store does not accept objects of this size.")
        }
        try await create(blob, partSize: partSize)
    }

    /// The same, with parts of this size; 0 if clients decide about parts.
    func create(_ blob: NewBlob, partSize: Int64) async throws(UploadError) {
        let bucket = blob.bucket ?? settings.bucket
        guard bucket == settings.bucket || settings.otherBuckets.contains(bucket) else {
            throw UploadError(.invalidRequest, "This server does not use the bucket of this credential.")
        }
        let record = BlobRecord(
            id: blob.id,
            bucket: bucket,
            key: try key(for: blob),
            contentType: blob.contentType,
            partSize: partSize,
            createdAt: blob.createdAt
        )
        try await records.insert(record)
        pristine.withLock { pristine in
            // Blobs that are never completed are not removed from the set. Clearing it only costs an unnecessary
            // request later.
            if pristine.count >= Self.maximumPristine { pristine = [] }
            pristine.insert(blob.id)
        }
    }

    static let maximumPristine = 10_000

    /// The key that the app wants, if it is valid; otherwise a key from the template.
    private func key(for blob: NewBlob) throws(UploadError) -> String {
        guard let key = blob.key else { return settings.keys.key(for: blob) }
        let segments = key.split(separator: "/", omittingEmptySubsequences: false)
        let isClean = !segments.contains { $0.isEmpty || $0 == "." || $0 == ".." }
        guard isClean, key.utf8.count <= 1024, !key.hasPrefix(settings.tailPrefix), key != markKey,
            !key.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F })
        else {
            throw UploadError(.rejected, "The app gave this upload a key that is not a valid object key.")
        }
        return key
    }

    package func durableLength(of id: UploadID) async throws(UploadError) -> Int64 { try await record(of: id).length }

    package func currentLength(of id: UploadID) async throws(UploadError) -> Int64 {
        let length = try await record(of: id).length
        return max(length, active.withLock { $0[id] } ?? 0)
    }

    package func currentLengths(of ids: [UploadID]) async throws(UploadError) -> [UploadID: Int64] {
        let found = try await records.blobs(ids)
        return active.withLock { active in
            Dictionary(uniqueKeysWithValues: found.map { ($0.id, max($0.length, active[$0.id] ?? 0)) })
        }
    }

    package func recordedDigests(of id: UploadID) async throws(UploadError) -> DigestValues {
        guard let crc = try await record(of: id).crc32c else { return [:] }
        return [.crc32c: CRC32C.bytes(of: crc)]
    }

    package func check() async throws(UploadError) {
        try await convertingFailures { () async throws(S3Failure) in try await client.checkBucket(settings.bucket) }
    }

    package func list(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID] {
        try await records.blobs(after: after, limit: limit)
    }

    // MARK: Tidying up

    /// Runs `work` in the background; the sweep finds what it fails to remove.
    func inBackground(_ work: @escaping @Sendable () async -> Void) {
        backgroundTasks.withLock { backgroundTasks in
            backgroundTasks.last += 1
            let number = backgroundTasks.last
            backgroundTasks.tasks[number] = Task {
                await work()
                self.backgroundTasks.withLock { _ = $0.tasks.removeValue(forKey: number) }
            }
        }
    }

    /// Waits for background clean-up, at the end of the process.
    ///
    /// - Parameter limit: Maximum waiting time.
    package func finish(within limit: Duration) async {
        let running = backgroundTasks.withLock { Array($0.tasks.values) }
        let timer = Task {
            try? await Task.sleep(for: limit)
            if !Task.isCancelled { for task in running { task.cancel() } }
        }
        for task in running { await task.value }
        timer.cancel()
    }

    // MARK: Reading

    package func digests(
        of id: UploadID,
        by algorithms: Set<DigestAlgorithm>
    ) async throws(UploadError) -> DigestValues {
        let record = try await wholeRecord(of: id)
        let running = StreamDigests(algorithms, on: spool.pool)
        let source = try await S3Blob(record, self).bytes(0..<record.length)
        do throws(SourceFailure) {
            var left = record.length
            while let piece = try await source.next(maximum: 256 << 10) {
                left -= Int64(piece.count)
                await running.update(piece)
            }
            guard left == 0 else { throw SourceFailure.disconnected }
        } catch {
            throw UploadError(.unavailable, "The response of the store ended early; try again.", cause: error)
        }
        return Dictionary(uniqueKeysWithValues: algorithms.map { ($0, running.value($0) ?? []) })
    }

    package func head(of id: UploadID, length: Int) async throws(UploadError) -> [UInt8] {
        let record = try await wholeRecord(of: id)
        let count = min(Int64(length), record.length)
        let source = try await S3Blob(record, self).bytes(0..<count)
        do throws(SourceFailure) {
            return try await source.collect(limit: length)
        } catch {
            throw UploadError(.unavailable, "The response of the store ended early; try again.", cause: error)
        }
    }

    package func open(_ id: UploadID) async throws(UploadError) -> StoredBlob {
        let record = try await wholeRecord(of: id)
        return StoredBlob(content: .remote(S3Blob(record, self)), size: record.length)
    }

    package func bytes(of id: UploadID, _ range: Range<Int64>) async throws(UploadError) -> any ByteSource {
        try await S3Blob(try await wholeRecord(of: id), self).bytes(range)
    }

    // MARK: Steps

    func record(of id: UploadID) async throws(UploadError) -> BlobRecord {
        guard let record = try await records.blob(id) else {
            throw UploadError(.notFound, "There is no such blob.")
        }
        return record
    }

    private func wholeRecord(of id: UploadID) async throws(UploadError) -> BlobRecord {
        let record = try await record(of: id)
        guard record.state == .complete else {
            throw UploadError(.storageFailure, "The blob is not complete.")
        }
        return record
    }

    func convertingFailures<Success>(_ body: () async throws(S3Failure) -> Success) async throws(UploadError) -> Success
    {
        do throws(S3Failure) { return try await body() } catch { throw error.uploadError }
    }

    /// Headers of the object that a blob becomes.
    func objectHeaders(_ record: BlobRecord) -> [SigningField] {
        var headers = [SigningField(S3Client.ownerHeader, record.id.text)]
        if let type = record.contentType, type.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) {
            headers.append(SigningField("content-type", type))
        }
        if let storageClass = settings.storageClass {
            headers.append(SigningField("x-amz-storage-class", storageClass))
        }
        return headers
    }
}

/// The object that a blob has become.
struct S3Blob: RemoteBlob {
    private let record: BlobRecord
    private let storage: S3Storage

    init(_ record: BlobRecord, _ storage: S3Storage) {
        self.record = record
        self.storage = storage
    }

    func bytes(_ range: Range<Int64>) async throws(UploadError) -> any ByteSource {
        if range.isEmpty { return ArraySource([]) }
        let client = storage.client
        do throws(S3Failure) {
            do throws(S3Failure) {
                return try await client.get(record.key, in: record.bucket, range, matching: record.entityTag)
            } catch  where error.status == 412 {
                // The store told another tag than the object has, or has made a new one, for example of a copy.
                guard let head = try await client.head(record.key, in: record.bucket), head.upload == record.id.text,
                    head.size == record.length
                else { throw error }
                return try await client.get(record.key, in: record.bucket, range, matching: head.entityTag)
            }
        } catch {
            throw error.uploadError
        }
    }

    func link(contentType: String, disposition: String) async throws(UploadError) -> String? {
        guard let lifetime = storage.settings.redirectLifetime else { return nil }
        var request = S3Request(method: "GET", bucket: record.bucket, key: record.key)
        request.query = [
            SigningField("response-content-disposition", disposition),
            SigningField("response-content-type", contentType),
        ]
        let presigned = request
        return try await storage.convertingFailures { () async throws(S3Failure) in
            try await storage.client.presigned(presigned, lifetime: lifetime)
        }
    }
}
