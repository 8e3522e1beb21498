/// Identifies a state and a storage that belong together; both hold a copy.
package struct StoreMark: Sendable, Equatable, Codable {
    /// 32 random hexadecimal digits that never change.
    package let id: String
    /// Grows while the pair is used, in the state first.
    ///
    /// If the storage has seen a later epoch than the state has, the state is an older copy. 0 until both have the
    /// mark.
    package var epoch: Int64

    package init(id: String, epoch: Int64) {
        self.id = id
        self.epoch = epoch
    }
}

/// Where a state keeps its mark.
///
/// Each call is one transaction that survives a power cut whatever the settings, with everything recorded before it.
package protocol StoreMarks: Sendable {
    /// The recorded mark, or `nil` before the first.
    func storeMark() async throws(UploadError) -> StoreMark?

    /// Records a mark unless there is already one.
    ///
    /// - Returns: The recorded mark.
    func ensureStoreMark(_ mark: StoreMark) async throws(UploadError) -> StoreMark

    /// Increments the epoch.
    ///
    /// - Returns: The recorded mark.
    /// - Throws: `.storageFailure`, also when there is no mark.
    func advanceStoreMark() async throws(UploadError) -> StoreMark

    /// Replaces any mark, and lifts the limit on removed blobs for the next sweep.
    func replaceStoreMark(_ mark: StoreMark) async throws(UploadError)

    /// Consumes the approval that `replaceStoreMark` gave.
    ///
    /// - Returns: Whether there was an approval.
    func takeSweepApproval() async throws(UploadError) -> Bool
}

/// A storage that holds a mark and can list its content without records.
package protocol MarkedStorage: BlobStorage {
    /// The stored mark, or `nil` before the first.
    ///
    /// - Throws: `.storageFailure`, also for an unreadable mark; `.unavailable`.
    func storedMark() async throws(UploadError) -> StoreMark?

    /// Replaces any mark; the new one survives a power cut.
    func storeMark(_ mark: StoreMark) async throws(UploadError)

    /// Whether it holds bytes of any upload, as far as it can detect without records.
    func hasBlobs() async throws(UploadError) -> Bool

    /// Calls `body` for every blob that it finds, in any order.
    ///
    /// - Throws: What `body` throws; `.storageFailure`, `.unavailable`.
    func findBlobs(_ body: (FoundBlob) async throws(UploadError) -> Void) async throws(UploadError)

    /// Turns a found blob into one that the other methods accept, if it is not one already.
    func adopt(_ blob: FoundBlob) async throws(UploadError)
}

/// An upload's bytes, found in a storage without a record.
package struct FoundBlob: Sendable, Equatable {
    package enum Content: Sendable, Equatable {
        /// Contiguous bytes that appear to be complete.
        case whole
        /// An incomplete upload that can be resumed.
        case open
        /// An upload that cannot be resumed without its record.
        case pieces
    }

    package let id: UploadID
    package var content: Content
    /// Bytes.
    package var size: Int64
    package var contentType: String?
    /// Its location in an object store, and its entity tag.
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
