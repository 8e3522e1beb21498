/// Who decides which of several nodes may use an upload.
///
/// `LeaseTable` asks it after the turn has come on this node, so of one upload it has one user at a time here. May be called
/// from any loop.
package protocol LeaseAuthority: Sendable {
    /// Takes the lease; the node that has it is asked at once to let go.
    ///
    /// Nodes get it in the order in which they asked.
    ///
    /// - Parameters:
    ///   - id: The upload; also one that does not exist.
    ///   - claim: By which the wait can be ended.
    ///   - deadline: How long to wait.
    /// - Throws: `.busy` after `deadline`; what `claim` was withdrawn with; `.unavailable`, `.storageFailure`.
    func acquire(
        _ id: UploadID,
        _ claim: LeaseClaim,
        until deadline: ContinuousClock.Instant
    ) async throws(UploadError)

    /// Takes the lease if no living node has it; disturbs nobody.
    ///
    /// - Returns: Whether it was taken.
    func acquireIfFree(_ id: UploadID) async throws(UploadError) -> Bool

    /// Ends a lease that was taken; the next node gets it at once. If that can not be recorded, it ends later.
    func release(_ id: UploadID) async

    /// Has `isWanted` called, on any thread, when another node wants an upload that is used or waited for here, or has taken it.
    func attach(isWanted: @escaping @Sendable (UploadID) -> Void)
}
