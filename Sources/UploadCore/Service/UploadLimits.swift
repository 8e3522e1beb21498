package import Foundation

/// What `UploadService` allows, and for how long.
package struct UploadLimits: Sendable, Equatable {
    /// Most bytes of one upload; default 1 TiB; more is `.tooLarge`.
    package var maximumBytes: Int64
    /// Seconds that an upload stays open after its last append; `nil` for ever; default 24 hours; later is `.gone`.
    package var lifetime: TimeInterval?
    /// How long a request waits for the one that it takes over from; default 10 s; longer is `.busy`.
    package var takeOverTimeout: Duration
    /// How long a writer that brings bytes, or has just begun, is spared by one that knows no more of the upload; default 1 s.
    ///
    /// Offset queries and terminations do not wait for it.
    package var protectedTurn: Duration
    /// Seconds that the records of terminated and expired uploads are kept; default 7 days; later they are `.notFound`.
    package var recordRetention: TimeInterval
    /// Seconds after which a blob without a record is what a crash left; default an hour.
    ///
    /// A younger one may be one that another process is about to record; 0 is right where none shares the storage.
    package var orphanAge: TimeInterval
    /// Seconds that a blob without a record is kept for whoever wants to bring it back; default 7 days.
    package var quarantine: TimeInterval
    /// What an account without a policy of its own may do, by its kind.
    package var policies: [Account.Kind: Policy]
    /// Seconds of the period that quotas count in; default a day, which begins at midnight, UTC.
    package var quotaPeriod: TimeInterval

    package init(
        maximumBytes: Int64 = 1 << 40,
        lifetime: TimeInterval? = 24 * 3600,
        takeOverTimeout: Duration = .seconds(10),
        protectedTurn: Duration = .seconds(1),
        recordRetention: TimeInterval = 7 * 24 * 3600,
        orphanAge: TimeInterval = 3600,
        quarantine: TimeInterval = 7 * 24 * 3600,
        policies: [Account.Kind: Policy] = [:],
        quotaPeriod: TimeInterval = 24 * 3600
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
    }
}
