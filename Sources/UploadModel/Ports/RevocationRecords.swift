package import Foundation

/// Revocations: of keys, and of everything issued to a user before a given time.
package protocol RevocationRecords: Sendable {
    /// Records a revocation; for each user, the latest `issuedBefore` is kept.
    ///
    /// - Throws: `.storageFull`, `.storageFailure`.
    func insert(_ revocation: Revocation) async throws(UploadError)

    /// Revocations made at this time or later; `.distantPast` returns all.
    ///
    /// Reads only the rows that it returns, so it is cheap enough to call every second.
    func revoked(since date: Date) async throws(UploadError) -> Revocations
}
