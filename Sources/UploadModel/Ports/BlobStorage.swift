package import Bytes
package import Digests
package import Foundation
package import SystemIO

/// Where bytes are stored: one blob per upload, under the upload's id.
///
/// The caller guarantees one writer per blob (`LeaseTable`). All methods may be called from any loop; implementations
/// do slow work elsewhere.
package protocol BlobStorage: Sendable {
    /// Creates an empty blob that survives a crash.
    ///
    /// - Throws: `.tooLarge` if the storage cannot hold a blob of this size, `.storageFull`, `.storageFailure`.
    func create(_ blob: NewBlob) async throws(UploadError)

    /// The number of bytes that survive a crash; unverified bytes are removed first.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    func durableLength(of id: UploadID) async throws(UploadError) -> Int64

    /// The current length, durable or not; read-only, so it is safe while a writer runs.
    func currentLength(of id: UploadID) async throws(UploadError) -> Int64

    /// The current lengths of several blobs, for lists; costs one call for all.
    ///
    /// - Returns: Nothing for a blob that is missing or cannot be read: `currentLength` tells why.
    /// - Throws: `.unavailable`, `.storageFailure` if no blob can be read.
    func currentLengths(of ids: [UploadID]) async throws(UploadError) -> [UploadID: Int64]

    /// The current length of a blob, and when it last changed; costs what `currentLength` costs.
    func progress(of id: UploadID) async throws(UploadError) -> BlobProgress

    /// The same for several blobs; costs what `currentLengths` costs.
    func progress(of ids: [UploadID]) async throws(UploadError) -> [UploadID: BlobProgress]

    /// Appends the bytes of `source`.
    ///
    /// - Parameters:
    ///   - id: The blob.
    ///   - offset: The blob's length; any other value is `.offsetMismatch`.
    ///   - source: Pulled until it ends, fails or reaches the limit.
    ///   - limit: Maximum number of bytes to take; the source keeps the rest.
    ///   - total: Final length of the blob in bytes, if known.
    ///   - digest: The expected digest of all appended bytes; if it does not match, or the source fails or does not
    ///     provide it, nothing is appended.
    ///   - confirming: Called during the append with the length that is already durable, if the append makes bytes
    ///     durable before its end: see `isDurableAtEndOnly`.
    /// - Returns: What was stored and why it ended. Never throws, because bytes may be stored although something
    ///   failed.
    func append(
        to id: UploadID,
        at offset: Int64,
        from source: any ByteSource,
        limit: Int64,
        of total: Int64?,
        expecting digest: DigestExpectation?,
        confirming: ((Int64) async -> Void)?
    ) async -> AppendReport

    /// Whether an append makes its bytes durable only when it ends; to confirm progress, the caller must then split it
    /// into several appends.
    var isDurableAtEndOnly: Bool { get }

    /// Whether a blob may be lost while its record survives, because the settings disable syncing.
    var mayLoseBlobs: Bool { get }

    /// Appends bytes of another blob, without passing them through this process where the storage can do that.
    ///
    /// - Parameters:
    ///   - range: A range of the other blob, which has all of these bytes.
    ///   - source: The other blob; already synchronised.
    ///   - id: The blob.
    ///   - offset: The blob's length; any other value is `.offsetMismatch`.
    /// - Throws: `.notFound`, `.offsetMismatch`, `.storageFull`, `.storageFailure`; some bytes may have been appended.
    func copy(_ range: Range<Int64>, of source: UploadID, to id: UploadID, at offset: Int64) async throws(UploadError)

    /// Hashes all bytes of a synchronised blob; takes as long as reading it.
    ///
    /// - Returns: One digest for each of `algorithms`.
    /// - Throws: `.notFound`, `.storageFailure`.
    func digests(of id: UploadID, by algorithms: Set<DigestAlgorithm>) async throws(UploadError) -> DigestValues

    /// Digests of the whole blob that are known without reading it.
    func recordedDigests(of id: UploadID) async throws(UploadError) -> DigestValues

    /// Removes all bytes of a blob, so that it is as after `create`; a crash leaves either all or none of them.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    func empty(_ id: UploadID) async throws(UploadError)

    /// Makes all bytes of a blob durable (unless the settings say `none`) and readable; called before a completion is
    /// recorded, and no bytes are appended afterwards.
    ///
    /// - Throws: `.notFound`; `.finishing` if it takes longer than a client should wait, and continues in the
    ///   background; `.unavailable` if bytes turn out to be lost, which leaves the blob shorter; `.storageFull`,
    ///   `.storageFailure`.
    func synchronize(_ id: UploadID) async throws(UploadError)

    /// The first `length` bytes of a synchronised blob, or all if it has fewer.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    func head(of id: UploadID, length: Int) async throws(UploadError) -> [UInt8]

    /// Opens a synchronised blob for reading.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    func open(_ id: UploadID) async throws(UploadError) -> StoredBlob

    /// A source of bytes of a synchronised blob, for callers that process them; they stay readable after the blob is
    /// removed.
    ///
    /// - Throws: `.notFound`, `.unavailable`, `.storageFailure`.
    func bytes(of id: UploadID, _ range: Range<Int64>) async throws(UploadError) -> any ByteSource

    /// Removes a blob permanently, if it exists.
    ///
    /// - Throws: `.finishing` while `synchronize` is still running for it, and the caller must try again;
    ///   `.unavailable`, `.storageFailure`.
    func remove(_ id: UploadID) async throws(UploadError)

    /// One page of all blobs, used to find orphans.
    ///
    /// The order is up to the storage, but stable: the next page starts after the last id of the previous one, even if
    /// that blob was removed meanwhile. An empty page is the end.
    ///
    /// - Parameters:
    ///   - after: The last id of the previous page; `nil` for the first page.
    ///   - limit: Maximum number of ids; at least 1.
    /// - Returns: At most `limit` ids.
    /// - Throws: `.storageFailure`.
    func list(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID]

    /// Removes leftovers of failed or aborted requests that belong to no blob.
    ///
    /// - Parameters:
    ///   - date: Anything younger is kept: it may belong to a running request.
    ///   - unknown: The same limit for leftovers of blobs that were never recorded, or whose records were lost.
    /// - Returns: The number of leftovers removed.
    /// - Throws: `.storageFailure`.
    func removeLeftovers(from date: Date, ofUnknownFrom unknown: Date) async throws(UploadError) -> Int

    /// Whether `setAside` keeps a blob instead of removing it.
    var keepsOrphans: Bool { get }

    /// Sets aside a blob that has no record, and keeps all of it until `removeOrphans(setAsideBefore:)`; without
    /// `keepsOrphans`, removes it.
    ///
    /// - Parameters:
    ///   - orphan: The blob; ignored if it does not exist.
    ///   - now: The blob is kept under this day.
    /// - Throws: `.storageFull`, `.storageFailure`; part of it may have been moved, and the next sweep finds the rest.
    func setAside(_ orphan: UploadID, at now: Date) async throws(UploadError)

    /// Removes what was set aside on days before that of `date`.
    ///
    /// - Returns: The number of blobs removed.
    func removeOrphans(setAsideBefore date: Date) async throws(UploadError) -> Int

    /// Checks that writing works now; used for readiness.
    func check() async throws(UploadError)

    /// The interface for blobs that are stored whole; `nil` if the storage gains nothing by that.
    var wholeStorage: (any WholeBlobStorage)? { get }

    /// The interface for small contents that are appended at once; `nil` if the storage gains nothing by that.
    var smallAppendStorage: (any SmallAppendStorage)? { get }

    /// The interface for blobs that are uploaded in parts; `nil` if the storage does not support them.
    var partStorage: (any PartStorage)? { get }
}

