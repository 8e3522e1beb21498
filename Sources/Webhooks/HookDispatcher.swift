package import Foundation
internal import Synchronization
package import UploadCore

/// Tells the app what happened: every recorded event at least once, those of one upload in their order.
///
/// An event is claimed before it is told, so that of several processes with one state one tells it. The claim is longer than an
/// attempt may take; when it ends without an outcome, its process has died, and any other tells the event.
package final class HookDispatcher: Sendable {
    /// What became of one attempt, for metrics and logs.
    package struct Attempt: Sendable {
        package var event: EventRecord
        package var outcome: DeliveryOutcome
    }

    private let caller: HookCaller
    private let state: any StateStore
    private let service: UploadService
    private let clock: any WallClock
    private let onAttempt: @Sendable (Attempt) -> Void
    private let onFailure: @Sendable (UploadError) -> Void
    /// Seconds for which an event is claimed.
    private let claim: TimeInterval
    /// How many events are on their way.
    private let inFlight = Mutex(0)
    private let bell = EventBell()

    /// - Parameters:
    ///   - caller: Sends hooks.
    ///   - state: Has the events.
    ///   - service: Rings when there are new ones, and stops uploads if the app says so.
    ///   - clock: For timestamps of hooks.
    ///   - margin: Seconds of a claim beyond the time that a call may take: to stop an upload, and to record the outcome.
    ///   - onAttempt: Told of every attempt.
    ///   - onFailure: Told when the state store fails.
    package init(
        _ caller: HookCaller,
        state: any StateStore,
        service: UploadService,
        clock: any WallClock,
        margin: TimeInterval = 60,
        onAttempt: @escaping @Sendable (Attempt) -> Void,
        onFailure: @escaping @Sendable (UploadError) -> Void
    ) {
        self.caller = caller
        self.state = state
        self.service = service
        self.clock = clock
        self.onAttempt = onAttempt
        self.onFailure = onFailure
        claim = caller.settings.timeout / .seconds(1) + margin
    }

    /// Delivers until the task is cancelled; what is on its way then is given back, and told again.
    package func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.passOn() }
            while !Task.isCancelled {
                let count = bell.count
                var pause = Self.longestPause
                do throws(UploadError) {
                    let room = caller.settings.concurrency - inFlight.withLock { $0 }
                    // Without room the end of one that is on its way rings.
                    if room > 0 {
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

    /// Looks for due deliveries now, after they were changed.
    package func wake() { bell.ring() }

    /// Rings here for every event of the service.
    private func passOn() async {
        while !Task.isCancelled {
            let count = service.bell.count
            bell.ring()
            await service.bell.wait(after: count, timeout: Self.longestPause)
        }
    }

    private func deliver(_ event: EventRecord, until claimEnd: ContinuousClock.Instant) async {
        // A process that was frozen has lost it.
        if .now < claimEnd {
            let outcome = await attempt(event)
            await record(outcome, of: event, until: claimEnd)
        }
        inFlight.withLock { $0 -= 1 }
        bell.ring()
    }

    /// Records an outcome, as often as it takes while the event is ours: what is not recorded is told again.
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

    /// - Returns: `nil` if the process is stopping.
    private func attempt(_ event: EventRecord) async -> DeliveryOutcome? {
        // No hook tells it any more, since the settings were changed.
        guard let name = HookName(event.kind), caller.settings.events.contains(name) else { return .delivered }
        let attempts = (event.delivery?.attempts ?? 0) + 1
        do throws(HookFailure) {
            let payload = HookPayload(name, event.upload, event.request)
            let reply = try await caller.call(payload, id: event.id, at: clock.now, timeout: caller.settings.timeout)
            if name == .postReceive, reply.stopsUpload == true { try await stop(event.upload.id, reply) }
            return .delivered
        } catch {
            if Task.isCancelled { return nil }
            if attempts >= caller.settings.maximumAttempts { return .dead(error: error.description) }
            let pause = max(Self.pause(after: attempts), min(error.retryAfter ?? 0, Self.longestRetry))
            return .retry(after: pause, error: error.description)
        }
    }

    /// - Throws: `HookFailure` if the upload goes on, so that the event is told, and the upload stopped, later.
    private func stop(_ id: UploadID, _ reply: HookReply) async throws(HookFailure) {
        do throws(UploadError) {
            try await service.stop(id, answer: reply.hookAnswer ?? HookAnswer())
        } catch {
            // It has ended by itself.
            if error.code == .gone || error.code == .notFound { return }
            throw HookFailure("the upload could not be stopped: \(error.message)", isTransient: true)
        }
    }

    /// Seconds from one attempt to the next: 1, 2, 4 … up to an hour, each a fifth shorter or longer by chance, so that many
    /// that failed together do not come back together.
    static func pause(after attempts: Int) -> Double {
        min(Double(1 << min(attempts - 1, 12)), longestRetry) * Double.random(in: 0.8...1.2)
    }

    private static let longestRetry: Double = 3600
    private static let longestPause = Duration.seconds(60)
    /// What is due was taken by somebody else just now.
    private static let shortestPause = Duration.milliseconds(10)
    private static let pauseAfterFailure = Duration.seconds(1)
}
