/// What names a pair of state and storage that belong together; both have it.
package struct StoreMark: Sendable, Equatable, Codable {
    /// 32 hexadecimal digits, random, the same for ever.
    package let id: String
    /// Grows while the pair is used, in the state first.
    ///
    /// A storage that has seen a later one than the state has tells that the state is an older copy. 0 until both have the mark.
    package var epoch: Int64

    package init(id: String, epoch: Int64) {
        self.id = id
        self.epoch = epoch
    }
}

/// Where a state keeps the mark of its storage.
///
/// Each call is one transaction that survives a power cut whatever the settings, with everything that was recorded before it.
package protocol StoreMarks: Sendable {
    /// `nil` if it has none yet.
    func storeMark() async throws(UploadError) -> StoreMark?

    /// Records a mark, unless there is one.
    ///
    /// - Returns: The one that is recorded.
    func ensureStoreMark(_ mark: StoreMark) async throws(UploadError) -> StoreMark

    /// Makes the epoch one more.
    ///
    /// - Returns: The mark that is recorded.
    /// - Throws: `.storageFailure`, also when there is none.
    func advanceStoreMark() async throws(UploadError) -> StoreMark

    /// Records a mark in place of any other, and that the next sweep may take as many blobs as it wants.
    func replaceStoreMark(_ mark: StoreMark) async throws(UploadError)

    /// Uses up what `replaceStoreMark` allowed.
    ///
    /// - Returns: Whether it was allowed.
    func takeSweepApproval() async throws(UploadError) -> Bool
}

/// A storage that can be told from others, and tell what it has without records.
package protocol MarkedStorage: BlobStorage {
    /// `nil` if it has none yet.
    ///
    /// - Throws: `.storageFailure`, also for one that cannot be read; `.unavailable`.
    func storedMark() async throws(UploadError) -> StoreMark?

    /// Writes a mark in place of any other; it survives a power cut.
    func storeMark(_ mark: StoreMark) async throws(UploadError)

    /// Whether it has bytes of any upload, as far as it can tell that without records.
    func hasBlobs() async throws(UploadError) -> Bool

    /// Calls `body` with everything that it finds of uploads, in an order of its own.
    ///
    /// - Throws: What `body` throws; `.storageFailure`, `.unavailable`.
    func findBlobs(_ body: (FoundBlob) async throws(UploadError) -> Void) async throws(UploadError)

    /// Makes a blob that was found one that the other calls know, if it is not.
    func adopt(_ blob: FoundBlob) async throws(UploadError)
}

/// What a storage finds of an upload without its record.
package struct FoundBlob: Sendable, Equatable {
    package enum Content: Sendable, Equatable {
        /// Bytes one behind the other, which as far as can be told are all.
        case whole
        /// Of an upload that was not complete, and can go on.
        case open
        /// Of one that cannot go on without its record.
        case pieces
    }

    package let id: UploadID
    package var content: Content
    /// Bytes.
    package var size: Int64
    package var contentType: String?
    /// Where a store has it, and its entity tag.
    package var object: (ObjectName, entityTag: String)?

    package init(
        _ id: UploadID,
        _ content: Content,
        size: Int64,
        contentType: String? = nil,
        object: (ObjectName, entityTag: String)? = nil
    ) {
        self.id = id
        self.content = content
        self.size = size
        self.contentType = contentType
        self.object = object
    }

    package static func == (one: FoundBlob, other: FoundBlob) -> Bool {
        one.id == other.id && one.content == other.content && one.size == other.size
            && one.contentType == other.contentType && one.object?.0 == other.object?.0
            && one.object?.entityTag == other.object?.entityTag
    }
}
