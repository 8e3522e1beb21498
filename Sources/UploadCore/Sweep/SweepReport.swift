internal import UploadModel

/// The result of one `SweepService.run`.
package struct SweepReport: Sendable, Equatable {
    /// Uploads that were ended because they had expired.
    package var expired = 0
    /// Uploads with all bytes whose completion was not recorded before.
    package var completed = 0
    /// Removed blobs that no record needs: their end was recorded, or they were set aside long ago.
    package var orphansRemoved = 0
    /// Blobs that were set aside because they have no record.
    package var orphansSetAside = 0
    /// Blobs without a record that were left, because there are more than a crash would leave.
    package var orphansLeft = 0
    /// Failed steps; each was reported to the observer, and the next sweep tries again.
    package var failures = 0

    package init() {}
}
