package import Foundation

/// What a sweep needs from a state: expired uploads, records to forget, and which bytes are still needed.
package protocol RetentionRecords: Sendable {
    /// Up to `limit` open and completed uploads that expire at or before `now`.
    func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID]

    /// Removes ended uploads (terminated, expired) and used grants that ended before `date`, and older events whose
    /// delivery is neither pending nor dead; and events older than `deadDate` whose delivery is dead.
    ///
    /// Takes a transaction for each thousand rows or so, so that nothing waits long for it; the next call continues
    /// where an interrupted one stopped.
    func forgetEnded(before date: Date, dead deadDate: Date) async throws(UploadError)

    /// The subset of `ids` whose bytes are needed: open or completed uploads.
    func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID>
}
