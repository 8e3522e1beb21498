package import Foundation

/// The usage of an account.
package struct Usage: Sendable, Equatable {
    /// Bytes of media.
    package var storedBytes: Int64 = 0
    /// Bytes reserved for uploads: those received and those that may still arrive.
    package var reservedBytes: Int64 = 0
    package var openUploads: Int64 = 0
    /// Bytes of uploads created in the period, and their number.
    package var periodBytes: Int64 = 0
    package var periodUploads: Int64 = 0
    /// Start of the period that is counted.
    package var periodStart: Date

    package init(periodStart: Date) { self.periodStart = periodStart }

    /// The usage as of `period`; counts of an earlier period are reset.
    package func rolled(to period: QuotaPeriod) -> Usage {
        guard periodStart < period.start else { return self }
        var usage = self
        usage.periodStart = period.start
        usage.periodBytes = 0
        usage.periodUploads = 0
        return usage
    }

    /// Adds a change by an upload created at `creation`; bytes counted in an earlier period are not given back.
    ///
    /// - Throws: `.tooLarge` if the total does not fit a 64-bit number, whatever the limits.
    package func adding(_ change: UsageChange, createdAt creation: Date) throws(UploadError) -> Usage {
        let isCounted = creation >= periodStart
        var usage = self
        usage.storedBytes = try Self.sum(storedBytes, change.storedBytes)
        usage.reservedBytes = try Self.sum(reservedBytes, change.reservedBytes)
        // Check here, so that callers can add these up without overflow.
        _ = try Self.sum(usage.storedBytes, usage.reservedBytes)
        usage.openUploads = try Self.sum(openUploads, change.openUploads)
        if isCounted || change.periodBytes > 0 { usage.periodBytes = try Self.sum(periodBytes, change.periodBytes) }
        usage.periodUploads = try Self.sum(periodUploads, change.periodUploads)
        return usage
    }

    private static func sum(_ used: Int64, _ change: Int64) throws(UploadError) -> Int64 {
        let (sum, overflow) = used.addingReportingOverflow(change)
        guard !overflow else {
            let left = Int64.max - used
            throw UploadError(.tooLarge(limit: left), "All uploads together may have only \(left) more bytes.")
        }
        return max(0, sum)
    }
}

/// What one step of an upload adds to, or subtracts from, the usage of an account.
package struct UsageChange: Sendable, Equatable {
    package var storedBytes: Int64 = 0
    package var reservedBytes: Int64 = 0
    package var openUploads: Int64 = 0
    package var periodBytes: Int64 = 0
    package var periodUploads: Int64 = 0

    package init() {}

    /// The change that takes this one back.
    package var negated: UsageChange {
        var change = self
        change.storedBytes = -storedBytes
        change.reservedBytes = -reservedBytes
        change.openUploads = -openUploads
        change.periodBytes = -periodBytes
        change.periodUploads = -periodUploads
        return change
    }

    static func + (left: UsageChange, right: UsageChange) -> UsageChange {
        var sum = left
        sum.storedBytes = sum.storedBytes.adding(right.storedBytes)
        sum.reservedBytes = sum.reservedBytes.adding(right.reservedBytes)
        sum.openUploads = sum.openUploads.adding(right.openUploads)
        sum.periodBytes = sum.periodBytes.adding(right.periodBytes)
        sum.periodUploads = sum.periodUploads.adding(right.periodUploads)
        return sum
    }
}

/// The period for which bytes and uploads "per period" are counted; periods follow one another without a gap.
package struct QuotaPeriod: Sendable, Equatable {
    package let start: Date
    package let end: Date

    /// The period that contains `now`, counted from 1970-01-01T00:00:00Z: a period of one day begins at midnight UTC.
    ///
    /// - Parameters:
    ///   - now: A time in the period.
    ///   - length: In seconds; at least 1.
    package init(around now: Date, length: TimeInterval) {
        let index = (now.timeIntervalSince1970 / length).rounded(.down)
        start = Date(timeIntervalSince1970: index * length)
        end = Date(timeIntervalSince1970: (index + 1) * length)
    }
}

