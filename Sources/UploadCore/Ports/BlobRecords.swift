package import Foundation

/// Where a storage keeps what it must know of its blobs and can not ask its store for, or not at that price.
///
/// Each call is one transaction that is durable when it returns. May be called from any loop.
package protocol BlobRecords: Sendable {
    /// Records a new blob, with version 1 whatever its own.
    ///
    /// - Throws: `.storageFailure`, also when there is one with this id.
    func insert(_ record: BlobRecord) async throws(UploadError)

    func blob(_ id: UploadID) async throws(UploadError) -> BlobRecord?

    /// The parts of a blob by their numbers; none if there is no such blob.
    func parts(of id: UploadID) async throws(UploadError) -> [BlobPart]

    /// Replaces a record and its parts from a number on.
    ///
    /// - Parameters:
    ///   - record: With the version that it was read with.
    ///   - parts: Added, in place of such with the same numbers.
    ///   - first: Parts with this number and above are removed before; `nil` for none.
    /// - Returns: The version that it has now: one more.
    /// - Throws: `.interrupted`, with nothing changed, when somebody else has changed or removed it since it was read;
    ///   `.storageFull`, `.storageFailure`.
    func update(
        _ record: BlobRecord,
        adding parts: [BlobPart],
        droppingFrom first: Int?
    ) async throws(UploadError) -> Int64

    /// Forgets a blob and its parts; one that is not there is no error.
    func forgetBlob(_ id: UploadID) async throws(UploadError)

    /// Ids of blobs in their order, those after `after`, at most `limit`.
    func blobs(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID]

    /// Ids of blobs whose completion has begun and is not recorded, at most `limit`.
    func completingBlobs(limit: Int) async throws(UploadError) -> [UploadID]
}

/// What is known of a blob that lives in an object store.
package struct BlobRecord: Sendable, Equatable {
    package enum State: String, Sendable, CaseIterable {
        /// Takes more bytes.
        case open
        /// The store was told to make one object of the parts, or is about to be.
        case completing
        /// One object has all the bytes.
        case complete
    }

    package let id: UploadID
    /// Changes with each `BlobRecords.update`.
    package var version: Int64
    package var state: State
    package var bucket: String
    /// Of the object that it becomes.
    package var key: String
    package var contentType: String?
    /// Bytes of each part but the last one; 0 where clients make the parts.
    package var partSize: Int64
    /// The store's id of the multipart upload; `nil` before there is one, and when all bytes went into one object.
    package var multipart: String?
    /// Whether a multipart upload may have been begun whose id is not known.
    package var isBeginning: Bool
    /// How many parts there are.
    package var partCount: Int
    /// Bytes in the parts.
    package var partBytes: Int64
    /// Objects with the bytes behind the parts, in their order.
    package var sides: [SideObject]
    /// CRC-32C of all its bytes, if it is known.
    package var crc32c: UInt32?
    /// Of the object, once it is complete.
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
        sides = []
        crc32c = 0
        self.createdAt = createdAt
    }

    /// Bytes behind the parts.
    package var sideBytes: Int64 { sides.reduce(0) { $0 + $1.length } }

    /// All bytes of the blob.
    package var length: Int64 { partBytes + sideBytes }
}

/// Bytes that do not make a part yet, in an object of their own, which never changes.
package struct SideObject: Sendable, Equatable, Codable {
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
    /// Whoever wants to change a blob has read it before somebody else changed or removed it.
    package static var wasChanged: UploadError {
        UploadError(.interrupted, "Another request has changed this upload; ask for its offset and go on from there.")
    }
}
