package import Foundation

/// What an account uses.
package struct Usage: Sendable, Equatable {
    /// Bytes of media.
    package var storedBytes: Int64 = 0
    /// Bytes that are kept free for uploads: what they have and what they may still get.
    package var reservedBytes: Int64 = 0
    package var openUploads: Int64 = 0
    /// Bytes of uploads that began in the period, and how many those are.
    package var periodBytes: Int64 = 0
    package var periodUploads: Int64 = 0
    /// When the period began that is counted.
    package var periodStart: Date

    package init(periodStart: Date) { self.periodStart = periodStart }

    /// As of `period`: what an older one counted is over.
    package func rolled(to period: QuotaPeriod) -> Usage {
        guard periodStart < period.start else { return self }
        var usage = self
        usage.periodStart = period.start
        usage.periodBytes = 0
        usage.periodUploads = 0
        return usage
    }

    /// With a change by an upload that was created at `creation`; what began in an older period is not given back.
    ///
    /// - Throws: `.tooLarge` for more bytes in all than a number can hold, whatever the limits are.
    package func adding(_ change: UsageChange, createdAt creation: Date) throws(UploadError) -> Usage {
        let isCounted = creation >= periodStart
        var usage = self
        usage.storedBytes = try Self.sum(storedBytes, change.storedBytes)
        usage.reservedBytes = try Self.sum(reservedBytes, change.reservedBytes)
        // Who adds them up must not have to think of it.
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
            throw UploadError(.tooLarge(limit: left), "All uploads together may have \(left) bytes more.")
        }
        return max(0, sum)
    }
}

/// What one step of an upload adds to the use of an account, or takes away.
package struct UsageChange: Sendable, Equatable {
    package var storedBytes: Int64 = 0
    package var reservedBytes: Int64 = 0
    package var openUploads: Int64 = 0
    package var periodBytes: Int64 = 0
    package var periodUploads: Int64 = 0

    package init() {}

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

/// The time that bytes and uploads "per period" are counted in; periods follow one another without a gap.
package struct QuotaPeriod: Sendable, Equatable {
    package let start: Date
    package let end: Date

    /// The period around `now`, counted from 1970-01-01T00:00:00Z: one of a day begins at midnight, UTC.
    ///
    /// - Parameters:
    ///   - now: A moment of it.
    ///   - length: Seconds; at least 1.
    package init(around now: Date, length: TimeInterval) {
        let index = (now.timeIntervalSince1970 / length).rounded(.down)
        start = Date(timeIntervalSince1970: index * length)
        end = Date(timeIntervalSince1970: (index + 1) * length)
    }
}

/// What the steps of an upload change in its accounts; the same for every state store.
package enum Accounting {
    package typealias Changes = [Account: UsageChange]

    /// A new upload: what it reserves is in `reservedBytes`.
    package static func creating(_ upload: Upload) -> Changes {
        var change = UsageChange()
        change.reservedBytes = upload.reservedBytes
        change.openUploads = 1
        change.periodUploads = 1
        if upload.isSent { change.periodBytes = upload.reservedBytes }
        return changes(of: upload, change)
    }

    /// An open upload that is to hold `bytes` from now on.
    package static func reserving(_ bytes: Int64, for upload: Upload) -> Changes {
        var change = UsageChange()
        change.reservedBytes = bytes - upload.reservedBytes
        if upload.isSent { change.periodBytes = change.reservedBytes }
        return changes(of: upload, change)
    }

    /// An open upload that is complete now.
    ///
    /// A partial upload keeps its bytes reserved until it ends, or a final one that is made of it is complete.
    ///
    /// - Parameters:
    ///   - upload: As it was recorded before.
    ///   - size: Bytes.
    ///   - parts: What a final upload is made of, each once.
    ///   - replaced: A completed upload that it takes the place of, which ends.
    /// - Returns: Also what the accounts of the parts and of the replaced one get back.
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
        if let replaced { all.merge(ending(replaced, received: 0), uniquingKeysWith: +) }
        return all
    }

    /// An upload that ends, terminated or expired.
    ///
    /// - Parameters:
    ///   - upload: As it was recorded before: open or completed.
    ///   - received: Bytes that it got; they have been sent, so they are not taken off the period.
    /// - Returns: What its accounts get back.
    package static func ending(_ upload: Upload, received: Int64) -> Changes {
        var change = UsageChange()
        change.reservedBytes = -upload.reservedBytes
        if upload.state == .open {
            change.openUploads = -1
            if upload.isSent { change.periodBytes = min(0, received - upload.reservedBytes) }
        } else if upload.concatenation?.role != .partial {
            change.storedBytes = -(upload.length ?? 0)
        }
        return changes(of: upload, change)
    }

    private static func changes(of upload: Upload, _ change: UsageChange) -> Changes {
        Changes(uniqueKeysWithValues: upload.accounts.map { ($0, change) })
    }
}

extension Upload {
    /// Its bytes are sent by a client; those of a final upload have been.
    fileprivate var isSent: Bool { concatenation?.parts == nil }
}
