/// Decides which of several nodes may use an upload.
///
/// `LeaseTable` calls it after the local wait, so each upload has one user at a time on this node. May be called from
/// any loop.
package protocol LeaseAuthority: Sendable {
    /// Acquires the lease; the node that holds it is asked at once to release it.
    ///
    /// Nodes receive the lease in the order of their requests.
    ///
    /// - Parameters:
    ///   - id: The upload; it need not exist.
    ///   - claim: Can end the wait.
    ///   - deadline: Maximum time to wait.
    /// - Throws: `.busy` after `deadline`; the error with which `claim` was withdrawn; `.unavailable`,
    ///   `.storageFailure`.
    func acquire(
        _ id: UploadID,
        _ claim: LeaseClaim,
        until deadline: ContinuousClock.Instant
    ) async throws(UploadError)

    /// Acquires the lease if no living node holds it; disturbs no holder.
    ///
    /// - Returns: Whether it was acquired.
    func acquireIfFree(_ id: UploadID) async throws(UploadError) -> Bool

    /// Releases a lease; the next node gets it at once. If the release cannot be recorded, the lease ends later.
    func release(_ id: UploadID) async

    /// Registers `isWanted`, called on any thread when another node requests or has taken an upload that this node uses
    /// or waits for.
    func attach(isWanted: @escaping @Sendable (UploadID) -> Void)
}
