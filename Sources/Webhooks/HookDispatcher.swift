internal import Foundation
internal import Synchronization
package import UploadCore

/// Tells the app what happened: every recorded event at least once, those of one upload in their order.
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
    private let inFlight = Mutex<Set<UploadID>>([])
    private let bell = EventBell()

    /// - Parameters:
    ///   - caller: Sends hooks.
    ///   - state: Has the events.
    ///   - service: Rings when there are new ones, and stops uploads if the app says so.
    ///   - clock: Decides what is due.
    ///   - onAttempt: Told of every attempt.
    ///   - onFailure: Told when the state store fails.
    package init(
        _ caller: HookCaller,
        state: any StateStore,
        service: UploadService,
        clock: any WallClock,
        onAttempt: @escaping @Sendable (Attempt) -> Void,
        onFailure: @escaping @Sendable (UploadError) -> Void
    ) {
        self.caller = caller
        self.state = state
        self.service = service
        self.clock = clock
        self.onAttempt = onAttempt
        self.onFailure = onFailure
    }

    /// Delivers until the task is cancelled; what is on its way then is told again by the next process.
    package func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.passOn() }
            while !Task.isCancelled {
                let count = bell.count
                var pause = Self.longestPause
                do throws(UploadError) {
                    let due = try await state.dueDeliveries(at: clock.now, limit: caller.settings.concurrency * 4)
                    for event in due where begin(event) {
                        group.addTask { await self.deliver(event) }
                    }
                    if let next = try await state.nextDelivery() {
                        let seconds = next.timeIntervalSince(clock.now)
                        // What is due already is on its way, or waits for a place: its end rings.
                        if seconds > 0 { pause = min(pause, .seconds(seconds)) }
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

    private func begin(_ event: EventRecord) -> Bool {
        inFlight.withLock { inFlight in
            inFlight.count < caller.settings.concurrency && inFlight.insert(event.upload.id).inserted
        }
    }

    private func deliver(_ event: EventRecord) async {
        let outcome = await attempt(event)
        if let outcome {
            do throws(UploadError) {
                try await state.settle(event.sequence, as: outcome, at: clock.now)
                onAttempt(Attempt(event: event, outcome: outcome))
            } catch {
                // It stays due, and is told again.
                onFailure(error)
                try? await Task.sleep(for: Self.pauseAfterFailure)
            }
        }
        inFlight.withLock { _ = $0.remove(event.upload.id) }
        bell.ring()
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
            return .retry(at: clock.now.addingTimeInterval(pause), error: error.description)
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
    private static let pauseAfterFailure = Duration.seconds(1)
}