/// How each step of an upload changes the usage of its accounts; the same for every state store.
package enum Accounting {
    package typealias Changes = [Account: UsageChange]

    /// A new upload, whose reservation is `reservedBytes`.
    package static func creating(_ upload: Upload) -> Changes {
        var change = UsageChange()
        change.reservedBytes = upload.reservedBytes
        change.openUploads = 1
        change.periodUploads = 1
        if upload.isSent { change.periodBytes = upload.reservedBytes }
        return changes(of: upload, change)
    }

    /// New uploads whose bytes go to a cloud: they count in the period, but nothing of them is here.
    package static func sendingElsewhere(_ uploads: [Upload]) -> Changes {
        var all = Changes()
        for upload in uploads {
            var change = UsageChange()
            change.periodUploads = 1
            change.periodBytes = upload.reservedBytes
            all.merge(changes(of: upload, change), uniquingKeysWith: +)
        }
        return all
    }

    /// A new upload that is complete at once.
    ///
    /// - Parameters:
    ///   - upload: Completed.
    ///   - replaced: The completed upload that it replaces, which ends.
    /// - Returns: The changes of both steps, in order.
    package static func storing(_ upload: Upload, replacing replaced: Upload?) -> [Changes] {
        var open = upload
        open.state = .open
        open.reservedBytes = upload.offset
        return [creating(open), completing(open, size: upload.offset, parts: [], replacing: replaced)]
    }

    /// An open upload that reserves `bytes` from now on.
    package static func reserving(_ bytes: Int64, for upload: Upload) -> Changes {
        var change = UsageChange()
        change.reservedBytes = bytes - upload.reservedBytes
        if upload.isSent { change.periodBytes = change.reservedBytes }
        return changes(of: upload, change)
    }

    /// An open upload that is now complete.
    ///
    /// A partial upload keeps its reservation until it ends, or until a final upload made of it is complete; see
    /// `ending` for what happens when that one ends first.
    ///
    /// - Parameters:
    ///   - upload: As recorded before.
    ///   - size: Size in bytes.
    ///   - parts: The parts of a final upload, each once.
    ///   - replaced: The completed upload that it replaces, which ends. It is an object, and so has no parts.
    /// - Returns: The changes, including what the accounts of the parts and of the replaced upload get back.
    package static func completing(
        _ upload: Upload,
        size: Int64,
        parts: [Upload],
        replacing replaced: Upload?
    ) -> Changes {
        var change = UsageChange()
        change.openUploads = -1
        if upload.isSent { change.periodBytes = size - upload.reservedBytes }
        if upload.concatenation?.role == .partial {
            change.reservedBytes = size - upload.reservedBytes
        } else {
            change.reservedBytes = -upload.reservedBytes
            change.storedBytes = size
        }
        var all = changes(of: upload, change)
        for part in parts {
            var release = UsageChange()
            release.reservedBytes = -part.reservedBytes
            all.merge(changes(of: part, release), uniquingKeysWith: +)
        }
        if let replaced { all.merge(ending(replaced, received: 0, parts: []), uniquingKeysWith: +) }
        return all
    }

    /// An upload that ends as terminated or expired.
    ///
    /// The parts of a complete final upload stay on the disk when it ends, and nothing counts them any more: those for
    /// which `Upload.isReleased` holds must reserve their lengths again, in the same transaction.
    ///
    /// - Parameters:
    ///   - upload: As recorded before: open or completed.
    ///   - received: Bytes that it received; they were sent, so the period still counts them.
    ///   - parts: The parts of a complete final upload as recorded before, each once; those of others hold their bytes
    ///     anyway.
    /// - Returns: What its accounts get back, and what the accounts of its parts hold again: never more in all.
    package static func ending(_ upload: Upload, received: Int64, parts: [Upload]) -> Changes {
        var change = UsageChange()
        change.reservedBytes = -upload.reservedBytes
        if upload.state == .open {
            change.openUploads = -1
            if upload.isSent { change.periodBytes = min(0, received - upload.reservedBytes) }
        } else if upload.concatenation?.role != .partial {
            change.storedBytes = -(upload.length ?? 0)
        }
        var all = changes(of: upload, change)
        for part in parts where part.isReleased {
            var hold = UsageChange()
            hold.reservedBytes = part.length ?? 0
            all.merge(changes(of: part, hold), uniquingKeysWith: +)
        }
        return all
    }

    /// The accounts that any of the steps changes.
    package static func accounts(changedBy steps: [Changes]) -> Set<Account> {
        var accounts: Set<Account> = []
        for step in steps { for (account, change) in step where change != UsageChange() { accounts.insert(account) } }
        return accounts
    }

    private static func changes(of upload: Upload, _ change: UsageChange) -> Changes {
        Changes(uniqueKeysWithValues: upload.accounts.map { ($0, change) })
    }
}

extension Upload {
    /// Whether it is a complete part whose bytes are counted, if at all, only as those of final uploads.
    package var isReleased: Bool { concatenation?.role == .partial && state == .completed && reservedBytes == 0 }

    /// Whether clients send its bytes; those of a final upload were already sent.
    fileprivate var isSent: Bool { concatenation?.parts == nil }
}
