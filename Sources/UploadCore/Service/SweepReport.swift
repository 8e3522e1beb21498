/// What one `UploadService.sweep` did.
package struct SweepReport: Sendable, Equatable {
    /// Uploads that were ended because their time was over.
    package var expired = 0
    /// Uploads that had all their bytes and were recorded as complete only now.
    package var completed = 0
    /// Blobs that were removed because no record needs them: their end was recorded, or they were set aside long ago.
    package var orphansRemoved = 0
    /// Blobs that were set aside because there is no record of them.
    package var orphansSetAside = 0
    /// Blobs without a record that were left, because they are more than a crash leaves.
    package var orphansLeft = 0
    /// Steps that failed; each was reported to the observer, and the next sweep tries again.
    package var failures = 0

    package init() {}
}
