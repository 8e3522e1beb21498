package import Bytes
package import Digests
package import Foundation

/// Where bytes are kept: one blob an upload, under the upload's id.
///
/// The caller makes sure that a blob has one writer at a time (`LeaseTable`). Everything may be called from any loop:
/// an implementation does its slow work elsewhere.
package protocol BlobStorage: Sendable {
    /// Makes an empty blob that survives a crash.
    ///
    /// - Throws: `.tooLarge` for one that the storage can not hold, `.storageFull`, `.storageFailure`.
    func create(_ blob: NewBlob) async throws(UploadError)

    /// Bytes of the blob that survive a crash; bytes that were never verified are taken back first.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    func durableLength(of id: UploadID) async throws(UploadError) -> Int64

    /// Bytes of the blob now, durable or not; never touches the blob, so it is safe beside a writer.
    func currentLength(of id: UploadID) async throws(UploadError) -> Int64

    /// Appends what `source` brings.
    ///
    /// - Parameters:
    ///   - id: The blob.
    ///   - offset: The blob's length; fewer or more is `.offsetMismatch`.
    ///   - source: Pulled until its end, its failure or the limit.
    ///   - limit: Most bytes to take; what the source has beyond that is left in it.
    ///   - total: Bytes that the blob will have in the end, if that is known.
    ///   - digest: What all appended bytes must hash to; on a mismatch, or if the source fails or does not tell it, nothing
    ///     is appended.
    ///   - confirming: Called now and then with the length that is durable, if an append makes it so before its end: see
    ///     `isDurableAtEndOnly`.
    /// - Returns: How far it came. It throws nothing, because bytes may be stored although something failed.
    func append(
        to id: UploadID,
        at offset: Int64,
        from source: any ByteSource,
        limit: Int64,
        of total: Int64?,
        expecting digest: DigestExpectation?,
        confirming: ((Int64) async -> Void)?
    ) async -> AppendReport

    /// Whether an append makes its bytes durable at its end only, so that who wants to tell of them meanwhile must make
    /// several of it.
    var isDurableAtEndOnly: Bool { get }

    /// Whether a blob may be lost although its record is not, because the settings ask for no sync.
    var mayLoseBlobs: Bool { get }

    /// Appends bytes of another blob, without moving them through the process where that can be.
    ///
    /// - Parameters:
    ///   - range: Bytes of the other blob, all of which it has.
    ///   - source: The other blob, which was synchronised.
    ///   - id: The blob.
    ///   - offset: The blob's length; fewer or more is `.offsetMismatch`.
    /// - Throws: `.notFound`, `.offsetMismatch`, `.storageFull`, `.storageFailure`; some of the bytes may have been appended.
    func copy(_ range: Range<Int64>, of source: UploadID, to id: UploadID, at offset: Int64) async throws(UploadError)

    /// Hashes all bytes of a blob that was synchronised; takes as long as reading it.
    ///
    /// - Returns: The digest by each of `algorithms`.
    /// - Throws: `.notFound`, `.storageFailure`.
    func digests(of id: UploadID, by algorithms: Set<DigestAlgorithm>) async throws(UploadError) -> DigestValues

    /// Digests of all bytes of a blob that are known without reading it.
    func recordedDigests(of id: UploadID) async throws(UploadError) -> DigestValues

    /// Takes all bytes of a blob back, so that it is as after `create`; a crash leaves all of them or none.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    func empty(_ id: UploadID) async throws(UploadError)

    /// Makes all bytes of a blob durable, unless the settings say `none`, and readable; called before a completion is
    /// recorded, and no bytes are appended after it.
    ///
    /// - Throws: `.notFound`; `.finishing` when it takes longer than a client should wait, and goes on; `.unavailable` when
    ///   bytes turn out to be lost, and the blob is shorter then; `.storageFull`, `.storageFailure`.
    func synchronize(_ id: UploadID) async throws(UploadError)

    /// The first bytes of a blob that was synchronised; fewer than `length` if it has no more.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    func head(of id: UploadID, length: Int) async throws(UploadError) -> [UInt8]

    /// Opens a blob for reading that was synchronised.
    ///
    /// - Throws: `.notFound`, `.storageFailure`.
    func open(_ id: UploadID) async throws(UploadError) -> StoredBlob

    /// Bytes of a blob that was synchronised, for whoever wants them in memory; they stay readable when it is removed.
    ///
    /// - Throws: `.notFound`, `.unavailable`, `.storageFailure`.
    func bytes(of id: UploadID, _ range: Range<Int64>) async throws(UploadError) -> any ByteSource

    /// Removes a blob for good; one that is not there is no error.
    ///
    /// - Throws: `.finishing` while `synchronize` still goes on for it, and then it is to be removed again; `.unavailable`,
    ///   `.storageFailure`.
    func remove(_ id: UploadID) async throws(UploadError)

    /// A page of all blobs, for finding orphans.
    ///
    /// The order is the storage's own, but always the same: what comes after the last of one page is the next page,
    /// also when that blob was removed meanwhile. An empty page is the end.
    ///
    /// - Parameters:
    ///   - after: The last of the page before; `nil` for the first page.
    ///   - limit: Most blobs of a page; at least 1.
    /// - Returns: At most `limit` ids.
    /// - Throws: `.storageFailure`.
    func list(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID]

    /// Removes what failed or broken off requests have left and no blob owns.
    ///
    /// - Parameters:
    ///   - date: What is younger may be of a request that runs.
    ///   - unknown: As above, of blobs that were never recorded, or whose records were lost.
    /// - Returns: How much it was.
    /// - Throws: `.storageFailure`.
    func removeLeftovers(from date: Date, ofUnknownFrom unknown: Date) async throws(UploadError) -> Int

    /// Whether `setAside` keeps a blob.
    var keepsOrphans: Bool { get }

    /// Takes a blob away that no record knows, and keeps all of it until `removeOrphans(setAsideBefore:)`, where `keepsOrphans`;
    /// else removes it.
    ///
    /// - Parameters:
    ///   - orphan: One that is not there is no error.
    ///   - now: The day under which it is kept.
    /// - Throws: `.storageFull`, `.storageFailure`; some of it may have been moved, and the rest is found again.
    func setAside(_ orphan: UploadID, at now: Date) async throws(UploadError)

    /// Removes what was set aside on the days before that of `date`.
    ///
    /// - Returns: How many blobs.
    func removeOrphans(setAsideBefore date: Date) async throws(UploadError) -> Int

    /// Whether writing works now; for readiness.
    func check() async throws(UploadError)
}