extension BlobStorage {
    package var mayLoseBlobs: Bool { false }

    package var wholeStorage: (any WholeBlobStorage)? { nil }

    package var smallAppendStorage: (any SmallAppendStorage)? { nil }

    package var partStorage: (any PartStorage)? { nil }
}

/// Stores small blobs in one step.
package protocol WholeBlobStorage: Sendable {
    /// Creates a blob that has all its bytes; they are as durable and readable as after `BlobStorage.synchronize`.
    ///
    /// - Throws: `.tooLarge`, `.storageFull`, `.storageFailure`; nothing of the blob remains.
    func create(_ blob: NewBlob, with content: [UInt8]) async throws(UploadError)
}

/// Appends small contents in one step.
package protocol SmallAppendStorage: Sendable {
    /// Appends bytes that have all arrived.
    ///
    /// - Parameters:
    ///   - content: At least one byte.
    ///   - id: The blob.
    ///   - offset: The blob's length; any other value is `.offsetMismatch`, with nothing changed.
    ///   - isLast: Whether these are the blob's last bytes, so that it is best synchronised in the same step.
    /// - Returns: What was stored, as of `BlobStorage.append`.
    func append(_ content: [UInt8], to id: UploadID, at offset: Int64, isLast: Bool) async -> AppendReport
}

