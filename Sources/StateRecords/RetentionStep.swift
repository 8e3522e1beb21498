/// One step of removing old records.
package enum RetentionStep {
    /// Rows in one transaction: other writers wait for it about as long as for a few uploads.
    package static let rows = 1000
}
