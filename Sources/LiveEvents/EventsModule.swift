package import GatewayKit
package import RESTKit
internal import UploadCore

/// Live upload events.
package struct EventsModule: GatewayModule {
    package let name = "events"
    package let routes: [Route]

    package init(_ context: GatewayContext) {
        routes =
            EventsAPI(
                service: context.services.events,
                uploads: context.services.uploads,
                feed: EventFeed(service: context.services.events),
                names: context.names,
                access: context.access,
                urls: context.urls,
                watch: StreamWatch(revoked: context.revoked, clock: context.clock)
            ).routes
    }
}