/// Describes a blob to create.
package struct NewBlob: Sendable, Equatable {
    package let id: UploadID
    /// See `Grant.bucket`.
    package var bucket: String?
    /// See `Upload.key`.
    package var key: String?
    package var subject: String?
    package var contentType: String?
    package var filename: String?
    /// Length in bytes, if known.
    package var length: Int64?
    package var createdAt: Date

    package init(_ id: UploadID, createdAt: Date) {
        self.id = id
        self.createdAt = createdAt
    }

    package init(of upload: Upload) {
        self.init(upload.id, createdAt: upload.createdAt)
        // Objects get generated keys, because an object can be replaced while its bytes are read.
        key = upload.bucket == nil ? upload.key : nil
        subject = upload.subject
        contentType = upload.metadata.contentType
        filename = upload.metadata.filename
        length = upload.length
    }
}

/// The result of `BlobStorage.append`.
package struct AppendReport: Sendable {
    package enum End: Sendable {
        /// The source ended.
        case endOfSource
        /// `limit` bytes were taken.
        case limitReached
        case sourceFailed(SourceFailure)
        case failed(UploadError)
    }

    /// Bytes that were appended and are as durable as the settings require.
    package var stored: Int64
    package var end: End
    /// Whether the blob is as after `BlobStorage.synchronize`.
    package var isSynchronized: Bool

    package init(stored: Int64, end: End, isSynchronized: Bool = false) {
        self.stored = stored
        self.end = end
        self.isSynchronized = isSynchronized
    }
}

/// A blob opened for reading.
package struct StoredBlob: Sendable {
    package enum Content: Sendable {
        case file(OpenFile)
        case remote(any RemoteBlob)
    }

    package let content: Content
    /// Bytes.
    package let size: Int64

    package init(content: Content, size: Int64) {
        self.content = content
        self.size = size
    }
}

/// A blob whose bytes are on another machine.
package protocol RemoteBlob: Sendable {
    /// Streams a range of the blob.
    ///
    /// - Throws: `.notFound`, `.unavailable`, `.storageFailure`.
    func bytes(_ range: Range<Int64>) async throws(UploadError) -> any ByteSource

    /// A URL at which anyone can read the blob for some minutes; `nil` if links are turned off.
    ///
    /// - Parameters:
    ///   - contentType: The Content-Type of the response.
    ///   - disposition: The Content-Disposition of the response: name and use (RFC 6266).
    /// - Returns: The URL.
    /// - Throws: `.unavailable`, `.storageFailure`.
    func link(contentType: String, disposition: String) async throws(UploadError) -> String?
}

/// A digest that a client announced for the bytes it sends.
package struct ExpectedDigest: Sendable, Equatable {
    package let algorithm: DigestAlgorithm
    package let value: [UInt8]

    package init(algorithm: DigestAlgorithm, value: [UInt8]) {
        self.algorithm = algorithm
        self.value = value
    }
}

/// The expected digest of appended bytes, and when it becomes known.
package enum DigestExpectation {
    case known(ExpectedDigest)
    /// The source provides it at its end, as trailer fields do; called once, after the last byte.
    case atEnd(() throws(UploadError) -> ExpectedDigest)

    /// The digest, once the last byte has arrived.
    package func value() throws(UploadError) -> ExpectedDigest {
        switch self {
        case .known(let digest): digest
        case .atEnd(let value): try value()
        }
    }
}

/// When stored bytes are forced to stable storage.
package enum Durability: String, Sendable, CaseIterable {
    /// Before every acknowledgement.
    case acknowledged
    /// Before a completion is acknowledged.
    case completed
    /// Never: the kernel writes them when it wants. Still safe against `kill -9` of the process.
    case none
}

extension BlobStorage {
    package var keepsOrphans: Bool { false }

    package func setAside(_ orphan: UploadID, at now: Date) async throws(UploadError) { try await remove(orphan) }

    package func removeOrphans(setAsideBefore date: Date) async throws(UploadError) -> Int { 0 }
}

/// How much of a blob is there, durable or not.
package struct BlobProgress: Sendable, Equatable {
    /// In bytes.
    package let length: Int64
    /// When bytes were last written; `nil` if the storage does not know it.
    package let changedAt: Date?

    package init(length: Int64, changedAt: Date? = nil) {
        self.length = length
        self.changedAt = changedAt
    }
}

/// For storages that do not know when bytes were written.
extension BlobStorage {
    package func progress(of id: UploadID) async throws(UploadError) -> BlobProgress {
        BlobProgress(length: try await currentLength(of: id))
    }

    package func progress(of ids: [UploadID]) async throws(UploadError) -> [UploadID: BlobProgress] {
        try await currentLengths(of: ids).mapValues { BlobProgress(length: $0) }
    }
}
