package import Foundation

/// The policies of an upload's accounts, and the current quota period.
package struct EffectiveLimits: Sendable {
    package var policies: [Account: Policy]
    package var period: QuotaPeriod

    package init(policies: [Account: Policy], period: QuotaPeriod) {
        self.policies = policies
        self.period = period
    }

    /// The usage of an account after changes in one transaction, each of which its policy must allow.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - usage: Its current usage.
    ///   - steps: The changes of all accounts, in order.
    ///   - creation: When the upload was created.
    ///   - effectiveLimits: `nil` if the changes only reduce usage.
    /// - Returns: The new usage.
    /// - Throws: `.quotaExceeded`; `.tooLarge` as from `Usage.adding`.
    package static func usage(
        of account: Account,
        _ usage: Usage,
        adding steps: [Accounting.Changes],
        createdAt creation: Date,
        under effectiveLimits: EffectiveLimits?
    ) throws(UploadError) -> Usage {
        var usage = usage
        for step in steps {
            guard let change = step[account], change != UsageChange() else { continue }
            usage =
                if let effectiveLimits {
                    try effectiveLimits.usage(of: account, usage, adding: change, createdAt: creation)
                } else {
                    try usage.adding(change, createdAt: creation)
                }
        }
        return usage
    }

    /// The usage of an account after a change, if its policy allows it; call in the transaction that records the
    /// change.
    ///
    /// Only growth is checked: an account that is over a lowered limit can still complete and delete uploads.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - usage: Its current usage.
    ///   - change: What the upload adds.
    ///   - creation: When the upload was created.
    /// - Returns: The new usage.
    /// - Throws: `.quotaExceeded`; `.tooLarge` as from `Usage.adding`.
    package func usage(
        of account: Account,
        _ usage: Usage,
        adding change: UsageChange,
        createdAt creation: Date
    ) throws(UploadError) -> Usage {
        let before = usage.rolled(to: period)
        let after = try before.adding(change, createdAt: creation)
        guard let policy = policies[account] else { return after }
        func check(_ measure: QuotaRefusal.Measure, _ limit: Int64?, _ used: Int64, _ next: Int64) throws(UploadError) {
            guard let limit, next > used, next > limit else { return }
            throw UploadError(
                QuotaRefusal(
                    account: account,
                    measure: measure,
                    limit: limit,
                    used: used,
                    wanted: next - used,
                    resetsAt: measure.isPeriodic ? period.end : nil
                )
            )
        }
        // `Usage.adding` has checked the second sum for overflow.
        let stored = (before.storedBytes.adding(before.reservedBytes), after.storedBytes + after.reservedBytes)
        try check(.storedBytes, policy.storedBytes, stored.0, stored.1)
        try check(.openUploads, policy.openUploads, before.openUploads, after.openUploads)
        try check(.periodBytes, policy.periodBytes, before.periodBytes, after.periodBytes)
        try check(.periodUploads, policy.periodUploads, before.periodUploads, after.periodUploads)
        return after
    }
}

/// A state store's record of an account.
package struct AccountRecord: Sendable, Equatable {
    package var usage: Usage
    /// Its own policy, which replaces the default one entirely; `nil` for none.
    package var policy: Policy?

    package init(usage: Usage, policy: Policy?) {
        self.usage = usage
        self.policy = policy
    }
}

/// Why a quota refuses an upload or more bytes of it.
package struct QuotaRefusal: Sendable, Equatable {
    package enum Measure: String, Sendable, CaseIterable {
        case storedBytes, periodBytes, openUploads, periodUploads

        /// Whether the refusal ends with the period.
        package var isPeriodic: Bool { self == .periodBytes || self == .periodUploads }
        var isBytes: Bool { self == .storedBytes || self == .periodBytes }
    }

    package var account: Account
    package var measure: Measure
    package var limit: Int64
    package var used: Int64
    package var wanted: Int64
    /// When the period ends; `nil` if waiting does not help.
    package var resetsAt: Date?

    package init(
        account: Account,
        measure: Measure,
        limit: Int64,
        used: Int64,
        wanted: Int64,
        resetsAt: Date?
    ) {
        self.account = account
        self.measure = measure
        self.limit = limit
        self.used = used
        self.wanted = wanted
        self.resetsAt = resetsAt
    }

    package var left: Int64 { max(0, limit - used) }
    /// Seconds from the refusal to the end of the period; `nil` if waiting does not help.
    package var secondsToWait: Int64? {
        resetsAt.map { Int64(max(1, $0.timeIntervalSinceNow.rounded(.up))) }
    }
}

extension QuotaRefusal: Encodable {
    private enum CodingKeys: String, CodingKey {
        case account, measure, limit, used, left, wanted, resetsAt
    }

    /// Encodes the refusal as problem documents show it.
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(account.kind.rawValue, forKey: .account)
        try container.encode(measure.rawValue, forKey: .measure)
        try container.encode(limit, forKey: .limit)
        try container.encode(used, forKey: .used)
        try container.encode(left, forKey: .left)
        try container.encode(wanted, forKey: .wanted)
        try container.encodeIfPresent(resetsAt?.formatted(.iso8601), forKey: .resetsAt)
    }
}

extension UploadError {
    /// Creates an error whose message says how much is left and what to do.
    init(_ refusal: QuotaRefusal) {
        let who = refusal.account.kind == .subject ? "This user" : "This API key"
        let unit = refusal.measure.isBytes ? "bytes" : "uploads"
        let what =
            switch refusal.measure {
            case .storedBytes: "of storage"
            case .periodBytes, .periodUploads: "in this period"
            case .openUploads: "at the same time"
            }
        let advice =
            switch refusal.measure {
            case .storedBytes: "delete media or unfinished uploads first."
            case .openUploads: "finish or delete open uploads first."
            case .periodBytes, .periodUploads:
                "the next period begins at "
                    + (refusal.resetsAt ?? .distantFuture).formatted(.iso8601) + "."
            }
        self.init(
            .quotaExceeded(refusal),
            "\(who) has \(refusal.left) of \(refusal.limit) \(unit) \(what) left, and \(refusal.wanted) are needed; \(advice)"
        )
    }
}
