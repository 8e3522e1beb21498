package import Foundation

/// Records of a dialect that are neither uploads nor media, such as sessions and used signatures.
///
/// See docs/decisions/0050-records-of-dialects.md.
package protocol DialectRecords: Sendable {
    /// Makes all changes in one transaction, or none: of each record at most one.
    ///
    /// Of concurrent calls that insert, replace or remove one record, also of several nodes, exactly one changes it, and the
    /// others see that.
    ///
    /// - Returns: Whether the changes were made; `false` if one of them was refused, and nothing is changed.
    /// - Throws: `.invalidRequest` for U+0000 in any text, or a key that is too long for a database; `.storageFull`,
    ///   `.unavailable`, `.storageFailure`.
    func apply(_ changes: [DialectChange]) async throws(UploadError) -> Bool

    /// Returns the record of this kind and key, also if it has expired, or `nil`.
    func record(_ kind: String, _ key: String) async throws(UploadError) -> DialectRecord?

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

    /// A page of records with a term, expired ones too, in the order of their places.
    ///
    /// Records that a node of an earlier version wrote are not found, or in an earlier place, until they are written again;
    /// `recordsWithoutTerms` lists them.
    func records(_ query: DialectTermQuery) async throws(UploadError) -> [FoundRecord]

    /// The number of the records that `records` with this query lists, without reading them.
    func count(_ query: DialectTermQuery) async throws(UploadError) -> Int

    /// The first term of records of a kind, by its bytes; expired ones count, too.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - prefix: Only terms that begin with these bytes.
    ///   - after: Only terms after this one; `nil` to start at the first.
    /// - Returns: The term; `nil` if there is none.
    /// - Throws: `.unavailable`, `.storageFailure`.
    func term(of kind: String, prefix: String, after: String?) async throws(UploadError) -> String?

    /// A page of the records of a kind that were written by an earlier version, which knows no terms, in the order of their
    /// keys.
    func recordsWithoutTerms(_ kind: String, after: String?, limit: Int) async throws(UploadError) -> [DialectRecord]

    /// Removes all records that expired before `date`.
    ///
    /// Takes a transaction for each thousand rows or so, so that nothing waits long for it; the next call continues
    /// where an interrupted one stopped.
    func forgetRecords(expiredBefore date: Date) async throws(UploadError)
}

extension DialectRecords {
    /// Makes one change; see `DialectChange.insert`.
    ///
    /// - Returns: Whether it was inserted.
    /// - Throws: As `apply`.
    package func insert(_ record: DialectRecord, at now: Date) async throws(UploadError) -> Bool {
        try await apply([.insert(record, at: now)])
    }

    /// Makes one change; see `DialectChange.replace`.
    ///
    /// - Returns: Whether it was replaced; `false` if it was changed or removed meanwhile.
    /// - Throws: As `apply`.
    package func replace(_ record: DialectRecord) async throws(UploadError) -> Bool {
        try await apply([.replace(record)])
    }

    /// Removes a record if there is one.
    ///
    /// - Returns: Whether there was one.
    /// - Throws: As `apply`.
    package func removeRecord(_ kind: String, _ key: String) async throws(UploadError) -> Bool {
        try await apply([.remove(kind: kind, key: key, version: nil)])
    }
}
