package import Foundation
package import SystemIO
package import UploadModel

/// Limits and timeouts of the services.
package struct UploadLimits: Sendable, Equatable {
    /// Maximum size of one upload in bytes; default 1 TiB; beyond it `.tooLarge`.
    package var maximumBytes: Int64
    /// Seconds that an upload stays open after its last append; `nil` for ever; default 24 hours; after that `.gone`.
    package var lifetime: TimeInterval?
    /// How long a request waits for the one that it takes over from; default 10 s; beyond it `.busy`.
    package var takeOverTimeout: Duration
    /// How long an active or new writer is protected from a newcomer that does not know its offset; default 1 s.
    ///
    /// Offset queries and terminations ignore this protection.
    package var protectedTurn: Duration
    /// Seconds that records of terminated and expired uploads are kept; default 7 days; after that `.notFound`.
    package var recordRetention: TimeInterval
    /// Seconds that events are kept whose delivery is dead, so that they can be delivered again.
    package var deadRetention: TimeInterval { 4 * recordRetention }
    /// Age in seconds from which a blob without a record counts as left by a crash; default one hour.
    ///
    /// Another process may be about to record a younger one; use 0 if no other process shares the storage.
    package var orphanAge: TimeInterval
    /// Seconds that a blob without a record is kept so that it can be restored; default 7 days.
    package var quarantine: TimeInterval
    /// Default policies, by kind of account.
    package var policies: [Account.Kind: Policy]
    /// Length in seconds of the period for quotas; default one day, which begins at midnight UTC.
    package var quotaPeriod: TimeInterval
    /// How many records of open uploads are kept in memory after their last append, and for how long.
    package var recent: RecentLimits

    package init(
        maximumBytes: Int64 = 1 << 40,
        lifetime: TimeInterval? = 24 * 3600,
        takeOverTimeout: Duration = .seconds(10),
        protectedTurn: Duration = .seconds(1),
        recordRetention: TimeInterval = 7 * 24 * 3600,
        orphanAge: TimeInterval = 3600,
        quarantine: TimeInterval = 7 * 24 * 3600,
        policies: [Account.Kind: Policy] = [:],
        quotaPeriod: TimeInterval = 24 * 3600,
        recent: RecentLimits = RecentLimits()
    ) {
        self.maximumBytes = maximumBytes
        self.lifetime = lifetime
        self.takeOverTimeout = takeOverTimeout
        self.protectedTurn = protectedTurn
        self.recordRetention = recordRetention
        self.orphanAge = orphanAge
        self.quarantine = quarantine
        self.policies = policies
        self.quotaPeriod = quotaPeriod
        self.recent = recent
    }
}
