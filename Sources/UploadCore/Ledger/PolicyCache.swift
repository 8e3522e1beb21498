internal import Synchronization
internal import UploadModel

/// Caches the policies of accounts for one second.
///
/// Changes by other processes take effect with that delay; usage is always exact.
final class PolicyCache: Sendable {
    private struct Entry {
        let policy: Policy
        let readAt: ContinuousClock.Instant
    }

    private let entries = Mutex<[Account: Entry]>([:])
    private let state: any AccountRecords
    /// Policies of accounts without their own, by kind.
    private let defaults: Mutex<[Account.Kind: Policy]>

    init(state: any AccountRecords, defaults: [Account.Kind: Policy]) {
        self.state = state
        self.defaults = Mutex(defaults)
    }

    /// The policy of each account: its own, or that of its kind.
    ///
    /// - Throws: `.storageFailure`.
    func policies(of accounts: [Account]) async throws(UploadError) -> [Account: Policy] {
        let now = ContinuousClock.now
        var policies: [Account: Policy] = [:]
        entries.withLock { entries in
            for account in accounts {
                guard let entry = entries[account], now - entry.readAt < Self.lifetime else { continue }
                policies[account] = entry.policy
            }
        }
        let unknown = accounts.filter { policies[$0] == nil }
        if unknown.isEmpty { return policies }
        let records = try await state.accounts(unknown)
        entries.withLock { entries in
            // Clearing the cache is simpler than finding the oldest of very many entries.
            if entries.count + unknown.count > Self.capacity { entries = [:] }
            for account in unknown {
                // Not before: between the two, `replaceDefaults` would leave a former policy here.
                let policy = policy(of: account, records[account])
                entries[account] = Entry(policy: policy, readAt: now)
                policies[account] = policy
            }
        }
        return policies
    }

    /// The policy of an account with this record.
    func policy(of account: Account, _ record: AccountRecord?) -> Policy {
        record?.policy ?? defaults.withLock { $0[account.kind] } ?? Policy()
    }

    /// Takes other policies for accounts without their own.
    func replaceDefaults(_ defaults: [Account.Kind: Policy]) {
        entries.withLock { entries in
            self.defaults.withLock { $0 = defaults }
            entries = [:]
        }
    }

    /// Call after this process has changed the policy.
    func forget(_ account: Account) {
        entries.withLock { $0[account] = nil }
    }

    private static let lifetime = Duration.seconds(1)
    private static let capacity = 10_000
}
