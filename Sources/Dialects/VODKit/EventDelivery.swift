internal import Foundation
internal import UploadCore
internal import UploadModel

/// Why an event was not delivered.
package struct DeliveryFailure: Error, Sendable {
    let message: String
    /// Seconds until the receiver wants the next attempt.
    let retryAfter: Double?

    package init(_ message: String, retryAfter: Double? = nil) {
        self.message = message
        self.retryAfter = retryAfter
    }
}

/// Posts the events of an outbox, each until its receiver has it.
package struct EventDelivery<Event: MediaEvent, Details: EventDetails>: Sendable {
    package typealias Claimed = ClaimedEvent<Event, Details>

    let outbox: MediaOutbox<Event>
    let failing: FailingRecords
    /// Of each attempt.
    let count: @Sendable (_ isDelivered: Bool) -> Void
    let report: @Sendable (_ message: String) -> Void
    let details: @Sendable (CodedRecord<Event>) async throws(UploadError) -> Details?
    let post: @Sendable (Claimed) async throws(DeliveryFailure) -> Void

    /// Posts until the task is cancelled.
    func run() async {
        let posting = EventPosting<Claimed>(
            places: MediaOutbox<Event>.places,
            bell: outbox.bell,
            host: { $0.details.host ?? "" },
            report: { report($0.message) }
        )
        await posting.run { (limit, last, running) throws(UploadError) in
            try await outbox.claim(after: last, limit: limit, beside: running, failing: failing, details)
        } send: { (claimed) throws(UploadError) in
            try await send(claimed)
        }
    }

    private func send(_ claimed: Claimed) async throws(UploadError) {
        do throws(DeliveryFailure) {
            try await post(claimed)
            count(true)
        } catch {
            // The process is stopping: the claim ends by itself.
            if Task.isCancelled { return }
            count(false)
            report(error.message)
            let wanted = error.retryAfter.map { Int64(min(max($0, 0), 3600)) } ?? 0
            let pause = max(Self.pause(after: claimed.event.attempts), wanted)
            try await outbox.postpone(claimed.record, by: pause)
            ring(after: .seconds(pause))
            return
        }
        try await outbox.remove(claimed.record.record.key)
    }

    /// An event that is due before the next look does not wait for that.
    private func ring(after pause: Duration) {
        guard pause < EventPosting<Claimed>.longestPause else { return }
        Task { [bell = outbox.bell] in
            try? await Task.sleep(for: pause)
            bell.ring()
        }
    }

    /// Seconds before the next attempt: the first three are a second apart; then 2, 4, 8 seconds, up to an hour.
    static func pause(after attempts: Int) -> Int64 { attempts < 3 ? 1 : min(1 << Int64(min(attempts - 2, 12)), 3600) }
}
