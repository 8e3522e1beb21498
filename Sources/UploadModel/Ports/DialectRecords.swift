package import Foundation

/// Records of a dialect that are neither uploads nor media, such as sessions and used signatures.
///
/// See docs/decisions/0050-records-of-dialects.md.
package protocol DialectRecords: Sendable {
    /// Inserts a record with version 1 unless there is one of this kind and key that has not expired at `now`; an expired
    /// one is replaced.
    ///
    /// Of concurrent calls with one kind and key, also of several nodes, exactly one inserts.
    ///
    /// - Returns: Whether it was inserted.
    /// - Throws: `.invalidRequest` for U+0000 in any text, or a key that is too long for a database; `.storageFull`,
    ///   `.unavailable`, `.storageFailure`.
    func insert(_ record: DialectRecord, at now: Date) async throws(UploadError) -> Bool

    /// Returns the record of this kind and key, also if it has expired, or `nil`.
    func record(_ kind: String, _ key: String) async throws(UploadError) -> DialectRecord?

    /// Replaces text and expiry if the stored version is still `record.version`; the new version is one higher.
    ///
    /// A record that was removed, or had expired, and was inserted anew has version 1 again.
    ///
    /// - Returns: Whether it was replaced; `false` if it was changed or removed meanwhile.
    /// - Throws: As `insert`.
    func replace(_ record: DialectRecord) async throws(UploadError) -> Bool

    /// Removes a record if there is one.
    ///
    /// - Returns: Whether there was one.
    func removeRecord(_ kind: String, _ key: String) async throws(UploadError) -> Bool

    /// A page of records of one kind, expired ones too, ordered by the bytes of their keys.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - prefix: Only keys that begin with these bytes.
    ///   - after: Only keys after this one; `nil` to start at the first. It need not be the key of a record.
    ///   - limit: Maximum number of records.
    /// - Returns: The records; fewer than `limit` at the end.
    /// - Throws: `.unavailable`, `.storageFailure`.
    func records(
        _ kind: String,
        prefix: String,
        after: String?,
        limit: Int
    ) async throws(UploadError) -> [DialectRecord]

    /// Removes all records that expired before `date`.
    ///
    /// Takes a transaction for each thousand rows or so, so that nothing waits long for it; the next call continues
    /// where an interrupted one stopped.
    func forgetRecords(expiredBefore date: Date) async throws(UploadError)
}
