internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadCore
internal import UploadModel

/// What a user may still upload, as the API tells it (protocol notes §7).
struct VimeoQuota: Sendable, Equatable {
    /// Bytes; `nil` for no limit.
    var total: Int64?
    /// The same without a token.
    var policyTotal: Int64?
    var stored: Int64
    var periodBytes: Int64?
    var periodUsed: Int64
    /// Whether as many uploads were begun in the period as the account allows.
    var hasUsedUploads: Bool
    var periodEnd: Date
    /// Seconds.
    var periodLength: TimeInterval

    /// - Parameters:
    ///   - report: Of the user's account.
    ///   - cap: Total bytes that the token allows.
    init(_ report: QuotaReport, cap: Int64?) {
        policyTotal = report.policy.storedBytes
        total = [report.policy.storedBytes, cap].compactMap { $0 }.min()
        stored = report.usage.storedBytes.addingClamped(report.usage.reservedBytes)
        periodBytes = report.policy.periodBytes
        periodUsed = report.usage.periodBytes
        hasUsedUploads = report.policy.periodUploads.map { report.usage.periodUploads >= $0 } ?? false
        periodEnd = report.period.end
        periodLength = report.period.end.timeIntervalSince(report.period.start)
    }

    private static func space(_ limit: Int64?, _ used: Int64) -> JSONMembers {
        [
            "free": limit.map { .integer(max(0, $0 - used)) } ?? .null, "max": limit.map(JSONValue.integer) ?? .null,
            "used": .integer(used), "unit": .string("video_size"),
        ]
    }

    private var lifetimeFree: Int64? { total.map { max(0, $0 - stored) } }
    private var periodFree: Int64? { periodBytes.map { max(0, $0 - periodUsed) } }

    /// `space` mirrors the tighter limit.
    private var isPeriodTighter: Bool {
        switch (periodFree, lifetimeFree) {
        case (let period?, let lifetime?): period <= lifetime
        case (.some, nil): true
        default: false
        }
    }

    /// Whether what a token allows is less than what the account allows.
    func isCapTightest(_ cap: Int64?) -> Bool { cap != nil && total == cap && !isPeriodTighter && policyTotal != cap }

    /// The most that `space` says where nothing limits it: clients compare it with sizes, and some crash on `null`.
    private static let unlimited: Int64 = 1 << 50

    var document: JSONValue {
        var space =
            isPeriodTighter ? Self.space(periodBytes, periodUsed) : Self.space(total ?? stored + Self.unlimited, stored)
        space["showing"] = .string(isPeriodTighter ? "periodic" : "lifetime")
        var periodic = Self.space(periodBytes, periodUsed)
        periodic["reset_date"] = periodBytes == nil ? .null : VimeoDocuments.time(periodEnd)
        periodic["period"] = periodBytes == nil ? .null : .string(period)
        return .object([
            "space": .object(space), "periodic": .object(periodic),
            "lifetime": .object(Self.space(total, stored)),
            // Versions before 3.4.
            "quota": .object(["hd": .bool(hasRoom), "sd": .bool(hasRoom)]),
        ])
    }

    /// Refuses an upload of unknown size if nothing is left: clients of the Old Upload do not understand a refusal of
    /// their bytes, and repeat them for ever.
    ///
    /// - Throws: `VimeoError` 4101, 4102 or 3428.
    func checkRoom(cap: Int64?) throws(VimeoError) {
        if hasRoom { return }
        let code = periodFree == 0 ? 4102 : total == cap ? 3428 : 4101
        throw VimeoError(
            403,
            code,
            "You have reached your upload quota.",
            code == 4102 ? "No bytes are left in this period." : "No bytes are left; delete videos first."
        )
    }

    private var hasRoom: Bool { lifetimeFree != 0 && periodFree != 0 }

    private var period: String {
        switch periodLength / 86_400 {
        case ..<10: "week"
        case ..<60: "month"
        default: "year"
        }
    }

    /// `quota` of a ticket, for dot-net before 2.x.
    var oldDocument: JSONValue {
        let limit = total ?? stored + Self.unlimited
        let free = [lifetimeFree, periodFree].compactMap { $0 }.min() ?? Self.unlimited
        return .object([
            "sd": .bool(hasRoom), "hd": .bool(hasRoom), "total_space": .integer(limit), "space_used": .integer(stored),
            "free_space": .integer(free), "max_file_size": .integer(free), "resets": VimeoDocuments.time(periodEnd),
        ])
    }
}

extension QuotaService {
    /// What a refusal by a quota means to the client of a video.
    ///
    /// - Returns: `nil` for any other error.
    func refusal(_ error: UploadError, of video: VimeoVideo) async -> VimeoFailure? {
        guard case .quotaExceeded(let refusal) = error.code else { return nil }
        let report = try? await quota(of: Account(.subject, video.subject))
        let quota = report.map { VimeoQuota($0, cap: video.total) }
        return VimeoFailure(refusal, error.message, cap: video.total, quota)
    }
}

extension Int64 {
    fileprivate func addingClamped(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }
}
