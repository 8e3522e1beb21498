package import Foundation

/// Where the records of uploads, media, keys and used grants are kept.
///
/// Each call is one transaction that is durable when it returns. May be called from any loop.
package protocol StateStore: Sendable {
    // MARK: Uploads

    /// Records a new open upload; with `consuming`, also the use of that one-time grant, both or neither.
    ///
    /// - Throws: `.grantUsed` when the grant is recorded already; `.storageFull`, `.storageFailure`.
    func insert(_ upload: Upload, consuming grant: Grant?) async throws(UploadError)

    func upload(_ id: UploadID) async throws(UploadError) -> Upload?

    /// Newest first.
    func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload]

    /// Those of `ids` that are there.
    func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload]

    /// Open final uploads of which this partial upload is a part.
    func openFinals(of part: UploadID) async throws(UploadError) -> [UploadID]

    /// Turns an open upload into `media`, in one transaction.
    ///
    /// - Parameters:
    ///   - upload: As it is to be recorded: completed, with length, times and expiry.
    ///   - media: `nil` for a partial upload.
    /// - Returns: `false`, with nothing changed, if the upload is not open any more.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func complete(_ upload: Upload, as media: Media?) async throws(UploadError) -> Bool

    /// Ends an upload in `state` (`terminated` or `expired`) and removes its media.
    ///
    /// - Returns: `false`, with nothing changed, if it had ended in that way before.
    func end(_ id: UploadID, as state: Upload.State, at now: Date) async throws(UploadError) -> Bool

    /// Fixes the length of an open upload that has none.
    ///
    /// - Returns: `false`, with nothing changed, if it is not open or has a length.
    func setLength(of id: UploadID, to length: Int64, updatedAt: Date) async throws(UploadError) -> Bool

    func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError)

    /// Open and completed uploads whose expiry is not after `now`, at most `limit`.
    func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID]

    /// Forgets ended uploads (terminated, expired) and used grants that ended before `date`.
    func forgetEnded(before date: Date) async throws(UploadError)

    /// Those of `ids` whose bytes are needed: open or completed.
    func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID>

    // MARK: Media

    func media(_ id: UploadID) async throws(UploadError) -> Media?

    // MARK: Keys

    func insert(_ key: APIKey) async throws(UploadError)

    func key(digest: [UInt8]) async throws(UploadError) -> APIKey?

    func keys() async throws(UploadError) -> [APIKey]

    /// - Returns: `false` if there is no such key, or it was revoked before.
    func revokeKey(_ id: String, at now: Date) async throws(UploadError) -> Bool

    // MARK: Health

    func check() async throws(UploadError)
}

/// Which uploads to list.
package struct UploadQuery: Sendable, Equatable {
    package var state: Upload.State?
    package var subject: String?
    /// Only uploads older than this one: the last of the page before.
    package var before: UploadID?
    /// At least 1.
    package var limit: Int

    package init(state: Upload.State? = nil, subject: String? = nil, before: UploadID? = nil, limit: Int = 50) {
        self.state = state
        self.subject = subject
        self.before = before
        self.limit = limit
    }
}
