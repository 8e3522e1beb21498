internal import CoreMetrics
internal import Foundation
internal import MetricsKit
internal import UploadCore
internal import UploadModel
internal import VODKit
internal import Webhooks

/// Posts events to an app's server, each until it has answered with a status of 2xx.
///
/// An event is claimed before it is sent, so that only one of several nodes sends it; the claim of a node that dies ends by
/// itself.
struct VODEventDelivery: Sendable {
    private static let timeout = Duration.seconds(15)
    /// Seconds; longer than an attempt takes.
    private static let claim: Int64 = 60

    let events: VODEvents
    let poster: WebhookPoster
    /// The JSON of an event.
    let document: @Sendable (VODEvents.Claimed) -> [UInt8]
    /// By outcome.
    let counters: CounterTable
    let failing: FailingRecords
    let report: @Sendable (_ message: String) -> Void

    /// Sends until the task is cancelled.
    func run() async {
        await EventPosting<VODEvents.Claimed>(bell: events.bell) { report($0.message) }.run {
            limit,
            last,
            _ throws(UploadError) in
            try await events.look(after: last, limit: limit, for: Self.claim, failing: failing)
        } send: { claimed throws(UploadError) in
            try await send(claimed)
        }
    }

    private func send(_ claimed: VODEvents.Claimed) async throws(UploadError) {
        let event = claimed.record.content
        do throws(HookFailure) {
            _ = try await poster.post(
                document(claimed),
                id: "msg_\(event.fileID)\(event.kind.rawValue)\(event.contentID ?? "")",
                at: events.clock.now.unixSeconds,
                timeout: Self.timeout
            )
            counters["delivered"].increment()
        } catch {
            // The process is stopping: the claim ends by itself.
            if Task.isCancelled { return }
            counters["failed"].increment()
            report(error.description)
            let wanted = error.retryAfter.map { Int64(min(max($0, 0), 3600)) } ?? 0
            return try await events.postpone(claimed, by: max(Self.pause(after: event.attempts), wanted))
        }
        try await events.remove(claimed.record.record.key)
    }

    /// Seconds before the next attempt: 1, 2, 4 … up to an hour.
    static func pause(after attempts: Int) -> Int64 { min(1 << Int64(min(max(attempts - 1, 0), 12)), 3600) }
}
