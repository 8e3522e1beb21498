/// Objects: media in a bucket, with unique names.
///
/// Keys are ordered by their bytes. The cost of a page depends on its own size only, not on what precedes or follows
/// it.
package protocol ObjectRecords: Sendable {
    func object(_ name: ObjectName) async throws(UploadError) -> Media?

    /// A page of objects, ordered by key.
    func objects(_ query: ObjectQuery) async throws(UploadError) -> [ObjectSummary]
}

/// Which objects to list; like keys, the texts contain no U+0000.
package struct ObjectQuery: Sendable, Equatable {
    package var bucket: String
    /// Only keys with this prefix.
    package var prefix: String
    /// Only keys after this one; `nil` for all.
    package var after: String?
    /// At least 1.
    package var limit: Int

    package init(bucket: String, prefix: String = "", after: String? = nil, limit: Int) {
        self.bucket = bucket
        self.prefix = prefix
        self.after = after
        self.limit = limit
    }
}
