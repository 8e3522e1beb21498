package import Foundation
internal import Synchronization
package import Tracing
package import UploadCore
package import UploadModel

/// Delivers events to the app: every recorded event at least once, the events of one upload in order.
///
/// A dispatcher claims an event before it delivers it, so that only one of several processes with the same state does.
/// The claim lasts longer than an attempt can take. If it expires without an outcome, the process has died and another
/// one delivers the event.
package final class HookDispatcher: Sendable {
    /// The outcome of one attempt, for metrics and logs.
    package struct Attempt: Sendable {
        package var event: EventRecord
        package var outcome: DeliveryOutcome
    }

    private let caller: HookCaller
    private let state: any DeliveryRecords
    private let service: UploadService
    private let events: EventBell
    private let clock: any WallClock
    private let tracer: (any SpanRecorder)?
    private let onAttempt: @Sendable (Attempt) -> Void
    private let onFailure: @Sendable (UploadError) -> Void
    private let margin: TimeInterval
    /// Duration of a claim in seconds.
    private var claim: TimeInterval { caller.settings.timeout / .seconds(1) + margin }
    /// Number of events being delivered.
    private let inFlight = Mutex(0)
    private let bell = EventBell()

    /// - Parameters:
    ///   - caller: Sends hooks.
    ///   - state: Stores the events.
    ///   - service: Stops uploads if the app requests it.
    ///   - events: Rings for new events.
    ///   - clock: For timestamps of hooks.
    ///   - margin: Seconds that a claim lasts longer than a call, to stop an upload and to record the outcome.
    ///   - tracer: Continues the traces of the requests; `nil` without traces.
    ///   - onAttempt: Called after every attempt.
    ///   - onFailure: Called when the state store fails.
    package init(
        _ caller: HookCaller,
        state: any DeliveryRecords,
        service: UploadService,
        events: EventBell,
        clock: any WallClock,
        margin: TimeInterval = 60,
        tracer: (any SpanRecorder)? = nil,
        onAttempt: @escaping @Sendable (Attempt) -> Void,
        onFailure: @escaping @Sendable (UploadError) -> Void
    ) {
        self.caller = caller
        self.state = state
        self.service = service
        self.events = events
        self.clock = clock
        self.tracer = tracer
        self.onAttempt = onAttempt
        self.onFailure = onFailure
        self.margin = margin
    }

    /// Delivers until the task is cancelled.
    ///
    /// Claims of unfinished deliveries are then released, and these events are delivered again.
    package func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.passOn() }
            while !Task.isCancelled {
                let count = bell.count
                var pause = Self.longestPause
                do throws(UploadError) {
                    let room = caller.settings.concurrency - inFlight.withLock { $0 }
                    // If all slots are in use, the end of a delivery rings the bell.
                    if room > 0 {
                        let claim = claim
                        let claimEnd = ContinuousClock.now + .seconds(claim)
                        let due = try await state.claimDeliveries(limit: room, for: claim)
                        inFlight.withLock { $0 += due.count }
                        for event in due {
                            group.addTask { await self.deliver(event, until: claimEnd) }
                        }
                        if due.count < room, let next = try await state.nextDelivery() {
                            pause = min(pause, max(Self.shortestPause, .seconds(next)))
                        }
                    }
                } catch {
                    onFailure(error)
                    pause = Self.pauseAfterFailure
                }
                await bell.wait(after: count, timeout: pause)
            }
        }
    }

    /// Looks for due deliveries now; call it after deliveries were changed.
    package func wake() { bell.ring() }

    /// Rings the bell for every event of the service.
    private func passOn() async {
        while !Task.isCancelled {
            let count = events.count
            bell.ring()
            await events.wait(after: count, timeout: Self.longestPause)
        }
    }

    private func deliver(_ event: EventRecord, until claimEnd: ContinuousClock.Instant) async {
        // A process that was suspended has lost the claim.
        if .now < claimEnd {
            let outcome = await tracedAttempt(event)
            await record(outcome, of: event, until: claimEnd)
        }
        inFlight.withLock { $0 -= 1 }
        bell.ring()
    }

    /// Records an outcome, with retries while the claim lasts.
    ///
    /// An event whose outcome is not recorded is delivered again.
    private func record(
        _ outcome: DeliveryOutcome?,
        of event: EventRecord,
        until claimEnd: ContinuousClock.Instant
    ) async {
        while true {
            do throws(UploadError) {
                if let outcome {
                    try await state.settle(event, as: outcome)
                    onAttempt(Attempt(event: event, outcome: outcome))
                } else {
                    try await state.release(event)
                }
                return
            } catch {
                onFailure(error)
                let next = ContinuousClock.now + Self.pauseAfterFailure
                if next >= claimEnd { return }
                if (try? await Task.sleep(until: next)) == nil { return }
            }
        }
    }

    /// Like `attempt`, as part of the trace of the request that caused the event.
    private func tracedAttempt(_ event: EventRecord) async -> DeliveryOutcome? {
        guard let tracer, let parent = event.request?.trace.flatMap({ TraceContext(parent: $0) }) else {
            return await attempt(event)
        }
        let scope = tracer.scope(continuing: parent)
        let outcome = await TraceScope.$current.with(scope) { await attempt(event) }
        var error: String?
        if case .retry = outcome { error = "retry" }
        if case .dead = outcome { error = "dead" }
        scope.end(
            "deliver \(event.kind.rawValue)",
            .work,
            [FinishedSpan.Attribute("sluice.upload.id", event.upload.id.text)],
            error: error
        )
        return outcome
    }

    /// - Returns: `nil` if the process is stopping.
    private func attempt(_ event: EventRecord) async -> DeliveryOutcome? {
        // The settings were changed since: this event no longer has a hook.
        guard let name = HookName(event.kind), caller.settings.events.contains(name) else { return .delivered }
        let attempts = (event.delivery?.attempts ?? 0) + 1
        do throws(HookFailure) {
            let payload = HookPayload(name, event.upload, event.request)
            let reply = try await caller.call(
                name,
                event.upload,
                payload,
                id: event.id,
                at: clock.now,
                timeout: caller.settings.timeout
            )
            if name == .postReceive, reply.stopsUpload == true { try await stop(event.upload.id, reply) }
            return .delivered
        } catch {
            if Task.isCancelled { return nil }
            if attempts >= caller.settings.maximumAttempts { return .dead(error: error.description) }
            let pause = max(Self.pause(after: attempts), min(error.retryAfter ?? 0, Self.longestRetry))
            return .retry(after: pause, error: error.description)
        }
    }

    /// - Throws: `HookFailure` if stopping failed, so that the event is delivered, and the upload stopped, later.
    private func stop(_ id: UploadID, _ reply: HookReply) async throws(HookFailure) {
        do throws(UploadError) {
            try await service.stop(id, response: reply.hookResponse ?? HookResponse())
        } catch {
            // It has already ended.
            if error.code == .gone || error.code == .notFound { return }
            throw HookFailure("the upload could not be stopped: \(error.message)", isTransient: true)
        }
    }

    /// Seconds before the next attempt: 1, 2, 4 … up to an hour, each changed at random by up to a fifth, so that
    /// deliveries that failed together are not repeated together.
    static func pause(after attempts: Int) -> Double {
        min(Double(1 << min(attempts - 1, 12)), longestRetry) * Double.random(in: 0.8...1.2)
    }

    private static let longestRetry: Double = 3600
    private static let longestPause = Duration.seconds(60)
    /// Due events were just claimed by another process.
    private static let shortestPause = Duration.milliseconds(10)
    private static let pauseAfterFailure = Duration.seconds(1)
}
