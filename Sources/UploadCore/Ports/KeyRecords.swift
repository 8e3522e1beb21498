package import Foundation

/// API keys.
package protocol KeyRecords: Sendable {
    func insert(_ key: APIKey) async throws(UploadError)

    func key(digest: [UInt8]) async throws(UploadError) -> APIKey?

    func key(id: String) async throws(UploadError) -> APIKey?

    func keys() async throws(UploadError) -> [APIKey]

    /// - Returns: `false` if there is no such key, or it is already revoked.
    func revokeKey(_ id: String, at now: Date) async throws(UploadError) -> Bool
}
