package import Foundation

/// Reservations of open uploads in their accounts.
package protocol SpaceReservations: Sendable {
    /// Sets the length of an open upload that has none, and reserves as many bytes.
    ///
    /// - Returns: `false`, with nothing changed, if the upload is not open or already has a length.
    /// - Throws: `.quotaExceeded`, `.storageFull`, `.storageFailure`.
    func setLength(
        of id: UploadID,
        to length: Int64,
        updatedAt: Date,
        under effectiveLimits: EffectiveLimits
    ) async throws(UploadError) -> Bool

    /// Sets the reservation of an open upload to `bytes`, more or fewer than before.
    ///
    /// - Returns: `false`, with nothing changed, if the upload is not open.
    /// - Throws: `.quotaExceeded`, `.storageFull`, `.storageFailure`.
    func reserve(_ bytes: Int64, for id: UploadID, under effectiveLimits: EffectiveLimits) async throws(UploadError)
        -> Bool
}
