package import Foundation

/// The delivery state of events that the app receives.
package protocol DeliveryRecords: Sendable {
    /// Claims events to deliver now: for each upload its first pending event, if that is due and not claimed.
    ///
    /// If more are due than are wanted, users have turns, so that nobody's events keep those of others waiting
    /// (`DeliveryTurns`).
    ///
    /// - Parameters:
    ///   - limit: Maximum number of events.
    ///   - duration: Seconds that the claim lasts; an event that is not settled or released by then is due again.
    /// - Returns: The events; `nextAttemptAt` is the end of the claim.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func claimDeliveries(limit: Int, for duration: TimeInterval) async throws(UploadError) -> [EventRecord]

    /// Seconds until a delivery can be claimed, because it is due or its claim expires; `nil` if none is pending.
    func nextDelivery() async throws(UploadError) -> TimeInterval?

    /// What is still to be delivered, whether it is due or not.
    func pendingDeliveries() async throws(UploadError) -> PendingDeliveries

    /// Records the outcome of a delivery attempt.
    ///
    /// - Parameters:
    ///   - event: As `claimDeliveries` returned it.
    ///   - outcome: A successful delivery is always recorded, even if another process has claimed the event since; any
    ///     other outcome is recorded only while the caller still holds the claim.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func settle(_ event: EventRecord, as outcome: DeliveryOutcome) async throws(UploadError)

    /// Returns an undelivered event, as `claimDeliveries` returned it: it is due again, and no attempt is counted.
    func release(_ event: EventRecord) async throws(UploadError)

    /// Events with a delivery, newest first.
    func deliveries(_ query: DeliveryQuery) async throws(UploadError) -> [EventRecord]

    /// Makes deliveries pending again, due at once and with all attempts, whatever their state.
    ///
    /// - Parameter ids: Ids of events; `nil` for all dead ones.
    /// - Returns: The number of deliveries changed.
    /// - Throws: `.storageFull`, `.storageFailure`.
    func redeliver(_ ids: [String]?) async throws(UploadError) -> Int
}

/// Events that wait to be delivered to the app.
package struct PendingDeliveries: Sendable, Equatable {
    package var count: Int64
    /// Seconds since the oldest of them occurred; 0 if there is none.
    package var age: TimeInterval

    package init(count: Int64, age: TimeInterval) {
        self.count = count
        self.age = age
    }
}
