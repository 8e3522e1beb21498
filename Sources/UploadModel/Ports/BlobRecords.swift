package import Foundation

/// Where a storage keeps facts about its blobs that its object store cannot return, or only at a higher price.
///
/// Each call is one transaction, durable when it returns. May be called from any loop.
package protocol BlobRecords: Sendable {
    /// Records a new blob with version 1; `record.version` is ignored.
    ///
    /// - Throws: `.storageFailure`, also when the id is already recorded.
    func insert(_ record: BlobRecord) async throws(UploadError)

    func blob(_ id: UploadID) async throws(UploadError) -> BlobRecord?

    /// Those of the blobs that are recorded, each once, in any order.
    func blobs(_ ids: [UploadID]) async throws(UploadError) -> [BlobRecord]

    /// The parts of a blob, ordered by number; empty if there is no such blob.
    func parts(of id: UploadID) async throws(UploadError) -> [BlobPart]

    /// Replaces a record, and its parts from a given number on.
    ///
    /// - Parameters:
    ///   - record: Carries the version with which it was read.
    ///   - parts: Added; a part replaces one with the same number.
    ///   - first: Parts with this number or a higher one are removed first; `nil` removes none.
    /// - Returns: The new version, which is one higher.
    /// - Throws: `.interrupted`, with nothing changed, if the record was changed or removed since it was read;
    ///   `.storageFull`, `.storageFailure`.
    func update(
        _ record: BlobRecord,
        adding parts: [BlobPart],
        droppingFrom first: Int?
    ) async throws(UploadError) -> Int64

    /// Removes the record of a blob and its parts, if it exists.
    func forgetBlob(_ id: UploadID) async throws(UploadError)

    /// Up to `limit` ids of blobs in ascending order, starting after `after`.
    func blobs(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID]

    /// Up to `limit` ids of blobs whose completion was started but is not yet recorded.
    func completingBlobs(limit: Int) async throws(UploadError) -> [UploadID]
}

/// What is recorded about a blob in an object store.
package struct BlobRecord: Sendable, Equatable {
    package enum State: String, Sendable, CaseIterable {
        /// Accepts more bytes.
        case open
        /// The store was asked to assemble the object from its parts, or is about to be.
        case completing
        /// One object holds all bytes.
        case complete
    }

    package let id: UploadID
    /// Changes with each `BlobRecords.update`.
    package var version: Int64
    package var state: State
    package var bucket: String
    /// The key of the object that it becomes.
    package var key: String
    package var contentType: String?
    /// Size in bytes of every part except the last; 0 where clients choose the parts.
    package var partSize: Int64
    /// The store's id of the multipart upload; `nil` before there is one, and if all bytes went into a single object.
    package var multipart: String?
    /// Whether a multipart upload may have been created whose id is unknown.
    package var isBeginning: Bool
    /// Number of parts.
    package var partCount: Int
    /// Total size of the parts, in bytes.
    package var partBytes: Int64
    /// Objects that hold the bytes after the parts, in order.
    package var tails: [TailObject]
    /// CRC-32C of all bytes, if known.
    package var crc32c: UInt32?
    /// Entity tag of the complete object.
    package var entityTag: String?
    package var createdAt: Date

    package init(
        id: UploadID,
        version: Int64 = 1,
        state: State = .open,
        bucket: String,
        key: String,
        contentType: String?,
        partSize: Int64,
        createdAt: Date
    ) {
        self.id = id
        self.version = version
        self.state = state
        self.bucket = bucket
        self.key = key
        self.contentType = contentType
        self.partSize = partSize
        isBeginning = false
        partCount = 0
        partBytes = 0
        tails = []
        crc32c = 0
        self.createdAt = createdAt
    }

    /// Bytes after the parts.
    package var tailBytes: Int64 { tails.reduce(0) { $0 + $1.length } }

    /// All bytes of the blob.
    package var length: Int64 { partBytes + tailBytes }
}

/// Bytes that do not fill a part yet, stored in an immutable object of their own.
package struct TailObject: Sendable, Equatable, Codable {
    package var key: String
    /// Bytes.
    package var length: Int64
    /// 16 bytes.
    package var md5: [UInt8]

    package init(key: String, length: Int64, md5: [UInt8]) {
        self.key = key
        self.length = length
        self.md5 = md5
    }
}

/// A part of a multipart upload that the store has confirmed.
package struct BlobPart: Sendable, Equatable {
    /// 1 to 10,000.
    package var number: Int
    /// Bytes.
    package var size: Int64
    package var entityTag: String

    package init(number: Int, size: Int64, entityTag: String) {
        self.number = number
        self.size = size
        self.entityTag = entityTag
    }
}

extension BlobRecord {
    /// The error when a blob was changed or removed since the caller read it.
    package static var wasChanged: UploadError {
        UploadError(
            .interrupted,
            "Another request has changed this upload; ask for its offset and continue from there."
        )
    }
}
