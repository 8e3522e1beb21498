package import Foundation

/// API keys.
package protocol KeyRecords: Sendable {
    func insert(_ key: APIKey) async throws(UploadError)

    /// The key with this secret, or else the key that had it before its last rotation.
    func key(digest: [UInt8]) async throws(UploadError) -> APIKey?

    func key(id: String) async throws(UploadError) -> APIKey?

    func keys() async throws(UploadError) -> [APIKey]

    /// - Returns: `false` if there is no such key, or it is already revoked.
    func revokeKey(_ id: String, at now: Date) async throws(UploadError) -> Bool

    /// Gives a key another secret.
    ///
    /// - Parameters:
    ///   - id: The key; it must be usable at `now`, and not preset.
    ///   - digest: SHA-256 of the new secret.
    ///   - overlapEnd: The present secret is recorded as valid until then; `nil` ends it at once. A secret before it ends
    ///     in any case.
    ///   - now: The time.
    /// - Returns: The changed key; `nil` if there is no such key that can be rotated.
    /// - Throws: `.unavailable`, `.storageFull`, `.storageFailure`.
    func rotateKey(
        _ id: String,
        to digest: [UInt8],
        overlapEnd: Date?,
        at now: Date
    ) async throws(UploadError) -> APIKey?

    /// Records the last use of keys by their ids, where it is later than the recorded one; unknown ids are ignored.
    func recordUses(_ uses: [String: Date]) async throws(UploadError)
}