extension BlobStorage {
    package var mayLoseBlobs: Bool { false }
}

/// What a storage is told of a blob that is to be made.
package struct NewBlob: Sendable, Equatable {
    package let id: UploadID
    /// See `Grant.bucket`.
    package var bucket: String?
    /// See `Upload.key`.
    package var key: String?
    package var subject: String?
    package var contentType: String?
    package var filename: String?
    /// Bytes, if that is known.
    package var length: Int64?
    package var createdAt: Date

    package init(_ id: UploadID, createdAt: Date) {
        self.id = id
        self.createdAt = createdAt
    }

    package init(of upload: Upload) {
        self.init(upload.id, createdAt: upload.createdAt)
        // The keys of objects are names of ours: one can be replaced while its bytes are read.
        key = upload.bucket == nil ? upload.key : nil
        subject = upload.subject
        contentType = upload.metadata.contentType
        filename = upload.metadata.filename
        length = upload.length
    }
}

/// What `BlobStorage.append` did.
package struct AppendReport: Sendable {
    package enum End: Sendable {
        /// The source had no more.
        case endOfSource
        /// `limit` bytes were taken.
        case limitReached
        case sourceFailed(SourceFailure)
        case failed(UploadError)
    }

    /// Bytes that were appended and are durable as the settings ask.
    package var stored: Int64
    package var end: End

    package init(stored: Int64, end: End) {
        self.stored = stored
        self.end = end
    }
}

/// A blob that is open for reading.
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

/// A blob whose bytes are not on this machine.
package protocol RemoteBlob: Sendable {
    /// Bytes of the blob as they come.
    ///
    /// - Throws: `.notFound`, `.unavailable`, `.storageFailure`.
    func bytes(_ range: Range<Int64>) async throws(UploadError) -> any ByteSource

    /// A URL at which whoever has it may read the blob for some minutes; `nil` if that is not wanted.
    ///
    /// - Parameters:
    ///   - contentType: What the answer shall say of the type.
    ///   - disposition: What the answer shall say of name and use (RFC 6266).
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

/// What appended bytes must hash to, and when that is known.
package enum DigestExpectation {
    case known(ExpectedDigest)
    /// The source tells it at its end, as trailer fields do; called once, after the last byte has come.
    case told(() throws(UploadError) -> ExpectedDigest)

    /// The digest, once the last byte has come.
    package func value() throws(UploadError) -> ExpectedDigest {
        switch self {
        case .known(let digest): digest
        case .told(let tell): try tell()
        }
    }
}

/// When stored bytes are forced to stable storage.
package enum Durability: String, Sendable, CaseIterable {
    /// Before every acknowledgement.
    case acknowledged
    /// Before a completion is acknowledged.
    case completed
    /// Never; the kernel does it in its time. Still safe against `kill -9` of the process.
    case none
}

extension BlobStorage {
    package var keepsOrphans: Bool { false }

    package func setAside(_ orphan: UploadID, at now: Date) async throws(UploadError) { try await remove(orphan) }

    package func removeOrphans(setAsideBefore date: Date) async throws(UploadError) -> Int { 0 }
}
