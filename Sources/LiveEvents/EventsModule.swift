package import GatewayKit
package import RESTKit
package import ServiceLifecycle
internal import SettingsKit
internal import UploadCore
internal import UploadModel

/// Live upload events.
package struct EventsModule: GatewayModule {
    package let name = "events"
    package let routes: [Route]
    package let services: [any Service]

    package init(_ context: GatewayContext) {
        services = context.settings.events.keepsAll ? [KeepingService(events: context.services.events)] : []
        routes =
            EventsAPI(
                service: context.services.events,
                uploads: context.services.uploads,
                feed: EventFeed(service: context.services.events),
                names: context.names,
                access: context.access,
                urls: context.urls,
                watch: StreamWatch(
                    revoked: context.revoked,
                    authenticator: context.authenticator,
                    clock: context.clock
                )
            ).routes
    }
}

/// Makes the state record all events, as an open event stream does.
private struct KeepingService: Service {
    let events: EventService

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                // The service has reported an error.
                let isKept = (try? await events.keepEvents()) != nil
                try? await Task.sleep(for: isKept ? .seconds(600) : .seconds(1))
            }
        }
        try? await gracefulShutdown()
    }
}
