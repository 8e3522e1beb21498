/// Parts of uploads whose bytes arrive in parts.
///
/// Keys are ordered by their bytes. The cost of a page depends on its own size only, not on what precedes or follows
/// it.
package protocol PartRecords: Sendable {
    /// Records a part of an open upload; replaces one with the same number.
    ///
    /// - Returns: The replaced part, if any.
    /// - Throws: `.gone`, with nothing changed, if the upload is not open, takes no parts, or its completion was
    ///   started; `.storageFull`, `.storageFailure`.
    func putPart(_ part: PartRecord, of id: UploadID) async throws(UploadError) -> PartRecord?

    /// Parts with numbers greater than `number`, in ascending order; empty if there is no such upload.
    func objectParts(of id: UploadID, after number: Int, limit: Int) async throws(UploadError) -> [PartRecord]

    /// An upload together with its part of a number; `nil` if there is no such upload.
    ///
    /// If the upload is open, the part is at least as recent as it.
    func upload(_ id: UploadID, withPart number: Int) async throws(UploadError) -> (Upload, PartRecord?)?

    /// Whether other processes can record parts of the same uploads, so that no process knows all of them.
    var sharesParts: Bool { get }

    /// A part, if it exists.
    func objectPart(_ number: Int, of id: UploadID) async throws(UploadError) -> PartRecord?

    /// Total size of all parts in bytes; reads the record of each.
    func partBytes(of id: UploadID) async throws(UploadError) -> Int64

    /// The same for several uploads; nothing for an upload without parts.
    func partBytes(of ids: [UploadID]) async throws(UploadError) -> [UploadID: Int64]

    /// Open uploads that take parts, ordered by key, then by id.
    func partUploads(_ query: PartUploadQuery) async throws(UploadError) -> [Upload]
}

extension PartRecords {
    package var sharesParts: Bool { true }
}

extension PartRecords where Self: UploadRecords {
    package func upload(_ id: UploadID, withPart number: Int) async throws(UploadError) -> (Upload, PartRecord?)? {
        guard let upload = try await upload(id) else { return nil }
        return (upload, try await objectPart(number, of: id))
    }
}

/// Which open uploads that take parts to list; like keys, the texts contain no U+0000.
package struct PartUploadQuery: Sendable, Equatable {
    package var bucket: String
    /// Only keys with this prefix.
    package var prefix: String
    /// Only keys after this one and, if `afterID` is set, uploads of this key with a greater id; `nil` for all.
    package var after: String?
    package var afterID: UploadID?
    /// At least 1.
    package var limit: Int

    package init(
        bucket: String,
        prefix: String = "",
        after: String? = nil,
        afterID: UploadID? = nil,
        limit: Int
    ) {
        self.bucket = bucket
        self.prefix = prefix
        self.after = after
        self.afterID = afterID
        self.limit = limit
    }
}
