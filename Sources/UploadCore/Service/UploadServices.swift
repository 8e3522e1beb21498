internal import SystemIO
package import UploadModel

/// The services of the core over one state and one storage; each caller receives only the services that it uses.
package struct UploadServices: Sendable {
    /// Creates, appends to, completes, terminates and inspects uploads.
    package let uploads: UploadService
    /// Completed uploads and their bytes.
    package let media: MediaService
    /// Uploads whose bytes arrive in parts.
    package let parts: PartService
    /// Buckets and their objects.
    package let objects: ObjectService
    /// Events of uploads, and their subscribers.
    package let events: EventService
    /// Usage and policies of accounts.
    package let quota: QuotaService
    /// Ends and removes expired uploads.
    package let sweep: SweepService
    private let leases: LeaseTable
    private let recents: RecentUploads

    /// Number of uploads that requests to this process use now.
    package var leasesHeld: Int { leases.count }

    /// Number of open uploads whose records are kept for the next append.
    package var recentUploads: Int { recents.count }

    /// How many appends found the record of their upload kept, and how many had to read it.
    package var recentLookups: (found: Int, read: Int) { recents.lookups }

    /// - Parameters:
    ///   - state: Stores the records.
    ///   - storage: Stores the bytes.
    ///   - clock: Provides the time of day.
    ///   - limits: Limits and timeouts.
    ///   - observer: Notified of everything that happens.
    ///   - hooks: Hooks of the app.
    ///   - authority: Decides which node uses an upload; `nil` with a single node.
    ///   - refusal: The error for every request that would change something; `nil` to allow changes.
    ///   - isSweepApproved: See `StoreMarks.takeSweepApproval`.
    package init(
        state: any StateStore,
        storage: any BlobStorage,
        clock: any WallClock,
        limits: UploadLimits,
        observer: any UploadObserver,
        hooks: any UploadHooks = NoHooks(),
        among authority: (any LeaseAuthority)? = nil,
        refusing refusal: UploadError? = nil,
        isSweepApproved: @escaping @Sendable () async throws(UploadError) -> Bool = { false }
    ) {
        let context = ServiceContext(limits: limits, clock: clock, observer: observer, refusing: refusal)
        let policies = PolicyCache(state: state, defaults: limits.policies)
        let edits = TurnTable<UploadID>(timeout: limits.takeOverTimeout)
        let ledger = UploadLedger(state: state, policies: policies, turns: edits, limits: limits, clock: clock)
        let appends = ActiveAppends()
        let unrecorded = UnrecordedBlobs()
        events = EventService(context, state: state, storage: storage, hooks: hooks, appends: appends)
        let lifecycle = UploadLifecycle(
            context,
            state: state,
            storage: storage,
            ledger: ledger,
            events: events,
            hooks: hooks,
            edits: edits,
            // Other nodes change records without telling this one.
            recents: RecentUploads(authority == nil ? limits.recent : .none),
            among: authority
        )
        leases = lifecycle.leases
        recents = lifecycle.recents
        uploads = UploadService(
            context,
            state: state,
            storage: storage,
            ledger: ledger,
            events: events,
            hooks: hooks,
            lifecycle: lifecycle,
            appends: appends,
            unrecorded: unrecorded
        )
        media = MediaService(context, state: state, storage: storage)
        parts = PartService(context, state: state, ledger: ledger, lifecycle: lifecycle)
        objects = ObjectService(context, state: state, storage: storage, uploads: uploads, media: media)
        quota = QuotaService(context, state: state, policies: policies)
        sweep = SweepService(
            context,
            state: state,
            storage: storage,
            lifecycle: lifecycle,
            unrecorded: unrecorded,
            isApproved: isSweepApproved
        )
    }
}
