internal import UploadModel

/// Jobs that only one of several processes runs, and health.
extension StateStoreContract {
    static let jobs: [Contract<any JobClaims>] = [
        Contract("one process claims each run of a periodic job") { store in
            try demand(await store.claimJob(at: .thoroughSweep, every: 3600), is: true)
            try demand(await store.claimJob(at: .thoroughSweep, every: 3600), is: false)
            try demand(await store.claimJob(at: .thoroughSweep, every: 0), is: true)
        }
    ]

    static let health: [Contract<any StateHealth>] = [
        Contract("a working store reports that it works") { store in try await store.check() }
    ]
}
