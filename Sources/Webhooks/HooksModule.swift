package import GatewayKit
package import RESTKit
package import ServiceLifecycle
internal import SettingsKit
internal import Telemetry
internal import UploadCore
internal import UploadModel

/// Delivers events of uploads to the app; `UploadService` calls the blocking hooks.
package struct HooksModule: GatewayModule {
    package let name = "hooks"
    package let routes: [Route]
    package let services: [any Service]
    private let caller: HookCaller?

    package init(_ context: GatewayContext, caller: HookCaller?, report: HookReport) {
        self.caller = caller
        let (uploads, events, observation) = (context.services.uploads, context.services.events, context.observation)
        let dispatcher = caller.map { caller in
            HookDispatcher(
                caller,
                state: context.state,
                service: uploads,
                events: events.bell,
                clock: context.clock,
                tracer: context.tracer,
                onAttempt: { attempt in
                    guard let name = HookName(attempt.event.kind) else { return }
                    report.delivered(name, attempt.event, attempt.outcome)
                },
                onFailure: { observation.observe(.failed(nil, $0)) }
            )
        }
        routes =
            HooksAPI(
                state: context.state,
                access: context.access,
                bodyLimit: context.bodyLimit,
                wake: { dispatcher?.wake() }
            ).routes
        if let dispatcher, context.mismatch == nil {
            services = [
                HookService(dispatcher: dispatcher),
                ProgressService(service: events, interval: context.settings.hooks.progressEvery),
                QueueService(state: context.state, report: report),
            ]
        } else {
            services = []
        }
    }

    package func cutOff() { caller?.cutOff() }

    package func close() { caller?.close() }
}

/// Delivers events to the app.
private struct HookService: Service {
    let dispatcher: HookDispatcher

    func run() async throws {
        await cancelWhenGracefulShutdown { await dispatcher.run() }
        try? await gracefulShutdown()
    }
}

/// Records the progress of uploads, for the app.
private struct ProgressService: Service {
    let service: EventService
    let interval: Duration

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                try? await Task.sleep(for: interval)
                await service.recordProgress()
            }
        }
        try? await gracefulShutdown()
    }
}

/// Counts what waits to be delivered.
private struct QueueService: Service {
    let state: any DeliveryRecords
    let report: HookReport

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                // A state that fails is reported by whoever needs it.
                if let pending = try? await state.pendingDeliveries() { report.waits(pending) }
                try? await Task.sleep(for: Self.interval)
            }
        }
        try? await gracefulShutdown()
    }

    private static let interval = Duration.seconds(5)
}
