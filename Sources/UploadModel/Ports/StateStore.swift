/// A store of all records; adapters implement it, and each service receives only the ports that it needs.
///
/// Each call is one transaction, durable when it returns. May be called from any loop. A call that changes an upload
/// also updates the usage of its accounts (`Accounting`) and records events in the same transaction. With several
/// nodes, calls made under a lease (see `LeaseAuthority`) throw `.interrupted` if another node has taken the lease
/// meanwhile.
///
/// Deliveries and pulls are claimed before they are processed, because several processes may share one store. The
/// store's own clock decides what is due and when a claim expires, because the clocks of the processes may differ.
package protocol StateStore:
    UploadRecords, SpaceReservations, RetentionRecords, MediaRecords, PartRecords, ObjectRecords, BucketRecords,
    AccountRecords, EventRecords, DeliveryRecords, KeyRecords, RevocationRecords, PullRecords, DialectRecords,
    JobClaims,
    StateHealth
{}

/// Whether a state works; used for readiness.
package protocol StateHealth: Sendable {
    func check() async throws(UploadError)
}
